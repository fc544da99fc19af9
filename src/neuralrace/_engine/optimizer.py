"""Steps of optax optimizers, which see one matrix per edge, however the weights are stacked for computing."""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import optax

from neuralrace.axes import Edge
from neuralrace.errors import WeightError, shortened

ByEdge = Mapping[Edge, jax.Array]


def check_optimizer(given: Any) -> Any:
    """Refuse anything but an optax transformation."""
    if not isinstance(given, optax.GradientTransformation):
        raise WeightError(
            f"optimizer must be an optax gradient transformation such as optax.adam(1e-3); it was "
            f"{type(given).__name__}"
        )
    return given


def optimizer_start(optimizer: Any, weights: ByEdge) -> Any:
    """Make the optimizer's own state."""
    return _working(optimizer.init, weights)


def optimizer_step(optimizer: Any, slope: ByEdge, memory: Any, weights: ByEdge) -> tuple[Any, Any]:
    """Take the optimizer's own step: the weights after it, and its state."""
    updates, memory = _working(optimizer.update, slope, memory, weights)
    return optax.apply_updates(weights, updates), memory


def _working(function: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return function(*arguments)
    except (TypeError, ValueError, KeyError) as error:
        raise WeightError(
            f"the optimizer must make a step from gradients and weights alone, and this one fails: "
            f"{shortened(error, 120)}; those that ask for the loss too (lbfgs, polyak_sgd, reduce_on_plateau) are "
            "not supported; write schedules with jnp.where instead of if"
        ) from error
