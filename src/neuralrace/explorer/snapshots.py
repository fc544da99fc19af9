"""Snapshots of a network over time, forecast or trained: strengths, lanes, similarity, units.

One function computes both, so that lanes of theory and of training measure the same quantity.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.analysis import similarity, time_to
from neuralrace.architecture import Path, edge_name
from neuralrace.arrays import float64
from neuralrace.axes import Weights
from neuralrace.explorer.problem import Setup
from neuralrace.explorer.scene import numbers
from neuralrace.problem import Problem, side_by_side

MOST_LANES, MOST_PATHS, MOST_VALUES, MOST_EXAMPLES, MOST_UNITS = 8, 64, 6, 48, 128

Activity = Sequence[Mapping[str, np.ndarray]]


@float64
def take_snapshots(setup: Setup, problem: Problem, time: np.ndarray, history: Sequence[Weights]) -> dict[str, Any]:
    """Return all that the page draws of one network over time; problem: the network that the weights belong to."""
    activity = [problem.activity(weights) for weights in history]
    lanes = _responses(setup, problem, activity) if problem.activations else _strengths(setup, problem, history)
    by_edge = {edge_name(edge): np.array([weights[edge] for weights in history]) for edge in problem.architecture.edges}
    other = setup.untrained
    untrained = None if other is None else numbers(np.array([other.loss(weights) for weights in history]))
    return {
        "time": numbers(time),
        "edges": {edge: numbers(np.linalg.norm(matrices, axis=(1, 2))) for edge, matrices in by_edge.items()},
        "values": {edge: numbers(_singular(matrices, MOST_VALUES)) for edge, matrices in by_edge.items()},
        "lanes": race(time, lanes),
        "similarity": _similarity(problem, activity),
        "units": _units(problem, history),
        "untrained": untrained,
    }


def race(time: np.ndarray, lanes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return each lane with the time at which it has half of its final strength, the winner, and its share."""
    final = {label: float(strength[-1]) for label, strength in lanes.items()}
    total, most = sum(final.values()), max(final.values(), default=0.0)
    found = []
    for label, strength in lanes.items():
        moved = final[label] > 2 * strength[0] and final[label] > 1e-3 * most  # what started near its end never raced
        finish = float(time_to(time, -strength, -0.5 * final[label])) if moved else np.inf
        found.append({"label": label, "strength": numbers(strength), "finish": numbers(finish)})
    return {
        "lanes": found,
        "winner": max(final, key=lambda label: final[label]) if most > 0 else None,
        "share": numbers(most / total) if total > 0 else None,
    }


def _strengths(setup: Setup, problem: Problem, history: Sequence[Weights]) -> dict[str, np.ndarray]:
    """Return the sum of singular values of each pathway, or each singular value where there is one pathway."""
    paths = list(problem.statistics().open_paths) or list(problem.architecture.paths())
    paths = paths[:: max(1, len(paths) // MOST_PATHS)]
    if len(setup.pathways) == 1:
        if len(paths) == 1:
            matrices = [paths[0].product(weights) for weights in history]
        else:  # the matrix that all paths share
            shared = set(paths[0].edges).intersection(*(path.edges for path in paths))
            edge = next(iter(shared), paths[0].edges[0])
            matrices = [weights[edge] for weights in history]
        values = _singular(np.array(matrices), MOST_LANES)
        there = values[-1] > 1e-3 * values[-1].max(initial=0.0)
        return {f"mode {k + 1}": values[:, k] for k in np.flatnonzero(there)}
    # many pathways share lanes by their names, first without "_0_1", then without any number
    names = {pathway: pathway for pathway in setup.pathways}
    for ending in (r"(_\d+)+$", r"\d+$"):
        if len(set(names.values())) > MOST_LANES:
            names = {pathway: re.sub(ending, " each", name) for pathway, name in names.items()}
    by_lane: dict[str, list[Path]] = {}
    for path in paths:
        by_lane.setdefault(names[problem.architecture.target(path.edges[0])], []).append(path)
    return {
        label: np.array([sum(np.linalg.norm(path.product(at), "nuc") for path in own) for at in history])
        for label, own in list(by_lane.items())[:MOST_LANES]
    }


def _responses(setup: Setup, problem: Problem, activity: Activity) -> dict[str, np.ndarray]:
    """Return how much of its target each group of examples gives back, <y, target> / <target, target>."""
    sizes = {name: len(np.unique(values)) for name, values in setup.task.groups.items()}
    chosen = min((name for name in sizes if sizes[name] > 1), key=lambda name: sizes[name], default="")
    labels = np.asarray(setup.task.groups[chosen]) if chosen else np.array(["all"] * len(problem.task))
    if len(problem.task) <= MOST_LANES:
        labels, chosen = np.arange(len(problem.task)), "example"
    target = side_by_side(problem.task.targets)
    outputs = np.array([np.hstack([seen[node] for node in problem.task.targets]) for seen in activity])
    found = {}
    for label in list(dict.fromkeys(labels.tolist()))[:MOST_LANES]:
        inside = labels == label
        wanted = float(np.sum(target[inside] ** 2))
        given = np.sum(outputs[:, inside] * target[inside], axis=(1, 2))
        found[f"{chosen} {label}".strip()] = given / wanted if wanted else given
    return found


def _singular(matrices: np.ndarray, most: int) -> np.ndarray:
    return np.linalg.svd(matrices, compute_uv=False)[:, :most]


def _first_layer(problem: Problem) -> list[str]:
    return [node for node in problem.architecture.hidden if problem.architecture.level[node] == 1]


def _similarity(problem: Problem, activity: Activity) -> dict[str, Any]:
    """Return inner products of the first hidden layer between examples, in percent of the largest over all times."""
    every = max(1, -(-len(problem.task) // MOST_EXAMPLES))
    first = _first_layer(problem)
    seen = np.array([similarity(np.hstack([at[node][::every] for node in first])) for at in activity])
    largest = float(np.abs(seen).max(initial=0.0)) or 1.0
    return {
        "size": seen.shape[1],
        "largest": numbers(largest),
        "percent": np.rint(100 * seen / largest).astype(int).reshape(len(seen), -1).tolist(),
    }


def _units(problem: Problem, history: Sequence[Weights]) -> dict[str, Any] | None:
    """Place each hidden neuron in the plane of the first two inputs: its weights times the norm of outgoing ones."""
    architecture, inputs, first = problem.architecture, problem.architecture.inputs, _first_layer(problem)
    if len(inputs) != 1 or architecture.nodes[inputs[0]] not in (2, 3):
        return None
    each = max(1, MOST_UNITS // len(first))
    edges = [(architecture.incoming[node][0], architecture.outgoing[node][0]) for node in first]
    places = [
        np.vstack([w[into][:each, :2] * np.linalg.norm(w[out], axis=0)[:each, None] for into, out in edges])
        for w in history
    ]
    signs = np.concatenate([np.sign(history[-1][out][:, :each].sum(axis=0)) for _, out in edges])
    return {
        "places": [numbers(place, 3) for place in places],
        "signs": signs.astype(int).tolist(),
        "points": numbers(problem.task.inputs[inputs[0]][:64, :2]),
        "targets": numbers(side_by_side(problem.task.targets)[:64, 0]),
    }
