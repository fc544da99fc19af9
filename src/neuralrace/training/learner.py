"""What the training loop needs to know of a network: its parameters, its loss and gradient, what can be seen of it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights

Parameters = Any  # a tree of arrays
Data = Any  # a tree of arrays
Views = dict[str, jax.Array]  # variable -> array, for one seed at one moment


class Learner(Protocol):
    """A network as pure functions of its parameters, for one seed."""

    @property
    def architecture(self) -> Architecture:
        """The graph whose edges carry the weights."""

    @property
    def example_count(self) -> int:
        """How many examples mini-batches are drawn from."""

    def data(self, mini_batches: bool) -> Data:
        """The examples that the functions below are handed, so that they are not compiled in."""

    def pack(self, weights: Weights) -> Parameters:
        """Arrange weights for computing."""

    def unpack(self, parameters: Parameters) -> Mapping[Edge, jax.Array]:
        """Weights by edge again; leading axes are kept."""

    def loss_and_gradient(self, parameters: Parameters, data: Data) -> tuple[jax.Array, Parameters]:
        """The loss over all examples and the direction that training descends."""

    def batch_gradient(self, parameters: Parameters, data: Data, examples: jax.Array) -> Parameters:
        """The gradient of the loss over some examples, in the same units."""

    def views(self, names: tuple[str, ...]) -> Callable[[Parameters, Data], Views]:
        """What to record of the network itself: outputs, activity, gates."""


def path_product(weights: Mapping[Edge, jax.Array], edges: tuple[Edge, ...]) -> jax.Array:
    """W_p, the ordered product of the weights along a path."""
    product = weights[edges[0]]
    for edge in edges[1:]:
        product = weights[edge] @ product
    return product


def singular_values(matrices: np.ndarray) -> np.ndarray:
    """The singular values of a batch of matrices, largest first, by LAPACK; NaN where a matrix is not finite."""
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    if finite.all():
        return np.linalg.svd(matrices, compute_uv=False)
    values = np.linalg.svd(np.where(finite[..., None, None], matrices, 0.0), compute_uv=False)
    return np.where(finite[..., None], values, np.nan)
