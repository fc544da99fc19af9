"""Tasks from tables with named columns: which are learned, which hold classes, and their scales."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from neuralrace.errors import TaskError, require_known
from neuralrace.problem import side_by_side
from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask

if TYPE_CHECKING:
    import pandas

MOST_CLASSES = 1000


def from_frame(
    frame: "pandas.DataFrame",
    targets: str | Sequence[str] | None,
    *,
    classes: bool | None = None,
    standardize: bool = False,
    bias: bool = False,
    weights: np.ndarray | None = None,
) -> NamedTask:
    """Make a task of a table with one example per row: `targets` are learned from the other columns.

    The options are those of `tasks.read`; weights: one for each example.
    """
    import pandas

    frame = frame.set_axis(list(map(str, frame.columns)), axis="columns")
    if not len(frame) or not frame.columns.is_unique:
        raise TaskError("at least one example, and a different name for each column, are required: give both")
    listed = targets.split(",") if isinstance(targets, str) else np.atleast_1d([] if targets is None else targets)
    wanted = [str(name).strip() for name in listed]
    if not wanted or len(set(wanted)) < len(wanted):
        known = ", ".join(list(frame)[:12])
        raise TaskError(f"the columns that are targets must be given, each once (targets=...); there are {known}")
    for name in wanted:
        hint = " (was another separator meant, sep=';'?)" if frame.shape[1] == 1 else ""
        require_known(name, list(frame), f"there is no column {name!r}{hint}")
    inputs = frame.drop(columns=wanted)
    if not inputs.shape[1]:
        raise TaskError("a column of inputs beside the targets is required; there is none")
    empty = np.argwhere(frame.isna().to_numpy())
    if len(empty):
        row, column = empty[0]
        raise TaskError(
            f"every cell must have a value; example {row + 1} has none in column {frame.columns[column]!r}: fill it, "
            "or take the line out"
        )
    words = [name for name, kind in frame.dtypes.items() if kind.kind not in "fiub"]
    for name in words:
        numbers = pandas.to_numeric(frame[name], errors="coerce").notna().to_numpy()
        if name not in wanted or (classes is None and numbers.mean() > 0.5):
            word = str(frame[name].iloc[int(numbers.argmin())])[:40]
            advice = "give classes=True" if name in wanted else "name it as a target, leave it out with usecols=..."
            raise TaskError(
                f"column {name!r} must hold numbers; {word!r} is in it: correct it, {advice}, or write decimal commas "
                "with sep=';' and decimal=','"
            )
    outputs: list[np.ndarray] = []
    titles: list[str] = []
    groups: dict[str, np.ndarray] = {}
    notes: list[str] = []
    for name in wanted:
        values = frame[name].to_numpy(str if name in words else None)
        kinds, place = np.unique(values, return_inverse=True)
        most, labels = min(MOST_CLASSES, max(2, len(values) // 2)), name in words or bool(classes)
        if classes is None and values.dtype.kind in "iu" and 3 <= len(kinds) <= most:
            labels = bool(kinds[0] in (0, 1) and kinds[-1] - kinds[0] == len(kinds) - 1)
            if labels:
                notes.append(f"target {name!r} holds {len(kinds)} whole numbers without a gap and was read as classes")
        if labels and not 2 <= len(kinds) <= most:
            raise TaskError(
                f"two to {MOST_CLASSES:,} classes are required, and at most half as many as examples; {name!r} has "
                f"{len(kinds):,} different labels in {len(values):,} rows: is it the column of targets?"
            )
        if labels:
            outputs.append(np.eye(len(kinds))[place])
            titles += [str(kind) if len(wanted) == 1 else f"{name}={kind}" for kind in kinds]
            groups[name] = kinds.astype(str)[place]
        else:
            outputs.append(values.astype(float)[:, None])
            titles.append(name)
    names = list(inputs)
    task = Task({"x": np.asfortranarray(inputs, dtype=float)}, {"y": np.hstack(outputs)}, weights)
    rows = standardized(task.inputs["x"], task.weights) if standardize else task.inputs["x"]
    if standardize:
        titled = zip(wanted, outputs, strict=True)
        outputs = [part if name in groups else standardized(part, task.weights) for name, part in titled]
    if bias and not ((np.ptp(rows, axis=0) == 0) & (rows[0] != 0)).any():
        rows = np.column_stack([rows, np.ones(len(rows))])
        names.append("constant" if "constant" not in names else "constant 2")
    task = Task({"x": rows}, {"y": np.hstack(outputs)}, task.weights)
    settings = {"targets": ",".join(wanted), "standardize": standardize, "bias": bias}
    columns = {"x": tuple(names), "y": tuple(titles)}
    return NamedTask(task, groups=groups, labels=columns, notes=tuple(notes), settings=settings)


def standardized(rows: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Give columns mean 0 and standard deviation 1 over the weighted examples, and constant ones size 1."""
    size = np.abs(rows).max(axis=0, initial=0.0)
    unit = rows / np.where(size > 0, size, 1.0)  # so that no square overflows or vanishes
    centered = unit - weights @ unit
    deviation = np.sqrt(weights @ centered**2)
    constant = deviation <= 1e-12
    return np.where(constant, np.sign(unit), centered / np.where(constant, 1.0, deviation))


def cautions(task: Task, labels: Mapping[str, Sequence[str]] | None = None) -> tuple[str, ...]:
    """Warn, in sentences, about scales that decide how a network learns; labels: data node -> names of its columns."""
    found, inputs, targets = [], side_by_side(task.inputs), side_by_side(task.targets)
    if not inputs.any():
        return ("every input is zero: there is nothing to learn from",)
    largest = float(np.abs(targets).max())
    if largest > 0:
        unit, root = targets / largest, np.sqrt(task.weights)
        share = float(np.sum((task.weights @ unit) ** 2) / np.sum(task.weights @ unit**2))
        scaled = root[:, None] * inputs / np.maximum(np.abs(inputs).max(axis=0), np.finfo(float).tiny)
        left = float(np.sum((root - scaled @ np.linalg.lstsq(scaled, root, rcond=None)[0]) ** 2))
        if share > 0.1 and left > 0.1:  # left: of a constant, after the best linear map of the inputs
            indicators = bool(np.isin(unit, (0, 1)).all() and (unit.sum(axis=1) == 1).all())
            found.append(
                f"the targets are not centered ({share:.0%} of their second moment is their mean) and no input is "
                "constant: a network without biases has to build the mean from the inputs. Add a constant input (bias)"
                + ("" if indicators else ", or take the mean off the targets (standardize)")
            )
    sizes: dict[str, float] = {}
    for node, rows in task.inputs.items():
        titles = (labels or {}).get(node) or [f"{node} {column + 1}" for column in range(rows.shape[1])]
        for title, column in zip(titles, np.abs(rows).T, strict=True):
            if column.any():  # the mean of what is not zero: a pixel that is rarely on is not small
                sizes[title] = float(column[column > 0].mean())
    least, most = min(sizes, key=lambda name: sizes[name]), max(sizes, key=lambda name: sizes[name])
    if sizes[most] > 30 * sizes[least]:
        found.append(
            f"the inputs differ in scale: {most!r} is of size {sizes[most]:.3g} and {least!r} of {sizes[least]:.3g}. "
            "The small ones are learned last or never, and more steps do not help: standardize them"
        )
    return tuple(found)
