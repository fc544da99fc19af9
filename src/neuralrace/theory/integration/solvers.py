"""The explicit solver of gradient flows, and its step control, as a solver and a controller of diffrax.

`StabilizedTsit5` changes its method where stability and not accuracy would limit the step: Tsitouras' method of fifth
order, and stabilized ones of fourth (tableaus.py). The Jacobian of a gradient flow is symmetric, so its eigenvalues are
real, for which the stabilized methods are designed. All are one program, a recurrence and then a few stages that
each mix the slopes before them, because a velocity is slow to compile.
"""

from typing import Any, ClassVar, NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import optimistix

from neuralrace.axes import Array
from neuralrace.theory.integration.system import norm, velocity_of
from neuralrace.theory.integration.tableaus import APART, LONGEST, SLOTS, tableaus

STABLE = 2.8  # width times radius up to which Tsitouras' method damps fast modes (it is stable to 3.5)
MARGIN = 1.1  # of the radius, which the power iteration finds from below


class SolverState(NamedTuple):
    """The velocity at the start of a step, and an estimate of the largest eigenvalue of the Jacobian."""

    slope: Any
    stabilized: Array  # whether the step before was
    radius: Array
    direction: Any  # near the eigenvector


class StepError(NamedTuple):
    """The error of a step, and what limits the next one; all are floats."""

    error: Any
    order: jax.Array  # of the error in the width of the step
    radius: Any
    stabilized: jax.Array

    def allowed(self, wish: jax.Array) -> jax.Array:
        """Limit the width that accuracy allows to one that is stable; the solver chooses its method by the width."""
        reach = wish * self.radius
        longest = jnp.where(self.stabilized > 0, 0.9 * LONGEST / MARGIN, STABLE)
        scale = jnp.where(self.radius > 0, self.radius, 1.0)
        # a step that changes over to a stabilized method is cut, because its steps are shorter for the same accuracy
        changing = (self.stabilized == 0) & (reach > 4.0)
        limited = jnp.where(changing, jnp.maximum(0.5 * reach, 1.01 * STABLE), jnp.minimum(reach, longest))
        return jnp.where(self.radius > 0, limited / scale, wish)


class ModewiseController(diffrax.PIDController):
    """diffrax's controller for the error of the worst mode, with steps that are no longer than is stable.

    diffrax divides each number by its tolerance before it takes a norm; a mode is many numbers, and small as a whole.
    """

    system: Any = None
    first: Any = None  # the width of the first step

    def init(
        self, terms: Any, t0: Any, t1: Any, y0: Any, dt0: Any, args: Any, func: Any, error_order: Any
    ) -> tuple[Any, Any]:
        """Begin with the given width; the state comes from the previous call."""
        return t0 + self.first, None

    @eqx.filter_jit  # used several times in one program, traced once
    def adapt_step_size(
        self,
        t0: Any,
        t1: Any,
        y0: Any,
        y1_candidate: Any,
        args: Any,
        y_error: Any,
        error_order: Any,
        controller_state: Any,
    ) -> tuple[Any, Any, Any, Any, Any, diffrax.RESULTS]:
        """Accept a step if the error of the worst mode is allowed, and choose the next width by it."""
        size = self.system.error(y_error.error, y0, y1_candidate, self.rtol)
        size = jnp.where(jnp.isfinite(size), jnp.maximum(size, 1e-10), jnp.inf)
        kept, start, end, jump, state, result = super().adapt_step_size(
            t0, t1, 0.0, 0.0, args, size, y_error.order, controller_state[:-1]
        )
        width = y_error.allowed(end - start)
        return kept, start, start + width, jump, (*state, width), result


class KeptStep(diffrax.AbstractLocalInterpolation):
    """The parts of a step, from which curves are drawn on the host (`integrate.Curve`); diffrax only stores them."""

    t0: Any  # type: ignore[misc]  # abstract there
    t1: Any  # type: ignore[misc]
    parts: Any

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        """Raise NotImplementedError: `integrate.Curve` interpolates instead."""
        raise NotImplementedError


