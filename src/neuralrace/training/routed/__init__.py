"""Networks on routed images: an encoder for each input domain, a shared layer, a decoder for each output domain."""

from neuralrace.training.routed.learner import RoutedLearner, make_routed_learner
from neuralrace.training.routed.network import RoutedNetwork

__all__ = ["RoutedLearner", "RoutedNetwork", "make_routed_learner"]
