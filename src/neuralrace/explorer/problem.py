"""The problem of a scene: its task, its network with the grid of gates, and when both are recorded."""

import hashlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import initial, tasks
from neuralrace.architecture import edge_name
from neuralrace.errors import FileFormatError, NeuralRaceError, RangeError, require_known
from neuralrace.explorer.scene import TASKS, Scene, numbers
from neuralrace.explorer.session import Session
from neuralrace.gates import Gates
from neuralrace.problem import Problem, side_by_side
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import parallel_pathways, with_depth
from neuralrace.training import ReLUNetwork
from neuralrace.training.loop import make_schedule

TABLES, TABLE_ROWS, TABLE_COLUMNS = 8, 2000, 128
ROUTED_DIGITS, ROUTED_DOMAINS = 50, 6  # images that every domain shows, and domains that may show images
MOST_EXAMPLES, MOST_ROWS = (
    24,
    64,
)  # examples with their own row of the grid; more are grouped by gates
WORK = 2e11  # multiplications of one training: about a minute
FRAMES, FRAME_BYTES = 48, 48 << 20  # times at which whole networks are kept, and what they may take
PICTURE = 24  # rows and columns of the picture of a task


def add_table(session: Session, text: str) -> dict[str, object]:
    """Check a visitor's table and keep it under its digest; the oldest table is dropped."""
    found = _read_table(text, 1).task
    examples, width = len(found), found.inputs["x"].shape[1] + found.targets["y"].shape[1]
    if examples > TABLE_ROWS or width > TABLE_COLUMNS:
        raise RangeError(
            f"a table may have {TABLE_ROWS} rows and {TABLE_COLUMNS} columns, each class of a label counted as one; it "
            f"has {examples} and {width}"
        )
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    session.tables[digest] = text
    while len(session.tables) > TABLES:
        session.tables.popitem(last=False)
    return {"table": digest, "rows": examples, "width": width}


def last_columns(count: int) -> str:
    """Name the last columns of a table for `tasks.read`."""
    return ",".join(str(-place) for place in range(count, 0, -1))


def _read_table(text: str, targets: int) -> NamedTask:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        file.write_text(text, encoding="utf-8", newline="")
        try:
            return tasks.read(file, targets=last_columns(targets))
        except NeuralRaceError as error:
            raise FileFormatError(str(error).replace(str(file), "the table")) from None


def make_task(session: Session, task: str, settings: Mapping[str, Any]) -> NamedTask:
    """Return the task of a card: a named one, digits, or a visitor's table."""
    if task == "table":
        if settings["table"] not in session.tables:
            raise FileFormatError("a table must be loaded first, and is kept while the server runs: choose its file")
        found = _read_table(session.tables[settings["table"]], settings["targets"])
        return replace(found, gatings=_one_pathway(found.task))
    if task == "routing":
        return _routing(**settings)
    if task != "digits":
        return tasks.get(task, **settings)
    images, classes = _digits(settings["examples"])
    data = Task({"x": images}, {"y": classes})
    groups = {"digit": np.argmax(classes, axis=1)}
    return NamedTask("digits", dict(settings), data, gatings=_one_pathway(data), hidden=16, groups=groups)


def _digits(examples: int) -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data[:examples] / 16, np.eye(10)[data.target[:examples]]


@lru_cache(8)
def _routing(items: str, domains: int, trained: int) -> NamedTask:
    """Route the items of P1 Fig 4, or digits; permutations of pixels or labels of a domain would change nothing."""
    if items != "digits":
        return tasks.routing(domains, trained)
    if domains > ROUTED_DOMAINS:
        raise RangeError(f"digits are routed between at most {ROUTED_DOMAINS} domains here; {domains} came: take fewer")
    images, classes = _digits(ROUTED_DIGITS)
    return tasks.routing(domains, trained, inputs=images, targets=classes)


def _one_pathway(task: Task) -> dict[str, Callable[[int], Problem]]:
    return {"one open pathway": partial(parallel_pathways, task, {"h": None})}