class StabilizedTsit5(diffrax.AbstractAdaptiveSolver[Any]):
    """Tsitouras' method, or a stabilized one. A step keeps the record half way and at its end, and its rate there.

    The loss late in learning is tiny beside its terms. Interpolated itself it keeps its digits; computed from
    interpolated weights it would lose them, and cost an evaluation at each requested time.
    """

    system: Any
    states: bool = eqx.field(static=True, default=False)  # whether the state is recorded too

    term_structure: ClassVar[Any] = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Any] = KeptStep

    def term(self) -> diffrax.ODETerm:
        """The equation as a term of diffrax."""
        return diffrax.ODETerm(lambda t, y, args: velocity_of(self.system, y))

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        """The velocity."""
        return velocity_of(self.system, y0)

    def order(self, terms: Any) -> int:
        """The lower of the two orders."""
        return 4

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> SolverState:
        """Start with Tsitouras' method and no knowledge of the Jacobian."""
        return SolverState(velocity_of(self.system, y0), jnp.asarray(False), jnp.zeros(()), y0)

    @eqx.filter_jit  # traced once, as the controller is
    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: SolverState, made_jump: Any
    ) -> tuple[Any, StepError, dict[str, Any], SolverState, Any]:
        """Take one step by the method that suits the width."""
        known, width, table = solver_state, t1 - t0, tableaus()

        def velocity(state: Any) -> Any:
            return velocity_of(self.system, state)

        def mixed(start: Any, slopes: Any, weights: jax.Array) -> Any:  # written out so that it is one loop
            return jax.tree.map(lambda y, k: y + sum(weights[i] * k[i] for i in range(SLOTS)), start, slopes)

        stabilized = width * known.radius > jnp.where(known.stabilized, 2.5, STABLE)
        rounds = jnp.where(stabilized, jnp.where(known.stabilized, 1, 8), 0)
        radius, pull = _power(velocity, y0, known, rounds)
        wide = jnp.sum(jnp.asarray(table.extent[1:-1]) < MARGIN * width * radius)
        which = jnp.where(stabilized, 1 + wide, 0)
        length, first, mu, nu, weights, error, chord, middle = (jnp.asarray(part)[which] for part in table[1:])

        def recur(j: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j)."""
            before, at = carry
            rate = velocity(at)
            return at, jax.tree.map(lambda b, y, v: y + nu[j] * (y - b) + mu[j] * width * v, before, at, rate)

        begun = jax.tree.map(lambda y, v: y + mu[0] * width * v, y0, known.slope)
        at = jax.lax.fori_loop(1, length, recur, (y0, begun))[1]
        base = _where(stabilized, at, y0)

        def stage(i: jax.Array, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            at, slopes = carry
            slopes = jax.tree.map(lambda k, v: jax.lax.dynamic_update_index_in_dim(k, v, i, 0), slopes, velocity(at))
            return mixed(base, slopes, width * weights[i]), slopes  # the last round stays at the end

        slopes = jax.tree.map(lambda k: jnp.zeros((SLOTS, *k.shape)).at[0].set(k), known.slope)
        after, slopes = jax.lax.fori_loop(first, SLOTS, stage, (at, slopes))
        last, nothing = jax.tree.map(lambda k: k[-1], slopes), jax.tree.map(jnp.zeros_like, y0)
        half_way = mixed(jax.tree.map(lambda y, z: y + chord * (z - y), y0, after), slopes, width * middle)
        # Tsitouras' last two stages are both at the end of the step: how far apart they and their slopes are
        apart = mixed(nothing, slopes, width * jnp.asarray(APART))
        gap, change = norm(apart), norm(jax.tree.map(lambda k: k[-1] - k[-2], slopes))
        seen = (gap > 1e-12 * norm(after)) & jnp.isfinite(change)  # neither rounding nor overflow
        estimated = jnp.maximum(change / jnp.where(seen, gap, 1.0), 0.98 * known.radius)  # one that was larger fades
        found = _where(seen, (estimated, apart), (known.radius, known.direction))
        state = SolverState(last, stabilized, *_where(stabilized, (radius, pull), found))
        order = jnp.where(stabilized, 4.0, 5.0)
        wrong = StepError(mixed(nothing, slopes, width * error), order, state.radius, stabilized.astype(order.dtype))
        return after, wrong, self.parts(half_way, after, last), state, diffrax.RESULTS.successful

    def parts(self, half_way: Any, after: Any, slope: Any) -> dict[str, Any]:
        """Return the records half way and at the end of a step, and their rate at the end."""

        def record(at: Any) -> Any:
            return self.system.record(at), at if self.states else None

        # one loop of two rounds, so that the record is compiled once
        both = jax.lax.map(record, jax.tree.map(lambda *two: jnp.stack(two), half_way, after))
        rate = self.system.rate(after, slope), slope if self.states else None
        return {"parts": jax.tree.map(lambda two, end: jnp.concatenate([two, end[None]]), both, rate)}


def _power(velocity: Any, start: Any, known: SolverState, rounds: jax.Array) -> tuple[jax.Array, Any]:
    """Rounds of the power iteration on the Jacobian, by finite differences along the direction."""
    size = 1e-7 * norm(start)

    def nudged(direction: Any) -> Any:
        length = norm(direction)
        scale = jnp.where(length > 0, size / jnp.where(length > 0, length, 1.0), 0.0)
        return jax.tree.map(lambda y, d: y + scale * d, start, direction)

    def turn(_: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        pull = jax.tree.map(jnp.subtract, velocity(carry[0]), known.slope)
        return nudged(pull), pull

    _, pull = jax.lax.fori_loop(0, rounds, turn, (nudged(known.direction), known.direction))
    return norm(pull) / size, pull


def _where(condition: jax.Array, there: Any, here: Any) -> Any:
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), there, here)


class ModewiseKvaerno5(StabilizedTsit5):
    """diffrax's implicit Kvaerno5, which crosses the longest plateaus of small systems.

    Its stages are solved until the remainder is far below the error allowed for each mode, so that a mode of 1e-12
    keeps its digits beside one of 1. In the stabilized methods rounding grows with the fourth power of the step.
    """

    rtol: Any = None

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        """Start Kvaerno5."""
        return self._solver(y0).init(self.term(), t0, t1, y0, args)

    @eqx.filter_jit
    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        """Take one step; the state half way is on the cubic through both ends with their slopes."""
        after, error, info, state, result = self._solver(y0).step(
            self.term(), t0, t1, y0, args, solver_state, made_jump
        )
        first, last = (jax.tree.map(lambda k, i=i: k[i], info["k"]) for i in (0, -1))  # slopes times the width
        middle = jax.tree.map(lambda y, z, k0, k1: 0.5 * (y + z) + 0.125 * (k0 - k1), y0, after, first, last)
        wrong = StepError(error, jnp.full((), 5.0), jnp.zeros(()), jnp.zeros(()))
        slope = jax.tree.map(lambda k: k / (t1 - t0), last)
        return after, wrong, self.parts(middle, after, slope), state, result

    def _solver(self, start: Any) -> diffrax.Kvaerno5:
        def measure(correction: Any) -> jax.Array:
            found: jax.Array = self.system.error(correction, start, start, self.rtol)
            return found

        return diffrax.Kvaerno5(root_finder=Chord(rtol=0.0, atol=1.0, norm=measure))


class Chord(diffrax.VeryChord):
    """Also done when a correction is far below the allowed error."""

    def terminate(self, fn: Any, y: Any, args: Any, options: Any, state: Any, tags: Any) -> Any:
        """Whether to stop, and whether that is a success."""
        done, result = super().terminate(fn, y, args, options, state, tags)
        stands_still = (state.step >= 2) & (state.diffsize > 0.5 * state.diffsize_prev)
        small = (state.diffsize < 1e-3) | (stands_still & (state.diffsize < 0.1))
        return done | small, optimistix.RESULTS.where(small, optimistix.RESULTS.successful, result)
