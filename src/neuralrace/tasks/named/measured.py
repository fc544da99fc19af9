"""Small sets of measured data that come with scikit-learn: flowers, wines, handwritten digits, patients."""

import numpy as np

from neuralrace.task import Task
from neuralrace.tasks.registry import NamedTask, register
from neuralrace.tasks.scaling import standardized, with_constant


@register("iris", summary="three kinds of iris by four lengths (Fisher 1936), 150 flowers")
def iris(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Which kind of iris it is, one output for each. Groups: "class"."""
    return _measured("iris", standardize, bias)


@register("wine", summary="three growers of wine by thirteen measurements, 178 wines")
def wine(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Which grower a wine is from, one output for each. Groups: "class"."""
    return _measured("wine", standardize, bias)


@register("digits", summary="ten handwritten digits of 8 x 8 pixels, 1797 images")
def digits(standardize: bool = True, bias: bool = True) -> NamedTask:
    """Which digit it is, one output for each; pixels that are the same in all images are left out. Groups: "class"."""
    return _measured("digits", standardize, bias)


@register("diabetes", summary="progression of diabetes after a year by ten measurements, 442 patients")
def diabetes(standardize: bool = True, bias: bool = True) -> NamedTask:
    """A number for each patient."""
    return _measured("diabetes", standardize, bias)


def _measured(name: str, standardize: bool, bias: bool) -> NamedTask:
    """The data without columns that are the same for all; classes as one output each."""
    from sklearn import datasets  # a second of imports that other tasks do not need

    found = getattr(datasets, f"load_{name}")()
    rows = np.asarray(found.data, dtype=float)
    telling = np.ptp(rows, axis=0) > 0
    rows, equal = rows[:, telling], np.full(len(rows), 1 / len(rows))
    names = tuple(str(title) for title, tells in zip(found.feature_names, telling, strict=True) if tells)
    classes = tuple(map(str, found.get("target_names", ())))
    targets = np.eye(len(classes))[found.target] if classes else np.asarray(found.target, dtype=float)[:, None]
    if standardize:
        rows, targets = standardized(rows, equal), targets if classes else standardized(targets, equal)
    if bias:
        rows, names = with_constant(rows, names)
    return NamedTask(
        name=name,
        settings={"standardize": standardize, "bias": bias},
        task=Task({"x": rows}, {"y": targets}),
        groups={"class": np.array(classes)[found.target]} if classes else {},
        labels={"x": names, "y": classes or ("progression",)},
    )
