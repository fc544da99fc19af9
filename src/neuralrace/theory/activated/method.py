"""The method `flow` for networks with activations: fresh draws from the law, as they are. It always applies."""

from dataclasses import dataclass
from typing import ClassVar

from neuralrace.problem import Problem
from neuralrace.theory.activated.simulation import Simulation, flow_regime
from neuralrace.theory.activated.system import SMOOTHING
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Examined, Method, Outcome, Request, saddle_notes


@dataclass(frozen=True, repr=False)
class NetworkFlow(Method[Problem]):
    """The gradient flow of whole networks on their examples: any graph, activations, gates of single neurons."""

    name: ClassVar[str] = "flow"
    linear: ClassVar[bool] = False

    def assumptions(self, request: Request) -> Examined[Problem]:
        """That the examples are there."""
        problem, assumption = examples(request)
        return Examined((assumption,), problem)

    def solve(self, request: Request, ground: Problem) -> Outcome:
        """Integrate, or take steps, all draws in one program."""
        simulation = Simulation(ground, request.weights, request)
        losses, last = simulation.follow(request.times, request.end)
        count = len(request.weights)
        return Outcome(
            losses,
            tuple(simulation.evolution(draw) for draw in range(count)),
            assumptions=flow_regime(simulation, last),
            notes=(simulated_note(request, ground, count), step_note(request), *saddle_notes(request.weights)),
        )


def examples(request: Request) -> tuple[Problem | None, Assumption]:
    """The problem with its examples, which statistics have not."""
    if isinstance(request.network, Problem):
        return request.network, Assumption("examples and squared error", 0.0, 0.0, "those of the problem")
    return None, Assumption("examples and squared error", 1.0, 0.0, "statistics alone came")


def simulated_note(request: Request, problem: Problem, count: int) -> str:
    """What was followed."""
    sizes = ", ".join(f"{problem.architecture.nodes[node]} in {node!r}" for node in problem.architecture.hidden)
    kind = f"{count} fresh draws from the law of the weights" if callable(request.initial) else "the given weights"
    return f"simulated: {kind}, every neuron ({sizes or 'no hidden node'}); no trained network was seen"


def step_note(request: Request) -> str:
    """By which dynamics."""
    if request.descent is not None:
        return f"simulated by steps of gradient descent of {request.descent.learning_rate:g}"
    width = f"gates open over {SMOOTHING * request.rtol:.2g} of what a neuron receives"
    if request.learning_rate is None:
        return f"simulated by the gradient flow, the limit of small steps; {width}"
    return f"simulated by the gradient flow, corrected to first order for steps of {request.learning_rate:g}; {width}"
