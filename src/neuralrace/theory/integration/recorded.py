"""diffrax's view of a system, and steps that keep what the system records."""

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


@eqx.filter_jit
def velocity_of(system: System, state: Any) -> Any:
    """The velocity; traced once, however often it is used."""
    return system.velocity(state)


def term(system: System) -> diffrax.ODETerm:
    """The equation as diffrax has it."""
    return diffrax.ODETerm(lambda t, y, args: velocity_of(system, y))


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
    system: Any
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
        rate = self.system.rate(y0, self.func(terms, t0, y0, args))
        return Noted(self.solver.init(terms, t0, t1, y0, args), self.system.record(y0), rate)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Noted, made_jump: Any) -> Any:
        """A step of the solver, and the record half way and at its end."""
        return _step(self, t0, t1, y0, solver_state, made_jump)


@eqx.filter_jit  # diffrax asks for a step several times in one program: it is traced once
def _step(recorded: Recorded, t0: Any, t1: Any, y0: Any, noted: Noted, made_jump: Any) -> Any:
    equation = term(recorded.system)
    after, error, info, memory, result = recorded.solver.step(equation, t0, t1, y0, None, noted.memory, made_jump)
    width = t1 - t0
    # one loop of two rounds, so that the record is compiled once
    both = jax.lax.map(recorded.system.record, jax.tree.map(lambda *two: jnp.stack(two), info["middle"], after))
    middle, end = (jax.tree.map(lambda leaf, i=i: leaf[i], both) for i in (0, 1))
    rate = recorded.system.rate(after, jax.tree.map(lambda k: k / width, info["end_slope"]))
    parts = {
        "start": noted.record,
        "middle": middle,
        "end": end,
        "start_slope": jax.tree.map(lambda leaf: width * leaf, noted.rate),
        "end_slope": jax.tree.map(lambda leaf: width * leaf, rate),
    }
    return after, error, parts, Noted(memory, end, rate), result
