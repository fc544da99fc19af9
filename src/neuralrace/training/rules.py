"""How weights move once the gradient is known: rules are pytrees whose numbers are leaves."""

import contextlib
from abc import abstractmethod
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from neuralrace.axes import Array
from neuralrace.errors import (
    RangeError,
    UnknownNameError,
    WeightError,
    nearest,
    require_call,
    require_number,
    shortened,
)
from neuralrace.training.learner import Learner, LossFunction, Parameters


class Rule(eqx.Module):
    """One seed's update. projects: every step is a combination of gradients, so wide linear nodes may be projected."""

    name: ClassVar[str] = "own"
    projects: ClassVar[bool] = True

    def start(self, learner: LossFunction, parameters: Parameters) -> Any:
        """Make the memory before the first step (default: none)."""
        return ()

    @abstractmethod
    def move(
        self, learner: LossFunction, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Return the parameters after one step, and the memory then; slope: the gradient, number: of the step."""

    def as_data(self) -> dict[str, Any]:
        """Describe the rule in plain values; of a schedule its first and last value."""
        found: dict[str, Any] = {"rule": self.name}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray | jax.Array | float):
                values = np.asarray(value)
                ends = {"schedule": [float(values.flat[0]), float(values.flat[-1])], "steps": values.size}
                value = ends if values.ndim else float(values)
            found[field.name] = value
        return found


class Descent(Rule):
    """W <- W - learning_rate * gradient; learning_rate: a number, or one for every step."""

    name = "descent"
    learning_rate: Array

    def move(
        self, learner: LossFunction, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take one step down the slope."""
        return _moved(parameters, self.learning_rate, number, slope), memory


class Momentum(Rule):
    """The heavy ball: V <- momentum * V + gradient, W <- W - learning_rate * V."""

    name = "momentum"
    learning_rate: Array
    momentum: Array

    def start(self, learner: LossFunction, parameters: Parameters) -> Parameters:
        """Start with velocity zero."""
        return jax.tree.map(jnp.zeros_like, parameters)

    def move(
        self, learner: LossFunction, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take one step with the velocity."""
        velocity = jax.tree.map(lambda v, g: self.momentum * v + g, memory, slope)
        return _moved(parameters, self.learning_rate, number, velocity), velocity


class Optax(Rule):
    """Any optax optimizer, which sees one matrix per edge, however the weights are stacked for computing.

    Most optimizers treat each entry on its own. settings: of one given by name, as items.
    """

    name = "optax"
    projects = False
    optimizer: optax.GradientTransformation = eqx.field(static=True)
    settings: tuple[tuple[str, Any], ...] = eqx.field(static=True, default=())

    def start(self, learner: LossFunction, parameters: Parameters) -> Any:
        """Make the optimizer's own state."""
        assert isinstance(learner, Learner)
        with _working_optimizer():
            return self.optimizer.init(learner.unpack(parameters))

    def move(
        self, learner: LossFunction, memory: Any, parameters: Parameters, slope: Parameters, number: jax.Array
    ) -> tuple[Parameters, Any]:
        """Take the optimizer's own step."""
        assert isinstance(learner, Learner)
        weights = learner.unpack(parameters)
        with _working_optimizer():
            updates, memory = self.optimizer.update(learner.unpack(slope), memory, weights)
            return learner.pack(optax.apply_updates(weights, updates)), memory

    def as_data(self) -> dict[str, Any]:
        """Name the optimizer and its settings; one given as a value has neither."""
        told = {
            key: value if isinstance(value, str | bool | int | float) else shortened(value)
            for key, value in self.settings
        }
        return {"rule": self.name, "optimizer": told or "an optax transformation"}


def make_rule(learning_rate: Any, optimizer: Any, steps: int) -> tuple[Rule, np.ndarray | float]:
    """Make the rule and the time of a step: a number, or one for every step.

    learning_rate: a number, or an optax schedule of the step. optimizer: None for plain descent, an optax gradient
    transformation, a name such as "adam", or a mapping with a name and settings; the time of its steps is
    learning_rate if that is given, and else one.
    """
    rate = 1.0 if learning_rate is None else _checked_rate(learning_rate, steps)
    if optimizer is None:
        if learning_rate is None:
            raise RangeError("learning_rate is required: give learning_rate=..., or an optax optimizer=...")
        return Descent(np.asarray(rate)), rate
    if isinstance(optimizer, str):
        given = learning_rate if callable(learning_rate) else rate
        optimizer = {"name": optimizer} | ({} if learning_rate is None else {"learning_rate": given})
    if isinstance(optimizer, Mapping):
        for name, value in optimizer.items():
            if not isinstance(value, Hashable):
                raise WeightError(f"setting {name!r} of an optimizer must be one value; it was {shortened(value)}")
        settings = {str(name): value for name, value in optimizer.items() if name != "name"}
        return _named_optimizer(optimizer.get("name"), tuple(sorted(settings.items()))), rate
    if not isinstance(optimizer, optax.GradientTransformation):
        raise WeightError(
            f"optimizer must be an optax gradient transformation such as optax.adam(1e-3), or its name; "
            f"it was {type(optimizer).__name__}"
        )
    return Optax(optimizer), rate


@contextlib.contextmanager
def _working_optimizer() -> Iterator[None]:
    try:
        yield
    except (TypeError, ValueError, KeyError) as error:
        raise WeightError(
            f"the optimizer must make a step from gradients and weights alone, and this one fails: "
            f"{shortened(error, 120)}; those that ask for the loss too (lbfgs, polyak_sgd, reduce_on_plateau) do not "
            "serve, and a schedule that an optimizer follows takes jnp.where in place of if"
        ) from error


@cache
def _named_optimizer(name: Any, settings: tuple[tuple[str, Any], ...]) -> Optax:
    """The same value for the same settings, so that a second training compiles nothing."""
    make = getattr(optax, str(name), None)
    if not callable(make):
        known = [one for one in dir(optax) if one.islower() and not one.startswith("_")]
        raise UnknownNameError(f"optax has no optimizer {name!r}; {nearest(name, known)}")
    try:
        made = make(**dict(settings))
    except (TypeError, ValueError) as error:
        example = f'{{"name": "{name}", "learning_rate": 1e-3}}'
        raise WeightError(
            f"optax.{name} cannot be made with {dict(settings)}: {error}; its settings stand beside its name, "
            f"optimizer={example}"
        ) from None
    if not isinstance(made, optax.GradientTransformation):
        raise UnknownNameError(f"optax.{name} is not an optimizer")
    return Optax(made, (("name", name), *settings))


def _checked_rate(learning_rate: Any, steps: int) -> np.ndarray | float:
    if not callable(learning_rate):
        return require_number("learning_rate", learning_rate, above=0)
    require_call("learning_rate, a schedule,", learning_rate, "the step", 0)
    try:
        rates = np.array([float(learning_rate(step)) for step in range(max(steps, 1))])
    except Exception as error:  # it is the caller's function
        raise RangeError(
            f"a schedule of learning rates must return a number for every step ({shortened(error, 300)})"
        ) from error
    valid = np.isfinite(rates) & (rates >= 0)
    if not valid.all():
        first = int(np.argmin(valid))
        raise RangeError(
            f"a schedule of learning rates must give finite numbers that are not negative; step {first}: {rates[first]}"
        )
    return rates


def _moved(parameters: Parameters, rate: Array, step: jax.Array, slope: Parameters) -> Parameters:
    at = rate if jnp.ndim(rate) == 0 else jnp.asarray(rate)[jnp.minimum(step, rate.shape[0] - 1)]
    return jax.tree.map(lambda w, g: w - at * g, parameters, slope)
