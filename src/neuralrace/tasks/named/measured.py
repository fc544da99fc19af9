"""Small sets of measured data that come with scikit-learn: flowers, wines, handwritten digits, patients."""

from typing import Any

import numpy as np

from neuralrace.task import Task
from neuralrace.tasks.files.preparation import standardised, with_constant
from neuralrace.tasks.registry import NamedTask, register

HIDDEN = 100


@register("iris", summary="three kinds of iris by four lengths (Fisher 1936), 150 flowers")
def iris(standardise: bool = True, bias: bool = True) -> NamedTask:
    """Which kind of iris it is, one output for each. Groups: "class"."""
    return _classes("iris", standardise, bias)


@register("wine", summary="three growers of wine by thirteen measurements, 178 wines")
def wine(standardise: bool = True, bias: bool = True) -> NamedTask:
    """Which grower a wine is from, one output for each. Groups: "class"."""
    return _classes("wine", standardise, bias)


@register("digits", summary="ten handwritten digits of 8 x 8 pixels, 1797 images")
def digits(standardise: bool = True, bias: bool = True) -> NamedTask:
    """Which digit it is, one output for each; pixels that are the same in all images are left out. Groups: "class"."""
    return _classes("digits", standardise, bias)


@register("diabetes", summary="progression of diabetes after a year by ten measurements, 442 patients")
def diabetes(standardise: bool = True, bias: bool = True) -> NamedTask:
    """A number for each patient."""
    found = _load("diabetes")
    wanted = np.asarray(found.target, dtype=float)[:, None]
    rows, names = _prepared(found.data, list(map(str, found.feature_names)), standardise, bias)
    return _named(
        "diabetes", standardise, bias, rows, names, _standard(wanted) if standardise else wanted, ("progression",)
    )


def _classes(name: str, standardise: bool, bias: bool) -> NamedTask:
    found = _load(name)
    classes = np.asarray(found.target)
    titles = tuple(str(title) for title in found.target_names)
    rows, names = _prepared(found.data, list(map(str, found.feature_names)), standardise, bias)
    targets = np.eye(len(titles))[classes]
    return _named(name, standardise, bias, rows, names, targets, titles, {"class": np.array(titles)[classes]})


def _load(name: str) -> Any:
    from sklearn import datasets  # a second of imports that other tasks do not need

    return getattr(datasets, f"load_{name}")()


def _prepared(data: Any, names: list[str], standardise: bool, bias: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """The inputs without constant columns, as asked."""
    rows = np.asarray(data, dtype=float)
    telling = np.ptp(rows, axis=0) > 0
    rows, names = rows[:, telling], [name for name, tells in zip(names, telling, strict=True) if tells]
    rows = _standard(rows) if standardise else rows
    return with_constant(rows, tuple(names)) if bias else (rows, tuple(names))


def _standard(columns: np.ndarray) -> np.ndarray:
    return standardised(columns, np.full(len(columns), 1 / len(columns)))


def _named(
    name: str,
    standardise: bool,
    bias: bool,
    rows: np.ndarray,
    names: tuple[str, ...],
    targets: np.ndarray,
    titles: tuple[str, ...],
    groups: dict[str, np.ndarray] | None = None,
) -> NamedTask:
    return NamedTask(
        name=name,
        settings={"standardise": standardise, "bias": bias},
        task=Task({"x": rows}, {"y": targets}),
        gatings={},
        hidden=HIDDEN,
        groups=groups or {},
        labels={"x": names, "y": titles},
    )
