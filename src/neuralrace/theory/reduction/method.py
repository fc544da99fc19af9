"""The method `reduction`: one scalar per edge and mode (P1 eq. 10), lumped, after the exact flow where need be.

With three layers and more there is no linear early phase whose growing direction could be computed. The flow is
followed until the reduction, started from the weights of that time, has the same loss and moves every mode at the same
speed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np

from neuralrace._engine.devices import map_on_devices
from neuralrace._engine.network import Stacks
from neuralrace.axes import Edge
from neuralrace.theory.alignment import align_shared
from neuralrace.theory.certificate import Assumption, first_failing
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.linear import LinearFlow
from neuralrace.theory.flow.method import start_flow
from neuralrace.theory.integration.system import velocity_of
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.setup import (
    SMALL,
    added_loss,
    reduced_outcome,
    reduced_system,
    solved,
)
from neuralrace.theory.reduction.system import ReducedSystem

Prepared = ReducedSystem | Literal["hand-over"]


@dataclass(frozen=True, repr=False)
class Reduction(Method[Prepared]):
    """Strengths in shared bases, for statistics that have such bases.

    They start from decoupled weights, from the growing part of small ones (two layers), or where the exact flow has
    aligned them. small: tolerance of what holds in the limit of small initial weights. With `force` it starts at time
    zero with the nearest strengths in the nearest bases.
    """

    name: ClassVar[str] = "reduction"
    small: float = SMALL

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Prepared | None]:
        """Shared bases, and a start in them."""
        rows, system = reduced_system(request, self.small, own=False, force=self.force)
        if first_failing(rows) is None or first_failing(rows[:2]) is not None or request.descent is not None:
            return rows, system
        return (*rows[:2], *(replace(row, needed=False) for row in rows[2:])), "hand-over"

    def solve(self, request: Request, prepared: Prepared) -> Outcome:
        """Integrate the reduced system, after the flow where the weights have yet to align.

        If they never do and that is forced, the flow is left out: no curve is half of one and half of the other.
        """
        if prepared != "hand-over":
            return reduced_outcome(request, prepared, solved(request, prepared))
        outcome = self._after_flow(request)
        if not self.force or first_failing(outcome.assumptions) is None:
            return outcome
        _, system = reduced_system(request, self.small, own=False, force=True)
        assert system is not None
        return replace(reduced_outcome(request, system, solved(request, system)), assumptions=outcome.assumptions)

    def _after_flow(self, request: Request) -> Outcome:
        def followed(weights: Mapping[Edge, np.ndarray]) -> tuple[Any, ...]:
            flow = start_flow(request, weights)
            found: list[tuple[float, ReducedSystem, float, str]] = []

            def aligned(time: float, state: Stacks) -> bool:
                start = align_shared(request.statistics, flow.weights(state))
                system = ReducedSystem(request.statistics, "hand-over", (start,))
                residual, where = _gap_from_flow(system, flow, state, self.small)
                found[:] = [(time, system, residual, where)]
                return residual <= self.small

            curve = flow.solution.curve(request.end, aligned)
            if not found:  # nothing to follow
                aligned(0.0, flow.solution.start)
            (time, system, residual, where), (start,) = found[0], found[0][1].starts
            states, early = solved(request, system), request.times < time
            before, after = matrix_evolution(flow.weights_at, start.ends), system.evolution(states)
            late = system.loss(states(request.times[~early] - time))[:, 0]
            losses = [*(np.asarray(curve.at(request.times[early]))[:, 0] + flow.constant), *late]
            (learned,) = after.weights(np.array([max(request.end - time, 0.0)]))
            dropped = added_loss(request, learned, after.weights(np.zeros(1))[0], before.weights(np.array([time]))[0])
            return losses, _handed_over(before, after, time), system, time, dropped, (residual, where, time)

        found = map_on_devices(followed, request.weights)
        losses, draws, systems, times, dropped, gaps = zip(*found, strict=True)
        residual, where, time = max(gaps)
        share = max(times) / request.end if request.end > 0 else 1.0
        late = f"the hand-over at {max(times):.4g} of the end"
        rows = (
            Assumption("aligned at hand-over", residual, self.small, f"{where}, at time {time:.4g},"),
            Assumption("hand-over before the end", share, float(np.nextafter(1.0, 0.0)), late),
            Assumption("weights left at hand-over", max(dropped), self.small, "the loss they add by the end"),
        )
        note = f"the exact flow hands over to the reduction at time {', '.join(f'{t:.4g}' for t in times)}"
        paths = tuple(request.statistics.open_paths)
        return Outcome(np.array(losses), draws, paths, rows, systems[0], times, (note,))


def _gap_from_flow(system: ReducedSystem, flow: LinearFlow, state: Stacks, small: float) -> tuple[float, str]:
    """Gap in loss relative to that at zero output, and in the speed of each mode relative to its drive.

    The drive of a mode is the largest push that the correlations alone give any edge.
    """
    statistics, (start,), (terms, names) = system.statistics, system.starts, system.unlumped
    energy = max(0.5 * statistics.target_energy, np.finfo(float).tiny)
    gap = abs(statistics.loss(start.weights(start.strengths)) - flow.loss(state)) / energy
    if gap > small:
        return gap, "the loss"
    velocity = flow.velocity(state)
    still = {edge: 0 * values for edge, values in start.strengths.items()}
    reduced = system.lift(np.asarray(velocity_of(system.polynomial, system.state))[0], still)
    speed_gap = np.zeros(len(next(iter(still.values()))))
    for edge, (target, source) in start.ends.items():
        rest = velocity[edge] - (target * reduced[edge]) @ source.T
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest @ source, axis=0))
        speed_gap = np.maximum(speed_gap, np.linalg.norm(rest.T @ target, axis=0))
    push, drive = np.zeros(len(names) + 1), np.zeros(len(speed_gap))
    factors = np.append(system.initial[0], 1.0)[terms.factors]
    for place in range(factors.shape[1]):
        others = np.prod(np.delete(factors, place, axis=1), axis=1)
        np.add.at(push, terms.factors[:, place], np.abs(others * terms.strengths))
    np.maximum.at(drive, [mode for _, mode in names], push[:-1])
    relative = np.divide(speed_gap, drive, out=np.zeros_like(drive), where=drive > 0)
    mode = int(np.argmax(relative)) if len(relative) else 0
    if len(relative) and relative[mode] > gap:
        return float(relative[mode]), f"the speed of mode {mode}"
    return gap, "the loss"


def _handed_over(before: Evolution, after: Evolution, time: float) -> Evolution:
    """The exact flow up to a time, the reduction from there on, in the bases of the hand-over."""

    def both(kind: str, things: Sequence[Any], times: np.ndarray) -> list[np.ndarray]:
        early = times < time
        parts = [getattr(before, kind)(things, times[early])] if early.any() else []
        parts += [getattr(after, kind)(things, times[~early] - time)] if not early.all() else []
        return [np.concatenate(found) for found in zip(*parts, strict=True)]

    def weights(times: np.ndarray) -> list[dict[Edge, np.ndarray]]:
        early = times < time
        return before.weights(times[early]) + after.weights(times[~early] - time)

    return Evolution(weights, partial(both, "edges"), partial(both, "paths"))
