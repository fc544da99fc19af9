"""Exact learning curves, for plain numbers and arrays.

Each solution is a frozen value. Learning curves have `strength(times)`, `loss(times)` and `time(level)`; a `Race` of
views has the strengths and times of its views, and a `PairRace` the strengths and the untrained error at its end. Time
is learning_rate * step, the loss is half the mean squared error, and results are NumPy arrays. Derivations and
assumptions are in docs/theory/exact.md.
"""

from neuralrace.theory.exact.contextual import Contextual
from neuralrace.theory.exact.modes import Mode, TwoLayer
from neuralrace.theory.exact.pairs import PairRace
from neuralrace.theory.exact.race import Race

__all__ = ["Contextual", "Mode", "PairRace", "Race", "TwoLayer"]
