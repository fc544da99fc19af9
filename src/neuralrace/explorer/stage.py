"""The stage of a scene: the problem that it describes, its first weights, and when it is looked at."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace import initial, tasks
from neuralrace._engine.example_rows import partition
from neuralrace.architecture import Architecture, edge_name
from neuralrace.errors import RangeError, UnknownNameError, nearest
from neuralrace.explorer.bounds import FRAME_BYTES, FRAMES, WORK
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.tables import OPEN, Tables, digits
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.training import ReLUNetwork
from neuralrace.training.schedule import Schedule, make_schedule

EACH = 24  # up to so many examples have a row of the grid each; more are put together by their gates
MOST_ROWS = 64


@dataclass(frozen=True, eq=False)
class Stage:
    """A network on a task. rows: the examples of each row of the grid. pathways: the columns of the grid.

    named: whether `NamedTask.problem` gives the same problem. deep: whether the depth can be chosen.
    """

    task: NamedTask
    gating: str
    gatings: tuple[str, ...]
    problem: Problem
    rows: tuple[np.ndarray, ...]
    pathways: tuple[str, ...]
    named: bool
    deep: bool

    @cached_property
    def parameters(self) -> int:
        """The number of weights."""
        shapes = (self.problem.architecture.shape(edge) for edge in self.problem.architecture.edges)
        return sum(a * b for a, b in shapes)

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
            "deep": self.deep,
            "examples": len(self.problem.task),
            "parameters": self.parameters,
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
    task = _task(scene, tables)
    gatings = _gatings(task)
    gating = scene.gating or next(iter(gatings))
    if gating not in gatings:
        raise UnknownNameError(f"task {task.name!r} has no gating {gating!r}; {nearest(gating, gatings)}")
    if scene.network == "relu":
        problem: Problem = ReLUNetwork(task.task, hidden=(scene.width,) * (scene.depth - 1))
        rows = tuple(np.array([example]) for example in range(min(len(task.task), EACH)))
        return Stage(task, gating, tuple(gatings), problem, rows, (), False, True)
    plain = gatings[gating](scene.width)
    deep = all(plain.architecture.level[node] == 1 for node in plain.architecture.hidden)
    problem = _deepened(plain, scene.depth) if deep and scene.depth > 2 else plain
    pathways = tuple(node for node in plain.architecture.hidden if plain.architecture.level[node] == 1)
    rows = _rows(plain)
    if scene.flips:
        problem = _flipped(problem, rows, pathways, scene.flips)
    return Stage(
        task, gating, tuple(gatings), problem, rows, pathways, problem is plain and gating in task.gatings, deep
    )


def law_of(scene: Scene) -> initial.Initialiser:
    """The law of first weights."""
    return initial.gaussian(scene.scale) if scene.law == "gaussian" else initial.orthogonal(scene.scale)


def frames_of(scene: Scene, stage: Stage) -> np.ndarray:
    """The steps at which whole networks are kept: fewer for large ones."""
    fitting = FRAME_BYTES // (8 * scene.seeds * stage.parameters)
    if fitting < 8:
        most = FRAME_BYTES // 64
        raise RangeError(
            f"networks times weights must be at most {most:,} to be shown over time; {scene.seeds} times "
            f"{stage.parameters:,} came: take fewer or narrower ones"
        )
    return np.unique(np.linspace(0, scene.steps, int(min(fitting, FRAMES)) + 1).astype(int))


def schedule_of(scene: Scene, stage: Stage) -> Schedule:
    """When theory and training are looked at; a training that is too long is refused."""
    rows = len(stage.problem.task) if stage.problem.activations else min(len(stage.problem.task), 128)
    work = float(scene.steps) * scene.seeds * rows * stage.parameters
    if work > WORK:
        raise RangeError(
            f"steps x networks x examples x weights must be at most {WORK:.0e} here; they come to {work:.1e}: "
            f"take fewer steps, networks or neurons"
        )
    return make_schedule(scene.steps, 1, frames_of(scene, stage).tolist())


def _task(scene: Scene, tables: Tables) -> NamedTask:
    settings = dict(scene.settings)
    if scene.task == "digits":
        return digits(**settings)
    return tables.task(**settings) if scene.task == "table" else tasks.get(scene.task, **settings)


def _gatings(task: NamedTask) -> dict[str, Callable[[int], Problem]]:
    """Those of the task, and one open pathway where no gating is just that."""
    found = dict(task.gatings)
    smallest = [build(1) for build in found.values()]
    there = any(not one.gates.nodes and len(one.architecture.hidden) == 1 for one in smallest)
    if len(task.task.inputs) == 1 and not there:
        found[OPEN] = lambda hidden: parallel_pathways(task.task, {"h": None}, hidden)
    return found


def _deepened(problem: Problem, depth: int) -> Problem:
    """Every pathway of two layers with so many; the added nodes are open, like those of `tasks.views`."""
    plain = problem.architecture
    nodes = {node: plain.nodes[node] for node in plain.inputs}
    edges: list[tuple[str, str]] = []
    for node in plain.hidden:
        chain = [node, *(f"{node}_{layer}" for layer in range(2, depth))]
        nodes |= dict.fromkeys(chain, plain.nodes[node])
        edges += [(plain.source(edge), node) for edge in plain.incoming[node]]
        edges += itertools.pairwise(chain)
        edges += [(chain[-1], plain.target(edge)) for edge in plain.outgoing[node]]
    nodes |= {node: plain.nodes[node] for node in plain.outputs}
    return Problem(Architecture(nodes, edges), problem.task, problem.gates)


def _rows(problem: Problem) -> tuple[np.ndarray, ...]:
    """The examples in rows of equal gates, or one by one where there are few."""
    count = len(problem.task)
    labels = np.arange(count) if count <= EACH else partition(count, problem.gates.nodes.values())
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
