"""The problem of a scene: its task, its network with the grid of gates, and when both are recorded."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from neuralrace import initial, tasks
from neuralrace.architecture import edge_name
from neuralrace.errors import RangeError, require_known
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.session import Session
from neuralrace.gates import Gates
from neuralrace.problem import Problem, ReLUNetwork
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import parallel_pathways, with_depth
from neuralrace.training.loop import make_schedule

MOST_EXAMPLES, MOST_ROWS = 24, 64  # examples with their own row of the grid (more are grouped by gates), and rows
WORK = 2e11  # multiplications of one training: about a minute
FRAME_BYTES = 48 << 20  # what whole networks over time may take


@dataclass(frozen=True, eq=False)
class Setup:
    """A network on a task.

    gating, gatings: the one that was chosen, and all names. rows: the examples of each row of the grid. pathways: its
    columns. untrained: the same network on the routes that training does not see, if there are any.
    """

    task: NamedTask
    gating: str
    gatings: tuple[str, ...]
    problem: Problem
    rows: tuple[np.ndarray, ...]
    pathways: tuple[str, ...]
    untrained: Problem | None

    def as_data(self) -> dict[str, Any]:
        """Return the graph, the grid and the choices for the page."""
        architecture, inputs = self.problem.architecture, self.task.task.inputs
        first, labels = next(iter(inputs.values())), []
        for row in self.rows:
            if len(inputs) == 1 and first.shape[1] <= 3 and len(row) == 1:
                labels.append("(" + ", ".join(f"{value:.2g}" for value in first[row[0]]) + ")")
                continue
            groups = {name: np.unique(values[row]) for name, values in self.task.groups.items()}
            same = [f"{name.split()[0]} {values[0]}" for name, values in groups.items() if len(values) == 1]
            labels.append(", ".join(same[:2]) or (f"example {row[0]}" if len(row) == 1 else f"{len(row)} examples"))
        first_of = [row[0] for row in self.rows]
        gates = {node: _gate(self.problem, node)[first_of].tolist() for node in architecture.order}
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
            "rows": labels,
            "grid": [[gates[node][row] for node in self.pathways] for row in range(len(self.rows))],
            "open": gates,
        }


def make_setup(session: Session, scene: Scene) -> Setup:
    """Build the problem of a scene; scenes with the same problem share it, and with it all statistics."""
    fields = ("task", "settings", "gating", "flips", "network", "depth", "width")
    return session.setups.get(str([scene[name] for name in fields]), lambda: _make_setup(scene))


def _make_setup(scene: Scene) -> Setup:
    task = tasks.get(scene["task"], **scene["settings"])
    gatings = _gatings(task)
    gating = scene["gating"] or next(iter(gatings))
    require_known(gating, gatings, f"task {task.name!r} has no gating {gating!r}")
    relu = scene["network"] == "relu"

    def build(one: NamedTask) -> Problem:
        if relu and len(one.task.inputs) == 1:
            return ReLUNetwork(one.task, hidden=(scene["width"],) * (scene["depth"] - 1))
        linear = with_depth(_gatings(one)[gating](scene["width"]), scene["depth"])
        if not relu:
            return linear
        # the ReLU network of a task with many domains stays routed, every example from its domain to its domain
        activations = dict.fromkeys(linear.architecture.hidden, "relu")
        return Problem(linear.architecture, linear.task, linear.gates, activations=activations)

    problem, count, untrained = build(task), len(task.task), None
    if "routes" in task.settings and task.settings["trained"] < task.settings["domains"]:
        untrained = build(tasks.get(task.name, **{**task.settings, "routes": "untrained"}))
    if relu:
        rows = tuple(np.array([example]) for example in range(min(count, MOST_EXAMPLES)))
        return Setup(task, gating, tuple(gatings), problem, rows, (), untrained)
    plain = gatings[gating](scene["width"])
    pathways = tuple(node for node in plain.architecture.hidden if plain.architecture.level[node] == 1)
    count = len(plain.task)
    labels = np.arange(count)
    if count > MOST_EXAMPLES:
        gates = list(plain.gates.nodes.values()) or [np.ones(count)]
        labels = np.unique(np.stack(gates, axis=1), axis=0, return_inverse=True)[1].ravel()
    places = np.sort(np.unique(labels, return_index=True)[1])[:MOST_ROWS]
    rows = tuple(np.flatnonzero(labels == labels[place]) for place in places)
    if scene["flips"]:
        toggled = {node: np.array(_gate(problem, node)) for node in pathways}
        for row, column in scene["flips"]:
            if row >= len(rows) or column >= len(pathways):
                raise RangeError(
                    f"a flip must lie in the grid of {len(rows)} rows and {len(pathways)} pathways; got "
                    f"[{row}, {column}]"
                )
            toggled[pathways[column]][rows[row]] = 1.0 - toggled[pathways[column]][rows[row]]
        if not any(gate.any() for gate in toggled.values()):
            raise RangeError("at least one gate must be open; all are closed, so nothing can be learned: open one")
        problem = Problem(problem.architecture, problem.task, Gates(nodes=dict(problem.gates.nodes) | toggled))
        untrained = None
    return Setup(task, gating, tuple(gatings), problem, rows, pathways, untrained)


def _gatings(task: NamedTask) -> dict[str, Callable[[int], Problem]]:
    """Return those of the task, and one open pathway unless it has that already."""
    found = dict(task.gatings)
    smallest = [build(1) for build in found.values()]
    there = any(not one.gates.nodes and len(one.architecture.hidden) == 1 for one in smallest)
    if not there and len(task.task.inputs) == 1:
        found["one open pathway"] = partial(parallel_pathways, task.task, {"h": None})
    return found


def _gate(problem: Problem, node: str) -> np.ndarray:
    return np.asarray(problem.gates.nodes.get(node, np.ones(len(problem.task))), dtype=float)


def initializer_of(scene: Scene) -> initial.Initializer:
    """Return the initializer."""
    made: initial.Initializer = getattr(initial, scene["initial"])(scene["scale"])
    return made


def frames_of(scene: Scene, setup: Setup) -> np.ndarray:
    """Return the steps at which whole networks are kept: fewer for large ones."""
    weights = scene["seeds"] * setup.problem.architecture.weight_count
    fitting = FRAME_BYTES // (8 * weights)
    if fitting < 8:
        raise RangeError(
            f"networks times weights must be at most {FRAME_BYTES // 64:,} to be shown over time; got {weights:,}: "
            f"take fewer or narrower networks"
        )
    return np.unique(np.linspace(0, scene["steps"], int(min(fitting, 48)) + 1).astype(int))


def times_of(scene: Scene, setup: Setup) -> np.ndarray:
    """Return the steps at which forecast and training are evaluated, or refuse a training that takes too long."""
    rows = len(setup.problem.task) if setup.problem.activations else min(len(setup.problem.task), 128)
    work = float(scene["steps"]) * scene["seeds"] * rows * setup.problem.architecture.weight_count
    if work > WORK:
        raise RangeError(
            f"steps x networks x examples x weights must be at most {WORK:.0e} here; their product is {work:.1e}: take "
            f"fewer steps, networks or neurons"
        )
    return make_schedule(scene["steps"], 1, frames_of(scene, setup).tolist()).steps
