"""The method `flow`: the exact matrix flow, or gradient descent on whole matrices. It always applies."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from neuralrace._engine.devices import each_on_a_device
from neuralrace.architecture import Path
from neuralrace.arrays import LARGEST
from neuralrace.axes import Edge
from neuralrace.path_statistics import PathStatistics
from neuralrace.theory.certificate import CHECKED, Assumption
from neuralrace.theory.evolution import Evolution, matrix_evolution
from neuralrace.theory.flow.matrix_flow import FlowFactory, MatrixFlow
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.sharpness import regime, sharpness

ACCURATE = 1e-3  # rtol up to which the integration error is far below one percent of the loss


@dataclass(frozen=True, repr=False)
class Flow(Method[FlowFactory]):
    """P1 eqs 3-4 as they stand."""

    name: ClassVar[str] = "flow"
    last: ClassVar[bool] = True

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], FlowFactory | None]:
        """None, but for the accuracy of the integration."""
        row = Assumption(CHECKED, 0.0, request.rtol, "the forecast is the exact flow, integrated to this rtol")
        return (row,) if request.rtol <= ACCURATE else (), request.statistics.once(FlowFactory)

    def solve(self, request: Request, ground: FlowFactory) -> Outcome:
        """Integrate, or take steps, draw by draw."""
        flows = [start_flow(request, weights) for weights in request.weights]
        statistics = request.statistics
        return Outcome(
            np.array(each_on_a_device(lambda flow: flow.losses(request.times), flows)),
            tuple(matrix_evolution(flow.weights_at, partial(own_vectors, statistics)) for flow in flows),
            tuple(statistics.open_paths) if statistics.listable else (),
        )


def start_flow(request: Request, weights: Mapping[Edge, np.ndarray]) -> MatrixFlow:
    """The flow from these weights, as accurate as was asked for."""
    factory = request.statistics.once(FlowFactory)
    return factory.start(weights, request.end, request.rtol, request.max_steps, request.descent)


def own_vectors(statistics: PathStatistics, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """The output and input vectors of a path's modes: those of its own input-output correlation."""
    left, _, right = np.linalg.svd(statistics.input_output(path), full_matrices=False)
    return left, right.T


SHARPNESS_POINTS = 5


def flow_sharpness(factory: FlowFactory, weights: Mapping[Edge, np.ndarray]) -> float:
    """The largest curvature of the loss at the weights; infinite where descent diverged."""
    if not all((np.abs(matrix) <= LARGEST).all() for matrix in weights.values()):  # what is no number is not
        return float("inf")
    flow = factory.start(weights, np.inf, 1.0)
    return sharpness(flow.followed.system.velocity, flow.start)


def flow_regime(factory: FlowFactory, rate: float, times: np.ndarray, draw: Evolution) -> Assumption:
    """A planned step size against the largest curvature on the way."""
    moments = np.unique(np.linspace(0, len(times) - 1, SHARPNESS_POINTS).astype(int))
    looks = np.concatenate([[0.0], times[moments]])
    return regime(rate, looks, [flow_sharpness(factory, weights) for weights in draw.weights(looks)])
