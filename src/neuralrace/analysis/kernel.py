"""The tangent kernel of a gated network: how a step on one example moves the output on another."""

from collections.abc import Mapping

import numpy as np

from neuralrace._engine.example_rows import edge_gates
from neuralrace.architecture import check_weights
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, require_kind
from neuralrace.problem import Problem


def tangent_kernel(problem: Problem, weights: Weights, *, traced: bool = False) -> np.ndarray:
    """Theta = sum over weights of (d output) (d output)^T, over examples and all output units, (N * outputs) squared.

    The network is linear in each matrix: d output / d W_e is the map from t(e) to the outputs times the activity at
    s(e), both known per example. traced: only the trace over output units, (N, N).
    """
    require_kind("problem", problem, Problem, ProblemError)
    checked = check_weights(problem.architecture, weights)
    architecture, count = problem.architecture, len(problem.task)
    activity = {**problem.task.inputs, **problem.activity(checked)}
    gates = edge_gates(architecture, problem.gates, count)
    onward = _maps_to_outputs(problem, checked, gates)
    outputs = sum(architecture.nodes[node] for node in architecture.outputs)
    kernel = np.zeros((count, count) if traced else (count, outputs, count, outputs))
    product = "nm,nat,mat->nm" if traced else "nm,nat,mbt->namb"
    for edge, (source, target) in architecture.edges.items():
        entering = activity[source] * gates[edge][:, None]
        kernel += np.einsum(product, entering @ entering.T, onward[target], onward[target], optimize=True)
    return kernel if traced else kernel.reshape(count * outputs, count * outputs)


def kernel_change(first: np.ndarray, last: np.ndarray) -> float:
    """One minus the cosine between two kernels: 0 in the lazy regime, towards 1 as features are learned."""
    scale = float(np.linalg.norm(first) * np.linalg.norm(last))
    return 1.0 - float(np.sum(first * last)) / scale if scale > 0 else 0.0


def _maps_to_outputs(
    problem: Problem, weights: Mapping[Edge, np.ndarray], gates: Mapping[Edge, np.ndarray]
) -> dict[str, np.ndarray]:
    """Node -> for each example, the linear map from the node to all outputs stacked, (N, outputs, size)."""
    architecture, count = problem.architecture, len(problem.task)
    sizes = [architecture.nodes[node] for node in architecture.outputs]
    blocks = dict(zip(architecture.outputs, np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1), strict=True))
    maps: dict[str, np.ndarray] = {}
    for node in reversed(architecture.order):
        if node in blocks:
            maps[node] = np.broadcast_to(blocks[node], (count, *blocks[node].shape))
        else:
            maps[node] = sum(
                gates[edge][:, None, None] * (maps[architecture.target(edge)] @ weights[edge])
                for edge in architecture.outgoing[node]
            )
    return maps
