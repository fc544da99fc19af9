"""The method `representatives`: a few neurons that stand for a rectified hidden layer of any width."""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np

from neuralrace.axes import Edge
from neuralrace.initial import Gaussian
from neuralrace.theory.activated.method import examples, step_note
from neuralrace.theory.activated.simulation import Simulation, flow_regime
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Examined, Method, Outcome, Request, saddle_notes
from neuralrace.theory.representatives.early import FALL, parting_time
from neuralrace.theory.representatives.population import drawn_neurons, initial_output
from neuralrace.theory.representatives.refinement import Representation, refined
from neuralrace.theory.representatives.spans import Spans, one_hidden_layer

PILOT = 64  # neurons that find out when the layer parts


@dataclass(frozen=True, eq=False)
class Layer:
    """The layer that is to be represented."""

    spans: Spans
    law: Gaussian
    width: int

    def draw(self, request: Request, count: int, number: int) -> dict[Edge, np.ndarray]:
        """Neurons of one draw that stand for the layer."""
        return drawn_neurons(self.spans, self.law, count, self.width, jax.random.fold_in(request.stream, number))

    def simulation(self, request: Request, count: int, draws: int) -> Simulation:
        """Draws of so many neurons, from the beginning."""
        first = [self.draw(request, count, number) for number in range(draws)]
        return Simulation(self.spans.network(count), first, request)


@dataclass(frozen=True, repr=False)
class Representatives(Method[Layer]):
    """Draw neurons from the law, let them grow until the loss has fallen by 1 %, and replace clusters by simplices.

    The rules, the same for every task: a layer of up to `themselves` neurons is followed as it is, in the coordinates
    that its examples span. Of a wider one `drawn` are drawn, each for width / drawn of them, with the second moments
    of the law. Clusters are doubled until K and 2 K of one draw agree to `enough` in normalised L1, and 2 K are
    taken; where that many points are no fewer than the neurons that were drawn, those go on themselves. small: of the
    first output relative to the targets.
    """

    name: ClassVar[str] = "representatives"
    linear: ClassVar[bool] = False
    themselves: int = 1000
    drawn: int = 2048
    clusters: int = 16
    enough: float = 0.01
    small: float = 0.01

    def assumptions(self, request: Request) -> Examined[Layer]:
        """One rectified layer of independent normal neurons, at first of small output."""
        problem, there = examples(request)
        if problem is None:
            return Examined((there,), None)
        layer, normal = one_hidden_layer(problem), _independent(request)
        if not layer.holds or not isinstance(request.initial, Gaussian):
            return Examined((there, layer, normal), None)
        spans = Spans.of(problem)
        width = problem.architecture.nodes[spans.hidden]
        size = initial_output(spans, request.initial, width)
        tiny = Assumption("small first weights", size, self.small, "the first output relative to the targets")
        return Examined((there, layer, normal, tiny), Layer(spans, request.initial, width))

    def solve(self, request: Request, ground: Layer) -> Outcome:
        """Follow the layer itself, or those that stand for it."""
        count = ground.width if ground.width <= self.themselves else min(self.drawn, ground.width)
        points = ground.spans.inputs + 1
        if ground.width <= self.themselves or 2 * self.clusters * points >= count:
            return self._as_drawn(request, ground, count)
        time = parting_time(ground.simulation(request, PILOT, 1))
        if time is None:
            return self._as_drawn(request, ground, count)
        before = ground.simulation(request, count, request.draws)
        found = refined(ground.spans, before, time, self.clusters, self.enough)
        return self._represented(request, ground, found)

    def _as_drawn(self, request: Request, ground: Layer, count: int) -> Outcome:
        """Neurons that stand for themselves, or for as many others, all the way."""
        simulation = ground.simulation(request, count, request.draws)
        losses, last = simulation.follow(request.times, request.end)
        spans = ground.spans
        return Outcome(
            losses,
            tuple(simulation.evolution(draw, spans.leave) for draw in range(request.draws)),
            assumptions=flow_regime(simulation, last),
            notes=(_drawn_note(request, ground, count), step_note(request), *saddle_notes(simulation.first)),
            simulated=spans.narrow(count),
        )

    def _represented(self, request: Request, ground: Layer, found: Representation) -> Outcome:
        """Neurons up to the time at which they part, points from there on."""
        agreed = Assumption(
            "K and 2 K clusters agree", found.gap, self.enough, f"normalised L1 of K = {found.clusters // 2}"
        )
        told = (
            _drawn_note(request, ground, found.count),
            f"from time {found.time:.4g}, where the loss has fallen by {FALL:.0%}, {found.clusters} clusters of "
            f"{ground.spans.inputs + 1} points stand for them"
            if found.clusters
            else f"no {self.enough:g} agreement of fewer points: the drawn neurons went on themselves",
        )
        return Outcome(
            found.losses,
            tuple(found.evolution(draw) for draw in range(request.draws)),
            assumptions=((agreed,) if found.clusters else ()) + flow_regime(found.after, found.last),
            notes=(*told, step_note(request), *saddle_notes(found.before.first)),
            simulated=ground.spans.narrow(found.width),
        )


def _independent(request: Request) -> Assumption:
    """That the law can be expanded: neurons drawn one by one."""
    if isinstance(request.initial, Gaussian):
        return Assumption("independent normal neurons", 0.0, 0.0, repr(request.initial))
    kind = repr(request.initial) if callable(request.initial) else "weights were given"
    return Assumption("independent normal neurons", 1.0, 0.0, kind)


def _drawn_note(request: Request, ground: Layer, count: int) -> str:
    each = "each for itself" if count == ground.width else f"each for {ground.width / count:.4g} of {ground.width}"
    return (
        f"simulated: {request.draws} draws of {count} neurons from the law, {each}, in {ground.spans.inputs} inputs "
        f"and {ground.spans.outputs} outputs that the examples span; no trained network was seen"
    )
