"""How weights move once the gradient is known: rules are pytrees whose numbers are leaves."""

import contextlib
import json
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from types import FunctionType
from typing import Any

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
    in_one_line,
    nearest,
    require_call,
    require_number,
    shortened,
)
from neuralrace.source import DEEPEST, EMPTY, made_of
from neuralrace.training.learner import Landscape, Learner, Parameters

Gradient = Callable[[Parameters], Parameters]  # the gradient at other parameters


class Step(eqx.Module):
    """Where a rule stands: the parameters, the gradient there and elsewhere, and how many steps were taken."""

    parameters: Parameters
    slope: Parameters
    gradient: Gradient
    number: jax.Array


class Rule(eqx.Module):
    """One seed's update."""

    def start(self, learner: Landscape, parameters: Parameters) -> Any:
        """What the rule remembers before the first step: nothing, unless it says otherwise."""
        return ()

    @abstractmethod
    def move(self, learner: Landscape, memory: Any, at: Step) -> tuple[Parameters, Any]:
        """The parameters after one step, and what is remembered then."""

    @abstractmethod
    def as_data(self) -> dict[str, Any]:
        """The rule in plain values."""

    @property
    def remembers(self) -> bool:
        """Whether there is anything to remember."""
        return type(self).start is not Rule.start

    @property
    def narrows(self) -> bool:
        """Whether every step is a combination of gradients, so that wide linear nodes can be narrowed exactly."""
        return True


class Descent(Rule):
    """W <- W - rate * gradient; rate: a number, or one for every step."""

    rate: Array

    def move(self, learner: Landscape, memory: Any, at: Step) -> tuple[Parameters, Any]:
        """One step down the slope."""
        return _moved(at.parameters, _rate(self.rate, at.number), at.slope), memory

    def as_data(self) -> dict[str, Any]:
        """The rate, or its schedule's first and last value."""
        return {"rule": "descent"} | _rate_as_data(self.rate)


class Momentum(Rule):
    """The heavy ball: V <- momentum * V + gradient, W <- W - rate * V."""

    rate: Array
    momentum: Array

    def start(self, learner: Landscape, parameters: Parameters) -> Parameters:
        """The ball is at rest."""
        return jax.tree.map(jnp.zeros_like, parameters)

    def move(self, learner: Landscape, memory: Any, at: Step) -> tuple[Parameters, Any]:
        """One step with the velocity."""
        velocity = jax.tree.map(lambda v, g: self.momentum * v + g, memory, at.slope)
        return _moved(at.parameters, _rate(self.rate, at.number), velocity), velocity

    def as_data(self) -> dict[str, Any]:
        """The rate and the momentum."""
        return {"rule": "momentum", "momentum": float(self.momentum)} | _rate_as_data(self.rate)


class RungeKutta(Rule):
    """Gradient flow by the classical method of fourth order, with the step of descent."""

    rate: Array

    def move(self, learner: Landscape, memory: Any, at: Step) -> tuple[Parameters, Any]:
        """One step of the flow."""
        rate = _rate(self.rate, at.number)

        def stage(total_and_slope: tuple[Any, Any], lengths: tuple[Any, Any]) -> tuple[tuple[Any, Any], None]:
            (total, slope), (reach, share) = total_and_slope, lengths
            slope = at.gradient(_moved(at.parameters, reach * rate, slope))
            return (jax.tree.map(lambda sum_, s: sum_ + share * s, total, slope), slope), None

        # a loop, so that the gradient is compiled once
        stages = (jnp.array([0.5, 0.5, 1.0]), jnp.array([2.0, 2.0, 1.0]))
        (total, _), _ = jax.lax.scan(stage, (at.slope, at.slope), stages)
        mean = jax.tree.map(lambda sum_: sum_ / 6, total)
        return _moved(at.parameters, rate, mean), memory

    def as_data(self) -> dict[str, Any]:
        """The step of the flow."""
        return {"rule": "flow"} | _rate_as_data(self.rate)


class Optax(Rule):
    """Any optax optimizer, which sees one matrix per edge, however the weights are stacked for computing."""

    optimizer: optax.GradientTransformation = eqx.field(static=True)
    described: str = eqx.field(static=True)  # as JSON

    def start(self, learner: Landscape, parameters: Parameters) -> Any:
        """The optimizer's own state."""
        assert isinstance(learner, Learner)
        with _working_optimizer():
            return self.optimizer.init(_by_name(learner, parameters))

    def move(self, learner: Landscape, memory: Any, at: Step) -> tuple[Parameters, Any]:
        """The optimizer's own step."""
        assert isinstance(learner, Learner)
        weights = _by_name(learner, at.parameters)
        with _working_optimizer():
            updates, memory = self.optimizer.update(_by_name(learner, at.slope), memory, weights)
            moved = optax.apply_updates(weights, updates)
        edges = learner.architecture.edges
        return learner.pack({edge: moved[f"edge {i}"] for i, edge in enumerate(edges)}), memory

    def as_data(self) -> dict[str, Any]:
        """The optimizer's name and settings, or what can be read of one that was given."""
        return {"rule": "optax", "optimizer": json.loads(self.described)}

    @property
    def narrows(self) -> bool:
        """Most optimizers treat each entry on its own."""
        return False


