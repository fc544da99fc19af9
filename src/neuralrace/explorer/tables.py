"""Tasks that come from outside the registry: handwritten digits, and a table that a visitor brought."""

import hashlib
import tempfile
from collections import OrderedDict
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from neuralrace.errors import FileFormatError, NeuralRaceError, RangeError
from neuralrace.explorer.bounds import BODY_BYTES, TABLE_COLUMNS, TABLE_ROWS
from neuralrace.task import Task
from neuralrace.tasks import Gating, NamedTask, read
from neuralrace.tasks.pathways import parallel_pathways

KEPT = 8  # tables
OPEN = "one open pathway"


def digits(examples: int) -> NamedTask:
    """The first so many of scikit-learn's 8 x 8 digits, pixels between 0 and 1, and their classes."""
    from sklearn.datasets import load_digits

    data = load_digits()
    task = Task({"x": data.data[:examples] / 16}, {"y": np.eye(10)[data.target[:examples]]})
    settings, groups = {"examples": examples}, {"digit": data.target[:examples]}
    return NamedTask(name="digits", settings=settings, task=task, gatings=opened(task), hidden=16, groups=groups)


def opened(task: Task) -> dict[str, Gating]:
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

    def task(self, table: str, targets: int) -> NamedTask:
        """The last columns as targets, the others as inputs."""
        if table not in self._texts:
            raise FileFormatError("a table must be loaded first, and is kept while the server runs: choose its file")
        found = _read(self._texts[table], targets)
        return replace(found, gatings=opened(found.task))


def _read(text: str, targets: int) -> NamedTask:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "table.csv"
        file.write_text(text, encoding="utf-8", newline="")
        try:
            return read(file, targets=last_columns(targets), most_bytes=BODY_BYTES)
        except NeuralRaceError as error:
            raise FileFormatError(str(error).replace(str(file), "the table")) from None
