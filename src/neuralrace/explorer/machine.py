"""What is read off a network over time, be it forecast or trained: strengths, lanes, similarity, units.

One function serves both roads, so that a lane of theory and a lane of training measure the same thing.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralrace.analysis import similarity, time_to
from neuralrace.architecture import Path, edge_name
from neuralrace.arrays import float64
from neuralrace.axes import Weights
from neuralrace.explorer.rounding import numbers
from neuralrace.explorer.stage import Stage
from neuralrace.problem import Problem, side_by_side

MOST_LANES, MOST_PATHS, MOST_VALUES, MOST_EXAMPLES, MOST_UNITS = 8, 64, 6, 48, 128

History = Sequence[Weights]


@float64
def read_machine(stage: Stage, problem: Problem, time: np.ndarray, history: History) -> dict[str, Any]:
    """Everything that the page draws of one network over time; problem: the network that the weights belong to."""
    activity = [problem.activity(weights) for weights in history]
    lanes = _lanes(stage, problem, history, activity)
    return {
        "time": numbers(time),
        "edges": {edge_name(e): numbers([np.linalg.norm(w[e]) for w in history]) for e in problem.architecture.edges},
        "values": {
            edge_name(e): numbers(_singular([w[e] for w in history], MOST_VALUES)) for e in problem.architecture.edges
        },
        "lanes": race(time, lanes),
        "similarity": _similarity(problem, activity),
        "units": _units(problem, history),
        "untrained": _untrained(stage, problem, history),
    }


def _untrained(stage: Stage, problem: Problem, history: History) -> Any:
    """The loss over time of what is never trained, routes between domains; None where there is no such thing."""
    if stage.whole is None:
        return None
    every, seen = len(stage.whole.task), len(problem.task)
    losses = np.array([(float(stage.whole.loss(one)), float(problem.loss(one))) for one in history])
    return numbers((every * losses[:, 0] - seen * losses[:, 1]) / (every - seen))


def race(time: np.ndarray, lanes: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Lanes with the time at which each has half of its last strength, and the share of the one that ends highest."""
    final = {label: float(strength[-1]) for label, strength in lanes.items()}
    total, most = sum(final.values()), max(final.values(), default=0.0)
    finish = {}
    for label, strength in lanes.items():
        moved = final[label] > 2 * strength[0] and final[label] > 1e-3 * most  # what started near its end never raced
        finish[label] = float(time_to(time, -strength, -0.5 * final[label])) if moved else np.inf
    return {
        "lanes": [
            {"label": label, "strength": numbers(strength), "finish": numbers(finish[label])}
            for label, strength in lanes.items()
        ],
        "winner": max(final, key=lambda label: final[label]) if most > 0 else None,
        "share": numbers(most / total) if total > 0 else None,
    }


