"""The stage of a scene: the problem that it describes, its first weights, and when it is looked at."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace import initial
from neuralrace._engine.example_rows import label_rows
from neuralrace.architecture import edge_name
from neuralrace.errors import RangeError, require_known
from neuralrace.explorer.bounds import FRAME_BYTES, FRAMES, WORK
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.tables import Tables, always_open
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import with_depth
from neuralrace.training import ReLUNetwork
from neuralrace.training.loop import Schedule, make_schedule

EACH = 24  # up to so many examples have a row of the grid each; more are put together by their gates
MOST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Stage:
    """A network on a task. rows: the examples of each row of the grid. pathways: the columns of the grid.

    named: whether `NamedTask.problem` gives the same problem. whole: the same network on all that can be asked, where
    training sees only a part of it.
    """

    task: NamedTask
    gating: str
    gatings: tuple[str, ...]
    problem: Problem
    rows: tuple[np.ndarray, ...]
    pathways: tuple[str, ...]
    named: bool
    whole: Problem | None

    @cached_property
    def grid(self) -> list[list[float]]:
        """The gate of each pathway in each row."""
        gates = [_gate(self.problem, node) for node in self.pathways]
        return [[float(gate[row[0]]) for gate in gates] for row in self.rows]

    @cached_property
    def labels(self) -> list[str]:
        """What each row of the grid is."""
        return [self._label(row) for row in self.rows]

    def _label(self, row: np.ndarray) -> str:
        inputs = self.task.task.inputs
        first = next(iter(inputs.values()))
        if len(inputs) == 1 and first.shape[1] <= 3 and len(row) == 1:
            return "(" + ", ".join(f"{value:.2g}" for value in first[row[0]]) + ")"
        same = {name: values[row] for name, values in self.task.groups.items() if len(set(values[row].tolist())) == 1}
        told = [f"{name.split()[0]} {values[0]}" for name, values in list(same.items())[:2]]
        return ", ".join(told) or (f"example {row[0]}" if len(row) == 1 else f"{len(row)} examples")

    def as_data(self) -> dict[str, Any]:
        """For the page: the graph, the grid and what can be chosen."""
        architecture = self.problem.architecture
        return {
            "gating": self.gating,
            "gatings": list(self.gatings),
            "nodes": [
                {"name": node, "size": architecture.nodes[node], "level": architecture.level[node]}
                for node in architecture.order
            ],
            "edges": [
                {"name": edge_name(edge), "source": source, "target": target}
                for edge, (source, target) in architecture.edges.items()
            ],
            "pathways": list(self.pathways),
            "rows": self.labels,
            "grid": self.grid,
            "open": {
                node: [float(_gate(self.problem, node)[row[0]]) for row in self.rows] for node in architecture.order
            },
        }


def make_stage(scene: Scene, tables: Tables) -> Stage:
    """Build the problem of a scene."""
    task = tables.make(scene.task, dict(scene.settings))
    gatings = _gatings(task)
    gating = scene.gating or next(iter(gatings))
    require_known(gating, gatings, f"task {task.name!r} has no gating {gating!r}")
    if scene.network == "relu":
        problem = _rectified(task.task, gatings[gating], scene)
        rows = tuple(np.array([example]) for example in range(min(len(task.task), EACH)))
        whole = _whole(task, lambda one: _rectified(one.task, _gatings(one)[gating], scene))
        return Stage(task, gating, tuple(gatings), problem, rows, (), False, whole)
    plain = gatings[gating](scene.width)
    problem = with_depth(plain, scene.depth)
    pathways = tuple(node for node in plain.architecture.hidden if plain.architecture.level[node] == 1)
    rows = _rows(plain)
    named = problem is plain and gating in task.gatings and not scene.flips
    if scene.flips:  # they say nothing of what is not trained
        flipped = _flipped(problem, rows, pathways, scene.flips)
        return Stage(task, gating, tuple(gatings), flipped, rows, pathways, named, None)
    whole = _whole(task, lambda one: with_depth(_gatings(one)[gating](scene.width), scene.depth))
    return Stage(task, gating, tuple(gatings), problem, rows, pathways, named, whole)


def law_of(scene: Scene) -> initial.Initializer:
    """The law of first weights."""
    return initial.gaussian(scene.scale) if scene.law == "gaussian" else initial.orthogonal(scene.scale)


def frames_of(scene: Scene, stage: Stage) -> np.ndarray:
    """The steps at which whole networks are kept: fewer for large ones."""
    fitting = FRAME_BYTES // (8 * scene.seeds * stage.problem.architecture.weight_count)
    if fitting < 8:
        most = FRAME_BYTES // 64
        raise RangeError(
            f"networks times weights must be at most {most:,} to be shown over time; {scene.seeds} times "
            f"{stage.problem.architecture.weight_count:,} came: take fewer or narrower ones"
        )
    return np.unique(np.linspace(0, scene.steps, int(min(fitting, FRAMES)) + 1).astype(int))


def schedule_of(scene: Scene, stage: Stage) -> Schedule:
    """When theory and training are looked at; a training that is too long is refused."""
    rows = len(stage.problem.task) if stage.problem.activations else min(len(stage.problem.task), 128)
    work = float(scene.steps) * scene.seeds * rows * stage.problem.architecture.weight_count
    if work > WORK:
        raise RangeError(
            f"steps x networks x examples x weights must be at most {WORK:.0e} here; they come to {work:.1e}: "
            f"take fewer steps, networks or neurons"
        )
    return make_schedule(scene.steps, 1, frames_of(scene, stage).tolist())


def _gatings(task: NamedTask) -> dict[str, Callable[[int], Problem]]:
    """Those of the task, and one open pathway where no gating is just that."""
    found = dict(task.gatings)
    smallest = [build(1) for build in found.values()]
    there = any(not one.gates.nodes and len(one.architecture.hidden) == 1 for one in smallest)
    if len(task.task.inputs) == 1 and not there:
        found |= always_open(task.task)
    return found


def _whole(task: NamedTask, build: Callable[[NamedTask], Problem]) -> Problem | None:
    return None if task.whole is None or len(task.complete().task) == len(task.task) else build(task.complete())


def _rectified(task: Task, gating: Callable[[int], Problem], scene: Scene) -> Problem:
    """Rectified layers; those of a task with many domains stay routed, every example from its domain to its domain."""
    if len(task.inputs) == 1:
        return ReLUNetwork(task, hidden=(scene.width,) * (scene.depth - 1))
    linear = with_depth(gating(scene.width), scene.depth)
    rectified = dict.fromkeys(linear.architecture.hidden, "relu")
    return Problem(linear.architecture, linear.task, linear.gates, activations=rectified)


def _rows(problem: Problem) -> tuple[np.ndarray, ...]:
    """The examples in rows of equal gates, or one by one where there are few."""
    count = len(problem.task)
    labels = np.arange(count) if count <= EACH else label_rows(count, problem.gates.nodes.values())
    _, first = np.unique(labels, return_index=True)
    return tuple(np.flatnonzero(labels == labels[place]) for place in np.sort(first)[:MOST_ROWS])


def _flipped(
    problem: Problem, rows: tuple[np.ndarray, ...], pathways: tuple[str, ...], flips: tuple[tuple[int, int], ...]
) -> Problem:
    gates = {node: np.array(_gate(problem, node)) for node in pathways}
    for row, column in flips:
        if row >= len(rows) or column >= len(pathways):
            raise RangeError(
                f"a flip must lie in the grid of {len(rows)} rows and {len(pathways)} pathways; [{row}, {column}] came"
            )
        gate = gates[pathways[column]]
        gate[rows[row]] = 1.0 - gate[rows[row]]
    shut = [node for node, gate in gates.items() if not gate.any()]
    if len(shut) == len(gates):
        raise RangeError("at least one gate must be open; all are closed, so nothing can be learned: open one")
    return Problem(problem.architecture, problem.task, Gates(nodes=dict(problem.gates.nodes) | gates))


def _gate(problem: Problem, node: str) -> np.ndarray:
    return np.asarray(problem.gates.nodes.get(node, np.ones(len(problem.task))), dtype=float)
