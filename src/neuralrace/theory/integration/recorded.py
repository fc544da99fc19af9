"""diffrax's view of a system: its state as one vector, and steps that keep what the system records."""

import math
from typing import Any, ClassVar, NamedTuple, Protocol

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.theory.integration.explicit import Explicit
from neuralrace.theory.integration.quartic import Quartic
from neuralrace.theory.integration.stiff import Stiff

NOISE = 4e-16  # rounding of the largest number of a state, below which an error means nothing


class System(Protocol):
    """An autonomous differential equation with its own measure of error; an equinox module."""

    def velocity(self, state: Any) -> Any:
        """The right-hand side."""

    def error(self, error: Any, before: Any, after: Any, rtol: jax.Array) -> jax.Array:
        """The largest error over the modes as a multiple of what is allowed."""

    def record(self, state: Any) -> Any:
        """What is kept of a state."""

    def rate(self, state: Any, velocity: Any) -> Any:
        """The derivative in time of what is kept."""


class Flat(eqx.Module):
    """A system whose state is one vector; few arrays make a program that compiles fast."""

    system: Any
    structure: Any = eqx.field(static=True)
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    def term(self) -> diffrax.ODETerm:
        """The equation as diffrax has it."""
        return diffrax.ODETerm(lambda t, y, args: self.velocity(y))

    def velocity(self, vector: jax.Array) -> jax.Array:
        """The right-hand side; traced once, however often it is used."""
        return _velocity(self, vector)

    def error(self, error: jax.Array, before: jax.Array, after: jax.Array, rtol: jax.Array) -> jax.Array:
        """The system's own measure."""
        found: jax.Array = self.system.error(*map(self.restore, (error, before, after)), rtol)
        return found

    def record(self, vector: jax.Array) -> Any:
        """What is kept of a state."""
        return self.system.record(self.restore(vector))

    def rate(self, vector: jax.Array, velocity: jax.Array) -> Any:
        """The derivative in time of what is kept."""
        return self.system.rate(self.restore(vector), self.restore(velocity))

    def restore(self, vector: jax.Array | np.ndarray) -> Any:
        """The state that the vector stands for."""
        leaves, start = [], 0
        for shape in self.shapes:
            size = math.prod(shape)
            leaves.append(vector[start : start + size].reshape(shape))
            start += size
        return jax.tree.unflatten(self.structure, leaves)


def flatten(system: System, state: Any) -> tuple[Flat, jax.Array]:
    """A system and its state in terms of one vector."""
    leaves, structure = jax.tree.flatten(jax.device_get(state))
    vector = jax.device_put(np.concatenate([leaf.ravel() for leaf in leaves]))
    return Flat(system, structure, tuple(leaf.shape for leaf in leaves)), vector


@eqx.filter_jit
def _velocity(flat: Flat, vector: jax.Array) -> jax.Array:
    velocity = flat.system.velocity(flat.restore(vector))
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(velocity)])


class Noted(NamedTuple):
    """The solver's memory, and the record and its rate at the start of a step."""

    memory: Any
    record: Any
    rate: Any


class Recorded(diffrax.AbstractAdaptiveSolver[Noted]):
    """A solver whose dense output is the system's record.

    The loss late in learning is tiny beside its terms. Drawn from itself it keeps its digits; drawn from weights that
    are themselves drawn it would lose them, and cost an evaluation at each time that is asked for.
    """

    solver: Explicit | Stiff
    flat: Flat
    rtol: jax.Array | np.ndarray  # the tolerance that it is used with
    interpolation_cls: ClassVar[Any] = Quartic

    @property
    def term_structure(self) -> Any:
        """That of the solver."""
        return self.solver.term_structure

    def order(self, terms: Any) -> Any:
        """That of the solver."""
        return self.solver.order(terms)

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        """The velocity."""
        return self.solver.func(terms, t0, y0, args)

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Noted:
        """The record at the start."""
        rate = self.flat.rate(y0, self.func(terms, t0, y0, args))
        return Noted(self.solver.init(terms, t0, t1, y0, args), self.flat.record(y0), rate)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Noted, made_jump: Any) -> Any:
        """A step of the solver, and the record half way and at its end."""
        after, error, info, memory, result = self.solver.step(terms, t0, t1, y0, args, solver_state.memory, made_jump)
        width = t1 - t0
        both = jax.lax.map(self.flat.record, jnp.stack([info["middle"], after]))
        middle, end = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in range(2))
        rate = self.flat.rate(after, info["end_slope"] / width)
        parts = {
            "start": solver_state.record,
            "middle": middle,
            "end": end,
            "start_slope": jax.tree.map(lambda leaf: width * leaf, solver_state.rate),
            "end_slope": jax.tree.map(lambda leaf: width * leaf, rate),
        }
        return after, error, parts, Noted(memory, end, rate), result
