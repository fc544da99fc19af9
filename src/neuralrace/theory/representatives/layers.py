"""The method `representatives` for several hidden layers: a narrower network with first weights that are larger.

Weights between two layers are independent. An n x n matrix of standard deviation s has rows and columns of length
s sqrt(n) and a largest singular value of 2 s sqrt(n), and with n / c neurons in each layer s sqrt(c) keeps all of
these, as sqrt(c) keeps what enters and leaves a single layer. The first product of all matrices is not kept, it is
sqrt(c) too large for two layers; but what grows from small weights is led by the largest singular values.
"""

from dataclasses import dataclass
from typing import ClassVar

import jax
import numpy as np

from neuralrace.initial import Gaussian
from neuralrace.problem import Problem
from neuralrace.theory.activated.method import examples, outcome_of
from neuralrace.theory.activated.simulation import Simulation
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.representatives.population import independent, initial_output
from neuralrace.theory.representatives.spans import not_rectified


@dataclass(frozen=True, repr=False)
class NarrowerLayers(Method[Problem]):
    """Follow a network whose hidden layers are narrower by one ratio, all first weights of its neurons larger.

    Taken where it is asked for, and not by auto: how near it comes is known of few tasks. share: of each layer; but the
    narrowest keeps `themselves` neurons, and networks with no more than that are refused. small: of the first output
    relative to the targets.
    """

    name: ClassVar[str] = "representatives"
    linear: ClassVar[bool] = False
    themselves: int = 100
    share: float = 1 / 4
    small: float = 0.01

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Problem | None]:
        """Several wide rectified layers of independent normal neurons, at first of small output."""
        problem, there = examples(request)
        if problem is None:
            return (there,), None
        layers, normal = self._wide(problem), independent(request)
        if not layers.holds or not isinstance(request.initial, Gaussian):
            return (there, layers, normal), None
        size = initial_output(problem, request.initial)
        tiny = Assumption("small first weights", size, self.small, "the first output relative to the targets")
        return (there, layers, normal, tiny), problem

    def solve(self, request: Request, ground: Problem) -> Outcome:
        """Follow draws of the narrower network."""
        assert isinstance(request.initial, Gaussian)
        narrow = self.narrow(ground)
        law = scaled(request.initial, ground, narrow)
        first = [law(narrow, jax.random.fold_in(request.stream, draw)) for draw in range(request.draws)]
        simulation = Simulation(narrow, first, request)
        sizes = [f"{narrow.architecture.nodes[node]} for {size}" for node, size in _hidden(ground).items()]
        told = f"{request.draws} draws of a network with {', '.join(sizes)} neurons, and larger first weights"
        return outcome_of(simulation, f"simulated: {told}; no trained network was seen", narrow)

    def narrow(self, problem: Problem) -> Problem:
        """The problem with fewer neurons in every hidden layer."""
        hidden = _hidden(problem)
        ratio = max(self.share, self.themselves / min(hidden.values()))
        return problem.resized({node: int(np.ceil(ratio * size)) for node, size in hidden.items()})

    def _wide(self, problem: Problem) -> Assumption:
        """Two hidden nodes or more, all rectified and wide, without gates."""
        hidden = _hidden(problem)
        wrong = not_rectified(problem) if len(hidden) > 1 else f"there is {len(hidden)} hidden node"
        if not wrong and min(hidden.values()) <= self.themselves:
            wrong = f"the narrowest has {min(hidden.values())} neurons, and more than {self.themselves} are asked"
        found = wrong or ", ".join(f"{node!r} with {size}" for node, size in hidden.items())
        return Assumption("several wide rectified layers", float(bool(wrong)), 0.0, found)


def scaled(law: Gaussian, wide: Problem, narrow: Problem) -> Gaussian:
    """The law of the narrower network: lengths of what enters and leaves a layer are kept."""
    edges, scales = wide.architecture.edges, law.scales(wide)
    ratio = {node: size / narrow.architecture.nodes[node] for node, size in wide.architecture.nodes.items()}
    hidden = _hidden(wide)
    both = {edge: sum(end in hidden for end in ends) for edge, ends in edges.items()}
    return Gaussian(
        {
            edge: scales[edge] * (ratio[source] * ratio[target]) ** (0.25 if both[edge] == 2 else 0.5)
            for edge, (source, target) in edges.items()
        }
    )


def _hidden(problem: Problem) -> dict[str, int]:
    return {node: problem.architecture.nodes[node] for node in problem.architecture.hidden}