def make_rule(learning_rate: Any, optimizer: Any, steps: int) -> tuple[Rule, np.ndarray | float]:
    """The rule that was asked for, and the time of a step: a number, or one for every step.

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
        settings = {str(name): value for name, value in optimizer.items() if name != "name"}
        for name, value in optimizer.items():
            if not isinstance(value, Hashable):
                raise WeightError(f"setting {name!r} of an optimizer must be one value; it was {shortened(value)}")
        return _named_optimizer(optimizer.get("name"), tuple(sorted(settings.items()))), rate
    if not isinstance(optimizer, optax.GradientTransformation):
        raise WeightError(
            f"optimizer must be an optax gradient transformation such as optax.adam(1e-3), or its name; "
            f"it was {type(optimizer).__name__}"
        )
    return _given_optimizer(_Given(_parts(optimizer), optimizer)), rate


@dataclass(frozen=True)
class _Given:
    """An optimizer that is equal to another if both do the same."""

    parts: Hashable
    optimizer: optax.GradientTransformation = field(compare=False)


@lru_cache(maxsize=64)
def _given_optimizer(given: _Given) -> Optax:
    """The same value for optimizers that do the same, so that a second training compiles nothing."""
    return Optax(given.optimizer, json.dumps(made_of(given.optimizer)))


@dataclass(frozen=True, eq=False)
class _Itself:
    """A value that is equal to no other."""

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def _parts(value: Any, depth: int = 0) -> Hashable:
    """What a value does: optax's functions by their code and what they close over, numbers and words.

    All else is itself: a function of one's own may read a name that has another value the next time.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return type(value), value
    inner = partial(_parts, depth=depth + 1)
    if isinstance(value, tuple) and depth < DEEPEST:
        return type(value), *map(inner, value)
    if isinstance(value, FunctionType) and str(value.__module__).partition(".")[0] == "optax" and depth < DEEPEST:
        held = tuple(inner(cell.cell_contents) for cell in value.__closure__ or () if cell != EMPTY)
        named = tuple((name, inner(part)) for name, part in (value.__kwdefaults__ or {}).items())
        return value.__code__, inner(value.__defaults__), named, held
    return _Itself(value)


@contextlib.contextmanager
def _working_optimizer() -> Iterator[None]:
    """Say of an optimizer that fails as it is tried what it is given."""
    try:
        yield
    except (TypeError, ValueError, KeyError) as error:
        raise WeightError(
            f"the optimizer must make a step from gradients and weights alone, and this one fails: "
            f"{in_one_line(error, 120)}; those that ask for the loss too (lbfgs, polyak_sgd, reduce_on_plateau) do not "
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
    return Optax(made, json.dumps({"name": name} | {key: made_of(value) for key, value in settings}))


def _checked_rate(learning_rate: Any, steps: int) -> np.ndarray | float:
    if not callable(learning_rate):
        return require_number("learning_rate", learning_rate, above=0)
    require_call("learning_rate, a schedule,", learning_rate, "the step", 0)
    try:
        rates = np.array([float(learning_rate(step)) for step in range(max(steps, 1))])
    except Exception as error:  # it is the caller's function
        raise RangeError(
            f"a schedule of learning rates must return a number for every step ({in_one_line(error)})"
        ) from error
    if not (np.isfinite(rates) & (rates >= 0)).all():
        first = int(np.argmin(np.isfinite(rates) & (rates >= 0)))
        raise RangeError(
            f"a schedule of learning rates must give finite numbers that are not negative; step {first}: {rates[first]}"
        )
    return rates


def _rate(rate: Array, step: jax.Array) -> Any:
    return rate if jnp.ndim(rate) == 0 else jnp.asarray(rate)[jnp.minimum(step, rate.shape[0] - 1)]


def _rate_as_data(rate: Array) -> dict[str, Any]:
    rates = np.asarray(rate)
    if rates.ndim == 0:
        return {"learning_rate": float(rates)}
    return {"learning_rate": {"schedule": [float(rates[0]), float(rates[-1])], "steps": len(rates)}}


def _moved(parameters: Parameters, rate: Any, slope: Parameters) -> Parameters:
    return jax.tree.map(lambda w, g: w - rate * g, parameters, slope)


def _by_name(learner: Learner, parameters: Parameters) -> dict[str, jax.Array]:
    """Trees sort their keys, and edges may be strings or pairs: name them by their place."""
    return {f"edge {i}": matrix for i, matrix in enumerate(learner.unpack(parameters).values())}
