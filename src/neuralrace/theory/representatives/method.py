"""The method `representatives`: a few neurons that stand for a rectified hidden layer of any width."""

from dataclasses import dataclass
from typing import ClassVar

import jax

from neuralrace.initial import Gaussian
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.flow.method import examples, outcome_of
from neuralrace.theory.flow.simulation import Simulation
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.representatives.population import drawn_neurons, independent, initial_output
from neuralrace.theory.representatives.spans import Spans, one_hidden_layer


@dataclass(frozen=True, repr=False)
class Representatives(Method[Spans]):
    """Draw neurons from the law, each for several of the layer, and follow them.

    A layer of up to `most` neurons is followed as it is, in the coordinates that its examples span. Of a wider one so
    many are drawn: in opposite pairs, with the second moments of the law, each for width / most. The rule is the same
    for every task. small: of the first output relative to the targets. at_once: steps of descent that are taken as one
    where descent is asked for, once the loss has halved and as far as its curvature allows.
    """

    name: ClassVar[str] = "representatives"
    linear: ClassVar[bool] = False
    most: int = 1024
    small: float = 0.01
    at_once: int = 6

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Spans | None]:
        """One rectified layer of independent normal neurons, at first of small output."""
        problem, there = examples(request)
        if problem is None:
            return (there,), None
        layer, normal = one_hidden_layer(problem), independent(request)
        if not layer.holds or not isinstance(request.initial, Gaussian):
            return (there, layer, normal), None
        size = initial_output(problem, request.initial)
        tiny = Assumption("small first weights", size, self.small, "the first output relative to the targets")
        return (there, layer, normal, tiny), Spans.of(problem)

    def solve(self, request: Request, ground: Spans) -> Outcome:
        """Follow the layer itself, or those that stand for it."""
        assert isinstance(request.initial, Gaussian)
        width = ground.problem.architecture.nodes[ground.hidden]
        count = min(self.most, width)
        streams = [jax.random.fold_in(request.stream, draw) for draw in range(request.draws)]
        first = [drawn_neurons(ground, request.initial, count, width, stream) for stream in streams]
        each = "each for itself" if count == width else f"each for {width / count:.4g} of {width}"
        note = (
            f"simulated: {request.draws} draws of {count} neurons from the law, {each}, in {ground.inputs} inputs and "
            f"{ground.outputs} outputs that the examples span; no trained network was seen"
        )
        simulation = Simulation(ground.network(count), first, request, self.at_once)
        return outcome_of(simulation, note, ground.problem.resized({ground.hidden: count}), ground.leave)
