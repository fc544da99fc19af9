"""A small picture of each task for its card: its points in the plane, or its table of targets."""

from functools import cache
from typing import Any

import numpy as np

from neuralrace.explorer.bounds import TASKS
from neuralrace.explorer.rounding import numbers
from neuralrace.explorer.tables import Tables

MOST = 24  # rows and columns


@cache
def thumbnails() -> dict[str, Any]:
    """Task -> points with their sign, or a table between -1 and 1; nothing for a visitor's own table."""
    return {name: _picture(name) for name in TASKS if name != "table"}


def _picture(name: str) -> dict[str, Any]:
    task = Tables().make(name, {key: bound.default for key, bound in TASKS[name].items()}).task
    if name == "digits":
        return {"table": numbers(task.inputs["x"][0].reshape(8, 8), 2)}
    inputs, targets = np.hstack(list(task.inputs.values())), np.hstack(list(task.targets.values()))
    if inputs.shape[1] == 2 and targets.shape[1] == 1:
        return {"points": numbers(np.column_stack([inputs, np.sign(targets)]), 3)}
    shown = targets[:: -(-len(targets) // MOST), :: -(-targets.shape[1] // MOST)]
    return {"table": numbers(shown / np.abs(shown).max(), 2)}