@cache
def thumbnails() -> dict[str, Any]:
    """Return for each task but a visitor's table points with their sign, or a table between -1 and 1."""
    found: dict[str, Any] = {}
    for name in TASKS:
        if name == "table":
            continue
        defaults = {setting: bound["default"] for setting, bound in TASKS[name].items()}
        task = make_task(Session(), name, defaults).task
        inputs, targets = side_by_side(task.inputs), side_by_side(task.targets)
        if name == "digits":
            found[name] = {"table": numbers(inputs[0].reshape(8, 8), 2)}
        elif inputs.shape[1] == 2 and targets.shape[1] == 1:
            found[name] = {"points": numbers(np.column_stack([inputs, np.sign(targets)]), 3)}
        else:
            shown = targets[:: -(-len(targets) // PICTURE), :: -(-targets.shape[1] // PICTURE)]
            found[name] = {"table": numbers(shown / np.abs(shown).max(), 2)}
    return found


@dataclass(frozen=True, eq=False)
class Setup:
    """A network on a task.

    gating, gatings: the one that was chosen, and all names. rows: the examples of each row of the grid. pathways: its
    columns. named: whether `NamedTask.problem` gives the same problem. whole: the same network on all routes, where
    training sees a part of them.
    """

    task: NamedTask
    gating: str
    gatings: tuple[str, ...]
    problem: Problem
    rows: tuple[np.ndarray, ...]
    pathways: tuple[str, ...]
    named: bool
    whole: Problem | None

    def gates(self, node: str) -> list[float]:
        """Return the gate of a node in each row."""
        gate = _gate(self.problem, node)
        return [float(gate[row[0]]) for row in self.rows]

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
        columns = [self.gates(node) for node in self.pathways]
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
            "grid": [[column[row] for column in columns] for row in range(len(self.rows))],
            "open": {node: self.gates(node) for node in architecture.order},
        }


def make_setup(session: Session, scene: Scene) -> Setup:
    """Build the problem of a scene; scenes with the same problem share it, and with it all statistics."""
    fields = ("task", "settings", "gating", "flips", "network", "depth", "width")
    return session.setups.get(str([scene[name] for name in fields]), lambda: _make_setup(session, scene))


def _make_setup(session: Session, scene: Scene) -> Setup:
    task = make_task(session, scene["task"], scene["settings"])
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

    problem, count = build(task), len(task.task)
    whole = None if task.whole is None or len(task.complete().task) == count else build(task.complete())
    if relu:
        rows = tuple(np.array([example]) for example in range(min(count, MOST_EXAMPLES)))
        return Setup(task, gating, tuple(gatings), problem, rows, (), False, whole)
    plain = gatings[gating](scene["width"])
    pathways = tuple(node for node in plain.architecture.hidden if plain.architecture.level[node] == 1)
    count = len(plain.task)
    gates = list(plain.gates.nodes.values()) or [np.ones(count)]
    labels = np.arange(count)
    if count > MOST_EXAMPLES:
        labels = np.unique(np.stack(gates, axis=1), axis=0, return_inverse=True)[1].ravel()
    places = np.sort(np.unique(labels, return_index=True)[1])[:MOST_ROWS]
    rows = tuple(np.flatnonzero(labels == labels[place]) for place in places)
    same = problem.architecture == plain.architecture and gating in task.gatings
    if not scene["flips"]:
        return Setup(task, gating, tuple(gatings), problem, rows, pathways, same, whole)
    toggled = {node: np.array(_gate(problem, node)) for node in pathways}
    for row, column in scene["flips"]:
        if row >= len(rows) or column >= len(pathways):
            raise RangeError(
                f"a flip must lie in the grid of {len(rows)} rows and {len(pathways)} pathways; [{row}, {column}] came"
            )
        toggled[pathways[column]][rows[row]] = 1.0 - toggled[pathways[column]][rows[row]]
    if not any(gate.any() for gate in toggled.values()):
        raise RangeError("at least one gate must be open; all are closed, so nothing can be learned: open one")
    flipped = Problem(problem.architecture, problem.task, Gates(nodes=dict(problem.gates.nodes) | toggled))
    return Setup(task, gating, tuple(gatings), flipped, rows, pathways, False, None)


def _gatings(task: NamedTask) -> dict[str, Callable[[int], Problem]]:
    """Return those of the task, and one open pathway unless it has that already."""
    found = dict(task.gatings)
    smallest = [build(1) for build in found.values()]
    there = any(not one.gates.nodes and len(one.architecture.hidden) == 1 for one in smallest)
    return found if there or len(task.task.inputs) > 1 else found | _one_pathway(task.task)


def _gate(problem: Problem, node: str) -> np.ndarray:
    return np.asarray(problem.gates.nodes.get(node, np.ones(len(problem.task))), dtype=float)


def initializer_of(scene: Scene) -> initial.Initializer:
    """Return the initializer."""
    made = {"gaussian": initial.gaussian, "orthogonal": initial.orthogonal}[scene["initial"]]
    return made(scene["scale"])


def frames_of(scene: Scene, setup: Setup) -> np.ndarray:
    """Return the steps at which whole networks are kept: fewer for large ones."""
    weights = scene["seeds"] * setup.problem.architecture.weight_count
    fitting = FRAME_BYTES // (8 * weights)
    if fitting < 8:
        raise RangeError(
            f"networks times weights must be at most {FRAME_BYTES // 64:,} to be shown over time; {weights:,} came: "
            f"take fewer or narrower networks"
        )
    return np.unique(np.linspace(0, scene["steps"], int(min(fitting, FRAMES)) + 1).astype(int))


def times_of(scene: Scene, setup: Setup) -> np.ndarray:
    """Return the steps at which forecast and training are evaluated, or refuse a training that takes too long."""
    rows = len(setup.problem.task) if setup.problem.activations else min(len(setup.problem.task), 128)
    work = float(scene["steps"]) * scene["seeds"] * rows * setup.problem.architecture.weight_count
    if work > WORK:
        raise RangeError(
            f"steps x networks x examples x weights must be at most {WORK:.0e} here; they come to {work:.1e}: take "
            f"fewer steps, networks or neurons"
        )
    return make_schedule(scene["steps"], 1, frames_of(scene, setup).tolist()).looks
