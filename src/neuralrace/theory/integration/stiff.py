"""diffrax's Kvaerno5 for plateaus that an explicit method would cross too slowly.

Its implicit stages are solved until what is left of their error is far below that allowed for each mode, so that a mode
of 1e-12 keeps its digits beside one of 1.
"""

from typing import Any

import diffrax
import jax
import optimistix

from neuralrace.theory.integration.system import Autonomous

SOLVED = 1e-3  # of the error that is allowed: a correction below this is the last
ROUNDING = 0.1  # ... and below this one that no longer shrinks


class Stiff(Autonomous):
    """Kvaerno5 with the error of each mode as the measure of its root finder."""

    system: Any
    rtol: Any

    def order(self, terms: Any) -> int:
        """That of Kvaerno5."""
        return 5

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        """That of Kvaerno5."""
        return self._solver(y0).init(terms, t0, t1, y0, args)

    def step(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any) -> Any:
        """One step; the state half way is on the cubic through both ends with their slopes."""
        after, error, info, memory, result = self._solver(y0).step(terms, t0, t1, y0, args, solver_state, made_jump)
        start_slope, end_slope = (jax.tree.map(lambda k, i=i: k[i], info["k"]) for i in (0, -1))
        middle = jax.tree.map(lambda y, z, k0, k1: 0.5 * (y + z) + 0.125 * (k0 - k1), y0, after, start_slope, end_slope)
        parts = {"start": y0, "middle": middle, "end": after, "start_slope": start_slope, "end_slope": end_slope}
        return after, error, parts, memory, result

    def _solver(self, start: Any) -> diffrax.Kvaerno5:
        def measure(correction: Any) -> jax.Array:
            found: jax.Array = self.system.error(correction, start, start, self.rtol)
            return found

        return diffrax.Kvaerno5(root_finder=Chord(rtol=0.0, atol=1.0, norm=measure))


class Chord(diffrax.VeryChord):
    """Done as well when a correction is far below what is allowed."""

    def terminate(self, fn: Any, y: Any, args: Any, options: Any, state: Any, tags: Any) -> Any:
        """Whether to stop, and whether that is a success."""
        done, result = super().terminate(fn, y, args, options, state, tags)
        stands_still = (state.step >= 2) & (state.diffsize > 0.5 * state.diffsize_prev)
        small = (state.diffsize < SOLVED) | (stands_still & (state.diffsize < ROUNDING))
        return done | small, optimistix.RESULTS.where(small, optimistix.RESULTS.successful, result)
