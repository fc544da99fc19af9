"""Update rules: how the gradient moves the weights; pytrees whose numbers are leaves."""

from abc import abstractmethod
from dataclasses import fields
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from neuralrace._engine.optimizer import check_optimizer, optimizer_start, optimizer_step
from neuralrace.axes import Array
from neuralrace.errors import RangeError, require_number
from neuralrace.training.learner import Learner, Parameters


class Rule(eqx.Module):
    """One seed's update. projects: every step is a combination of gradients, so wide linear nodes may be projected."""

    name: ClassVar[str] = "own"
    projects: ClassVar[bool] = True

    def start(self, learner: Learner, parameters: Parameters) -> Any:
        """Make the memory before the first step (default: none)."""
        return ()

    @abstractmethod
    def move(
        self, learner: Learner, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Return the parameters after one step, and the memory then; slope: the gradient, number: of the step."""

    def as_data(self) -> dict[str, Any]:
        """Describe the rule in plain values."""
        return {"rule": self.name} | {one.name: np.asarray(getattr(self, one.name)).tolist() for one in fields(self)}


class Descent(Rule):
    """W <- W - learning_rate * gradient."""

    name = "descent"
    learning_rate: Array

    def move(
        self, learner: Learner, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take one step down the slope."""
        return jax.tree.map(lambda w, g: w - self.learning_rate * g, parameters, slope), memory


class Momentum(Rule):
    """The heavy ball: V <- momentum * V + gradient, W <- W - learning_rate * V."""

    name = "momentum"
    learning_rate: Array
    momentum: Array

    def start(self, learner: Learner, parameters: Parameters) -> Parameters:
        """Start with velocity zero."""
        return jax.tree.map(jnp.zeros_like, parameters)

    def move(
        self, learner: Learner, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take one step with the velocity."""
        velocity = jax.tree.map(lambda v, g: self.momentum * v + g, memory, slope)
        return jax.tree.map(lambda w, v: w - self.learning_rate * v, parameters, velocity), velocity


class Optax(Rule):
    """Any optax optimizer, which sees one matrix per edge, however the weights are stacked for computing.

    Most optimizers treat each entry on its own.
    """

    name = "optax"
    projects = False
    optimizer: optax.GradientTransformation = eqx.field(static=True)

    def start(self, learner: Learner, parameters: Parameters) -> Any:
        """Make the optimizer's own state."""
        return optimizer_start(self.optimizer, learner.unpack(parameters))

    def move(
        self, learner: Learner, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take the optimizer's own step."""
        weights, slope = learner.unpack(parameters), learner.unpack(slope)
        weights, memory = optimizer_step(self.optimizer, slope, memory, weights)
        return learner.pack(weights), memory

    def as_data(self) -> dict[str, Any]:
        """Name the rule; an optimizer cannot be described."""
        return {"rule": self.name, "optimizer": "an optax transformation"}


def make_rule(learning_rate: Any, optimizer: Any) -> tuple[Rule, float]:
    """Make the rule and the time of a step: descent, or an optax optimizer, whose steps take learning_rate or one."""
    if learning_rate is None and optimizer is None:
        raise RangeError("learning_rate is required: give learning_rate=..., or an optax optimizer=...")
    rate = 1.0 if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    if optimizer is None:
        return Descent(np.asarray(rate)), rate
    return Optax(check_optimizer(optimizer)), rate
