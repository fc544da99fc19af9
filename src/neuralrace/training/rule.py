"""How weights move once the gradient is known: plain descent, or any optax optimiser."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import optax

from neuralrace.errors import WeightError
from neuralrace.training.learner import Learner, Parameters


@dataclass(frozen=True)
class Rule:
    """start: parameters -> state. move: (gradient, state, parameters) -> (parameters, state)."""

    start: Callable[[Parameters], Any]
    move: Callable[[Parameters, Any, Parameters], tuple[Parameters, Any]]
    name: str


def plain_descent(learning_rate: float) -> Rule:
    """W <- W - rate * gradient."""

    def move(gradient: Parameters, state: Any, parameters: Parameters) -> tuple[Parameters, Any]:
        return jax.tree.map(lambda w, g: w - learning_rate * g, parameters, gradient), state

    return Rule(lambda parameters: (), move, f"gradient descent ({learning_rate:g})")


def optax_rule(optimiser: Any, learner: Learner) -> Rule:
    """An optax optimiser, which sees one matrix per edge, however the weights are stacked for computing."""
    if not isinstance(optimiser, optax.GradientTransformation):
        raise WeightError(
            f"optimiser must be an optax gradient transformation such as optax.adam(1e-3); "
            f"it was {type(optimiser).__name__}"
        )

    def by_name(parameters: Parameters) -> dict[str, jax.Array]:
        # trees sort their keys, and edges may be strings or pairs: name them by their place
        return {f"edge {i}": matrix for i, matrix in enumerate(learner.unpack(parameters).values())}

    def start(parameters: Parameters) -> Any:
        return optimiser.init(by_name(parameters))

    def move(gradient: Parameters, state: Any, parameters: Parameters) -> tuple[Parameters, Any]:
        weights = by_name(parameters)
        updates, state = optimiser.update(by_name(gradient), state, weights)
        moved = optax.apply_updates(weights, updates)
        edges = learner.architecture.edges
        return learner.pack({edge: moved[f"edge {i}"] for i, edge in enumerate(edges)}), state

    return Rule(start, move, "optax")
