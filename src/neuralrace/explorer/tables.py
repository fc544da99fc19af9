"""The tasks of the cards, with a picture of each: of the registry, of digits, of a table that a visitor brought."""

import hashlib
import tempfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace import tasks
from neuralrace.errors import FileFormatError, NeuralRaceError, RangeError
from neuralrace.explorer.bounds import BODY_BYTES, TABLE_COLUMNS, TABLE_ROWS, TASKS
from neuralrace.explorer.rounding import numbers
from neuralrace.problem import side_by_side
from neuralrace.task import Task
from neuralrace.tasks import Gating, NamedTask, read
from neuralrace.tasks.pathways import parallel_pathways

KEPT = 8  # tables
ROUTED_DIGITS, ROUTED_DOMAINS = 50, 6  # images that every domain shows, and how many domains may show images
OPEN = "one open pathway"
MOST = 24  # rows and columns of a picture


def digit_rows(examples: int) -> tuple[np.ndarray, np.ndarray]:
    """The first so many of scikit-learn's 8 x 8 digits, pixels between 0 and 1, and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    return data.data[:examples] / 16, np.eye(10)[data.target[:examples]]


def digits(examples: int) -> NamedTask:
    """Digits through one route."""
    images, classes = digit_rows(examples)
    task = Task({"x": images}, {"y": classes})
    settings, groups = {"examples": examples}, {"digit": np.argmax(classes, axis=1)}
    return NamedTask(name="digits", settings=settings, task=task, gatings=always_open(task), hidden=16, groups=groups)


@lru_cache(KEPT)
def routed(items: str, domains: int, trained: int) -> NamedTask:
    """Routing with the items of P1 Fig 4, or with digits in every domain.

    Permuting the pixels or labels of a domain changes nothing that is shown: its encoder or decoder absorbs that.
    """
    if items != "digits":
        return tasks.routing(domains, trained)
    if domains > ROUTED_DOMAINS:
        raise RangeError(f"digits are routed between at most {ROUTED_DOMAINS} domains here; {domains} came: take fewer")
    images, classes = digit_rows(ROUTED_DIGITS)
    return tasks.routing(domains, trained, inputs=images, targets=classes)


def always_open(task: Task) -> dict[str, Gating]:
    """The gating with one pathway that is always open."""
    return {OPEN: partial(parallel_pathways, task, {"h": None})}


def last_columns(count: int) -> str:
    """The last columns of a table, as `tasks.read` wants them named."""
    return ",".join(str(-place) for place in range(count, 0, -1))


class Tables:
    """The tables that visitors brought while the server runs, by a digest of their text; the oldest goes first."""

    def __init__(self) -> None:
        self._texts: OrderedDict[str, str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._texts)

    def add(self, text: str) -> dict[str, object]:
        """Check a table with one example per line and keep it: its digest, and how much it holds."""
        found = _read(text, 1).task
        examples, width = len(found), found.inputs["x"].shape[1] + found.targets["y"].shape[1]
        if examples > TABLE_ROWS or width > TABLE_COLUMNS:
            raise RangeError(
                f"a table may have {TABLE_ROWS} rows and {TABLE_COLUMNS} columns, each class of a label counted as "
                f"one; it has {examples} and {width}"
            )
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._texts[digest] = text
        while len(self._texts) > KEPT:
            self._texts.popitem(last=False)
        return {"table": digest, "rows": examples, "width": width}

    def make(self, task: str, settings: Mapping[str, Any]) -> NamedTask:
        """The task of a card."""
        known: dict[str, Callable[..., NamedTask]] = {"digits": digits, "routing": routed, "table": self.task}
        return known.get(task, partial(tasks.get, task))(**settings)

    def task(self, table: str, targets: int) -> NamedTask:
        """The last columns as targets, the others as inputs."""
        if table not in self._texts:
            raise FileFormatError("a table must be loaded first, and is kept while the server runs: choose its file")
        found = _read(self._texts[table], targets)
        return replace(found, gatings=always_open(found.task))


def _read(text: str, targets: int) -> NamedTask:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        file.write_text(text, encoding="utf-8", newline="")
        try:
            return read(file, targets=last_columns(targets), most_bytes=BODY_BYTES)
        except NeuralRaceError as error:
            raise FileFormatError(str(error).replace(str(file), "the table")) from None


@cache
def thumbnails() -> dict[str, Any]:
    """Task -> points with their sign, or a table between -1 and 1; nothing for a visitor's own table."""
    return {name: _picture(name) for name in TASKS if name != "table"}


def _picture(name: str) -> dict[str, Any]:
    task = Tables().make(name, {key: bound.default for key, bound in TASKS[name].items()}).task
    if name == "digits":
        return {"table": numbers(task.inputs["x"][0].reshape(8, 8), 2)}
    inputs, targets = side_by_side(task.inputs), side_by_side(task.targets)
    if inputs.shape[1] == 2 and targets.shape[1] == 1:
        return {"points": numbers(np.column_stack([inputs, np.sign(targets)]), 3)}
    shown = targets[:: -(-len(targets) // MOST), :: -(-targets.shape[1] // MOST)]
    return {"table": numbers(shown / np.abs(shown).max(), 2)}