def _lanes(
    stage: Stage, problem: Problem, history: History, activity: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """One lane per pathway; per mode where there is one pathway; per group of examples where nodes are not linear."""
    if problem.activations:
        return _responses(stage, problem, activity)
    if len(stage.pathways) == 1:
        return _modes(problem, history)
    names = _lane_names(stage.pathways)
    found: dict[str, list[Path]] = {}
    for path in _open_paths(problem):
        found.setdefault(names[problem.architecture.target(path.edges[0])], []).append(path)
    return {
        label: np.array([sum(np.linalg.norm(path.product(at), "nuc") for path in paths) for at in history])
        for label, paths in list(found.items())[:MOST_LANES]
    }


def _lane_names(pathways: Sequence[str]) -> dict[str, str]:
    """Pathway -> its lane; many pathways share lanes by their names, first without "_0_1", then without any number."""
    names = {pathway: pathway for pathway in pathways}
    for ending in (r"(_\d+)+$", r"\d+$"):
        if len(set(names.values())) > MOST_LANES:
            names = {pathway: re.sub(ending, " each", name) for pathway, name in names.items()}
    return names


def _open_paths(problem: Problem) -> list[Path]:
    """Paths that some example goes through, or all where none does; if there are very many, some of them."""
    listed = list(problem.statistics().open_paths) or list(problem.architecture.paths())
    return listed[:: max(1, len(listed) // MOST_PATHS)]


def _modes(problem: Problem, history: History) -> dict[str, np.ndarray]:
    """The singular values of W_p of the one path, or of the matrix that all paths share."""
    first, *others = _open_paths(problem)
    if others:
        shared = set(first.edges).intersection(*(path.edges for path in others))
        edge = next(iter(shared), first.edges[0])
        matrices = [weights[edge] for weights in history]
    else:
        matrices = [first.product(weights) for weights in history]
    values = _singular(matrices, MOST_LANES)
    there = values[-1] > 1e-3 * values[-1].max(initial=0.0)
    return {f"mode {k + 1}": values[:, k] for k in np.flatnonzero(there)}


def _responses(stage: Stage, problem: Problem, activity: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """How much of its target each group of examples gives back, <y, target> / <target, target>."""
    groups = stage.task.groups
    chosen = min(
        (n for n in groups if len(set(groups[n].tolist())) > 1),
        key=lambda n: len(set(groups[n].tolist())),
        default=None,
    )
    labels = np.array(["all"] * len(problem.task)) if chosen is None else np.asarray(groups[chosen])
    if len(problem.task) <= MOST_LANES:
        labels, chosen = np.arange(len(problem.task)), "example"
    target = side_by_side(problem.task.targets)
    outputs = np.array([np.hstack([seen[node] for node in problem.task.targets]) for seen in activity])
    found = {}
    for label in list(dict.fromkeys(labels.tolist()))[:MOST_LANES]:
        inside = labels == label
        wanted = float(np.sum(target[inside] ** 2))
        given = np.sum(outputs[:, inside] * target[inside], axis=(1, 2))
        found[f"{chosen} {label}" if chosen else str(label)] = given / wanted if wanted else given
    return found


def _singular(matrices: Sequence[np.ndarray], most: int) -> np.ndarray:
    """The largest singular values of a matrix over time, (times, values)."""
    return np.linalg.svd(np.array(matrices), compute_uv=False)[:, :most]


def _similarity(problem: Problem, activity: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Inner products of the first hidden layer between examples, in hundredths of the largest over all times."""
    architecture = problem.architecture
    first = [node for node in architecture.hidden if architecture.level[node] == 1]
    every = max(1, -(-len(problem.task) // MOST_EXAMPLES))
    seen = np.array([similarity(np.hstack([at[node][::every] for node in first])) for at in activity])
    largest = float(np.abs(seen).max(initial=0.0)) or 1.0
    return {
        "size": seen.shape[1],
        "largest": numbers(largest),
        "percent": np.rint(100 * seen / largest).astype(int).reshape(len(seen), -1).tolist(),
    }


def _units(problem: Problem, history: History) -> dict[str, Any] | None:
    """Each hidden neuron in the plane of the first two inputs: what it reads times what it sends on; None elsewhere."""
    architecture = problem.architecture
    inputs = architecture.inputs
    first = [node for node in architecture.hidden if architecture.level[node] == 1]
    if len(inputs) != 1 or architecture.nodes[inputs[0]] > 3 or architecture.nodes[inputs[0]] < 2:
        return None
    each = max(1, MOST_UNITS // len(first))
    incoming = [architecture.incoming[node][0] for node in first]
    outgoing = [architecture.outgoing[node][0] for node in first]
    places = []
    for weights in history:
        sent = [np.linalg.norm(weights[edge], axis=0)[:each] for edge in outgoing]
        read = [weights[edge][:each, :2] for edge in incoming]
        places.append(np.vstack([r * s[:, None] for r, s in zip(read, sent, strict=True)]))
    signs = np.concatenate([np.sign(history[-1][edge][:, :each].sum(axis=0)) for edge in outgoing])
    points = problem.task.inputs[inputs[0]][:, :2]
    target = side_by_side(problem.task.targets)[:, 0]
    return {
        "places": [numbers(place, 3) for place in places],
        "signs": signs.astype(int).tolist(),
        "points": numbers(points[:64]),
        "targets": numbers(target[:64]),
    }
