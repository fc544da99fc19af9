"""The definitions of a gated network in plain numpy, example by example; shares no code with the package."""

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
from hypothesis import strategies as st

Weights = dict

seeds = st.integers(min_value=0, max_value=10_000)


def random_weights(architecture, seed: int = 0, scale: float = 0.7) -> Weights:
    random = np.random.default_rng(seed)
    return {
        edge: scale * random.normal(size=(architecture.nodes[target], architecture.nodes[source]))
        for edge, (source, target) in architecture.edges.items()
    }


def node_gate(problem, node: str) -> np.ndarray:
    return problem.gates.nodes.get(node, np.ones(len(problem.task)))


def edge_gate(problem, edge) -> np.ndarray:
    return problem.gates.edges.get(edge, np.ones(len(problem.task)))


def path_gate(problem, path) -> np.ndarray:
    """g_p: the product of the gates of all nodes and edges on a path, (N,)."""
    gate = node_gate(problem, path.source).copy()
    for edge in path.edges:
        gate = gate * edge_gate(problem, edge) * node_gate(problem, problem.architecture.edges[edge][1])
    return gate


def path_sum(problem, weights: Weights) -> dict[str, np.ndarray]:
    """y_v = sum over the paths into v of g_p W_p x_s(p)."""
    outputs = {node: np.zeros_like(rows) for node, rows in problem.task.targets.items()}
    for path in problem.architecture.paths():
        product = np.eye(problem.architecture.nodes[path.source])
        for edge in path.edges:
            product = weights[edge] @ product
        gate = path_gate(problem, path)
        for example, row in enumerate(problem.task.inputs[path.source]):
            outputs[path.target][example] += gate[example] * product @ row
    return outputs


@cache
def _forward_order(ends: tuple[tuple[str, str], ...]) -> list[str]:
    waiting = {node for pair in ends for node in pair}
    order: list[str] = []
    while waiting:
        free = sorted(n for n in waiting if not any(t == n and s in waiting for s, t in ends))
        order += free
        waiting -= set(free)
    return order


def activities(problem, weights: Weights) -> dict[str, np.ndarray]:
    """h_v = g_v f_v(sum_e g_e W_e h_s(e)), and h_v = g_v x_v at the inputs; (N, size) each."""
    edges = problem.architecture.edges
    found: dict[str, np.ndarray] = {}
    for node in _forward_order(tuple(edges.values())):
        total = problem.task.inputs.get(node)
        if total is None:
            total = sum(
                edge_gate(problem, e)[:, None] * (found[s] @ weights[e].T) for e, (s, t) in edges.items() if t == node
            )
        gate = node_gate(problem, node)
        found[node] = (gate if gate.ndim == 2 else gate[:, None]) * rectified(problem, node, total)
    return found


def rectified(problem, node: str, received: np.ndarray) -> np.ndarray:
    if node not in problem.activations:
        return received
    return np.maximum(received, 0) + problem.activations[node].slope * np.minimum(received, 0)


def _softmax(rows: np.ndarray) -> np.ndarray:
    powers = np.exp(rows - rows.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def row_losses(outputs: np.ndarray, targets: np.ndarray, kind: str = "squared") -> np.ndarray:
    if kind == "squared":
        return 0.5 * ((outputs - targets) ** 2).sum(axis=1)
    return -(targets * np.log(_softmax(outputs))).sum(axis=1)


def row_slopes(outputs: np.ndarray, targets: np.ndarray, kind: str = "squared") -> np.ndarray:
    if kind == "squared":
        return outputs - targets
    return _softmax(outputs) * targets.sum(axis=1, keepdims=True) - targets


def loss(problem, weights: Weights, kind: str = "squared") -> float:
    found = activities(problem, weights)
    return float(
        sum(problem.task.weights @ row_losses(found[node], rows, kind) for node, rows in problem.task.targets.items())
    )


def gradient(problem, weights: Weights, kind: str = "squared") -> Weights:
    """Back-propagation written out, for training by hand."""
    edges = problem.architecture.edges
    found = activities(problem, weights)
    errors = {
        node: problem.task.weights[:, None] * row_slopes(found[node], rows, kind)
        for node, rows in problem.task.targets.items()
    }
    result = {}
    for node in reversed(_forward_order(tuple(edges.values()))):
        if node in problem.activations:
            slope = np.where(_received(problem, weights, found, node) > 0, 1.0, problem.activations[node].slope)
            errors[node] = errors[node] * slope
        for edge, (source, target) in edges.items():
            if target == node:
                gate = node_gate(problem, node)
                gate = gate if gate.ndim == 2 else gate[:, None]
                arriving = gate * edge_gate(problem, edge)[:, None] * errors[node]

                result[edge] = arriving.T @ found[source]
                errors[source] = errors.get(source, 0.0) + arriving @ weights[edge]
    return {edge: result[edge] for edge in edges}


def _received(problem, weights: Weights, found: dict, node: str) -> np.ndarray:
    edges = problem.architecture.edges
    return sum(edge_gate(problem, e)[:, None] * (found[s] @ weights[e].T) for e, (s, t) in edges.items() if t == node)


def descend(gradient_at: Callable, weights: Weights, rate: float, steps: int) -> list[Weights]:
    """The weights before the first step, after it, and so on: steps + 1 sets."""
    history = [weights]
    for _ in range(steps):
        slope = gradient_at(history[-1])
        history.append({edge: matrix - rate * slope[edge] for edge, matrix in history[-1].items()})
    return history


def central_differences(function: Callable, weights: Weights, step: float = 1e-5) -> Weights:
    result = {}
    for edge, matrix in weights.items():
        slope = np.zeros_like(matrix)
        for place in np.ndindex(matrix.shape):
            moved = []
            for sign in (1, -1):
                other = matrix.copy()
                other[place] += sign * step
                moved.append(function({**weights, edge: other}))
            slope[place] = (moved[0] - moved[1]) / (2 * step)
        result[edge] = slope
    return result


def largest(weights: Weights) -> float:
    return max((float(np.abs(matrix).max()) for matrix in weights.values()), default=0.0)


def assert_weights_close(found: Mapping, wanted: Mapping, tolerance: float) -> None:
    """Every entry agrees to the tolerance times the largest entry, or the tolerance itself if all are below one."""
    assert set(found) == set(wanted)
    bound = tolerance * max(largest(dict(wanted)), 1.0)
    for edge, matrix in wanted.items():
        np.testing.assert_allclose(np.asarray(found[edge]), matrix, rtol=0, atol=bound, err_msg=str(edge))
