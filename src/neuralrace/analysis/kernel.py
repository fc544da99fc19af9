"""The tangent kernel of a gated network: how a step on one example moves the output on another."""

import numpy as np

from neuralrace._engine.example_rows import edge_gates
from neuralrace.architecture import check_weights
from neuralrace.axes import Weights
from neuralrace.errors import ProblemError, require_kind
from neuralrace.problem import Problem


def tangent_kernel(problem: Problem, weights: Weights, *, traced: bool = False) -> np.ndarray:
    """Compute the sum over weights of (d output) (d output)^T, over examples and output units, (N * outputs) squared.

    The network is linear in each matrix: d output / d W_e is the map from t(e) to the outputs times the activity at
    s(e), both known per example. traced: only the trace over output units, (N, N).
    """
    require_kind("problem", problem, Problem, ProblemError)
    checked = check_weights(problem.architecture, weights)
    architecture, count = problem.architecture, len(problem.task)
    activity = {**problem.task.inputs, **problem.activity(checked)}
    gates = edge_gates(architecture, problem.gates, count)
    sizes = [architecture.nodes[node] for node in architecture.outputs]
    blocks = np.split(np.eye(sum(sizes)), np.cumsum(sizes)[:-1], axis=1)
    # node -> for each example, the linear map from the node to all outputs stacked, (N, outputs, size)
    onward = {n: np.broadcast_to(b, (count, *b.shape)) for n, b in zip(architecture.outputs, blocks, strict=True)}
    for node in reversed(architecture.order):
        if node not in onward:
            onward[node] = sum(
                gates[edge][:, None, None] * (onward[architecture.target(edge)] @ checked[edge])
                for edge in architecture.outgoing[node]
            )
    kernel = np.zeros((count, count) if traced else (count, sum(sizes), count, sum(sizes)))
    product = "nm,nat,mat->nm" if traced else "nm,nat,mbt->namb"
    for edge, (source, target) in architecture.edges.items():
        entering = activity[source] * gates[edge][:, None]
        kernel += np.einsum(product, entering @ entering.T, onward[target], onward[target], optimize=True)
    return kernel if traced else kernel.reshape(count * sum(sizes), count * sum(sizes))


def kernel_change(first: np.ndarray, last: np.ndarray) -> float:
    """Compute one minus the cosine between two kernels: 0 in the lazy regime, towards 1 as features are learned."""
    scale = float(np.linalg.norm(first) * np.linalg.norm(last))
    return 1.0 - float(np.sum(first * last)) / scale if scale > 0 else 0.0
