"""The exact flow of linear nodes, and gradient descent, from the statistics of a problem alone (P1 eqs 3-4).

The network is evaluated on few rows with the moments of the examples, in the smallest bases of its nodes. The flow is
the same in any orthonormal basis. At a hidden node the weights never leave the span of their initial values
(`_engine/subspace.py`); at an input node, directions that no example shows never matter. Rows and columns that are
modes of the data let the integrator control its error for each mode.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace._engine.network import Network, Stacks
from neuralrace._engine.subspace import Bases, lift, project, project_hidden
from neuralrace.architecture import Architecture, Path
from neuralrace.arrays import LARGEST
from neuralrace.axes import Edge
from neuralrace.statistics import UNSEEN, PathStatistics
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.evolution import Evolution
from neuralrace.theory.flow.system import NetworkSystem
from neuralrace.theory.integration.solution import Solution
from neuralrace.theory.sharpness import regime, sharpness


@dataclass(frozen=True, eq=False)
class LinearFlow:
    """The flow, or gradient descent, that starts at given weights."""

    architecture: Architecture
    network: Network
    bases: Bases
    fixed: Mapping[Edge, np.ndarray]  # the part of the initial weights outside the bases, which never moves
    constant: float  # the part of the loss that no weights can change
    solution: Solution

    def losses(self, times: np.ndarray) -> np.ndarray:
        """The loss at increasing times."""
        return np.asarray(self.solution.at(times))[:, 0] + self.constant

    def weights_at(self, times: np.ndarray) -> Iterator[dict[Edge, np.ndarray]]:
        """The weights at increasing times, one set after the other."""
        return map(self.weights, self.solution.states(times))

    def weights(self, state: Stacks) -> dict[Edge, np.ndarray]:
        """The weights between neurons in a state of the flow."""
        inner = self.network.unstack({name: np.asarray(part)[0] for name, part in state.items()})
        if self.network.tied is not None:
            return inner
        ends, bases = self.architecture.edges.items(), self.bases
        return {e: self.fixed[e] + lift(inner[e], bases.get(target), bases.get(source)) for e, (source, target) in ends}


def linear_flow(
    statistics: PathStatistics,
    weights: Mapping[Edge, np.ndarray],
    end: float,
    rtol: float,
    max_steps: int = 0,
    descent: float | None = None,
) -> LinearFlow:
    """Start the flow at some weights, accurate to rtol up to `end`; descent: step size, to take steps instead."""
    architecture = statistics.architecture
    if architecture.weights:  # bases of single nodes do not respect what edges share
        network, constant = statistics.once(PathStatistics.network)
        begin = {name: part[None] for name, part in network.stack(weights).items()}
        solution = Solution(NetworkSystem(network), begin, rtol, max_steps, descent=descent)
        return LinearFlow(architecture, network, {}, {}, constant, solution)
    inputs, outputs, plans = statistics.once(_data_bases)
    bases = dict(inputs)
    for node, (used, unused, variance) in outputs.items():
        # Weights into a direction that no target uses can only shrink, and pull at the others at a rate of at most
        # their square times the input variance; where that is negligible the direction is left out.
        into = np.hstack([unused.T @ weights[edge] for edge in architecture.incoming[node]])
        pull = float(np.linalg.norm(into, 2)) ** 2 * variance if into.size else 0.0
        leave_out = used.shape[1] and pull < 0.1 * rtol / max(end, np.finfo(float).tiny)
        bases[node] = used if leave_out else np.hstack([used, unused])
    ends = architecture.edges.items()
    at_ends = {edge: project(weights[edge], bases.get(target), bases.get(source)) for edge, (source, target) in ends}
    inner, hidden, _ = project_hidden(architecture, at_ends)
    key = tuple((node, basis.shape[1]) for node, basis in (bases | hidden).items())
    if key not in plans:  # the bases of an output differ in their sizes, and hidden bases do not matter
        plans[key] = statistics.network(bases | hidden)
    network, constant = plans[key]
    bases |= hidden
    fixed = {e: weights[e] - lift(inner[e], bases.get(target), bases.get(source)) for e, (source, target) in ends}
    start = {name: part[None] for name, part in network.stack(inner).items()}
    solution = Solution(NetworkSystem(network, by_mode=True), start, rtol, max_steps, descent=descent)
    return LinearFlow(architecture, network, bases, fixed, constant, solution)


def _data_bases(
    statistics: PathStatistics,
) -> tuple[Bases, dict[str, tuple[np.ndarray, np.ndarray, float]], dict[Any, tuple[Network, float]]]:
    """Bases of the input directions that examples show, and of the output directions that targets use and do not use.

    Each is in the order of its correlations. Also the largest variance of the inputs, and room for plans.
    """
    architecture, nodes = statistics.architecture, statistics.architecture.nodes
    shown, inward = ({node: np.zeros((nodes[node],) * 2) for node in architecture.inputs} for _ in range(2))
    outward = {node: np.zeros((nodes[node],) * 2) for node in architecture.outputs}
    for here in statistics.moments:
        for source, rows in here.place.items():
            shown[source] += here.inputs[rows, rows]
            for target, moment in here.outputs.items():
                inward[source] += moment[:, rows].T @ moment[:, rows]
                outward[target] += moment[:, rows] @ moment[:, rows].T

    def split(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = np.linalg.eigh(matrix)
        large = values > UNSEEN * max(float(values[-1]), np.finfo(float).tiny)
        return vectors[:, large][:, ::-1], vectors[:, ~large][:, ::-1]

    inputs = {}
    for node, second in shown.items():
        kept, rest = split(second)
        kept = kept if kept.size else rest[:, :1]  # a node has at least one neuron
        inputs[node] = kept @ np.linalg.eigh(kept.T @ inward[node] @ kept)[1][:, ::-1]
    variance = max((float(np.linalg.norm(second, 2)) for second in shown.values()), default=0.0)
    return inputs, {node: (*split(gram), variance) for node, gram in outward.items()}, {}


def flow_sharpness(statistics: PathStatistics, weights: Mapping[Edge, np.ndarray]) -> float:
    """The largest curvature of the loss at the weights; infinite where descent diverged."""
    if not all((np.abs(matrix) <= LARGEST).all() for matrix in weights.values()):  # false for NaN
        return float("inf")
    solution = linear_flow(statistics, weights, np.inf, 1.0).solution
    return sharpness(solution.system.velocity, solution.start)


def flow_regime(
    statistics: PathStatistics, rate: float, times: np.ndarray, draw: Evolution, needed: bool
) -> Assumption:
    """Compare a planned step size with the largest curvature at five times."""
    chosen = np.concatenate([[0.0], times[np.unique(np.linspace(0, len(times) - 1, 5).astype(int))]])
    return regime(rate, chosen, [flow_sharpness(statistics, weights) for weights in draw.weights(chosen)], needed)


def own_vectors(statistics: PathStatistics, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The output and input vectors of a path's modes: those of its own input-output correlation."""
    left, _, right = np.linalg.svd(statistics.input_output(path), full_matrices=False)
    return left, right.T
