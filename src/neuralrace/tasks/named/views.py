"""Classes that can be recognized by any of several views: the data of the race of views (P3)."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, require_count, require_name, require_number
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways, with_depth
from neuralrace.tasks.registry import NamedTask, register

MOST_ROWS = 200_000  # of the population


@register
def views(
    classes: int = 3,
    views: int = 3,
    presence: str = "all",
    probability: float | Sequence[float] = 0.5,
    sizes: float | Sequence[float] = 1.0,
    overlap: float = 0.0,
    noise: float = 0.0,
    depth: int = 2,
) -> NamedTask:
    """Classes with several views each, which occur together, one at a time or by chance (P3).

    Inputs "x" are the sum of the features phi_km of the views m that are present, the target is the class k. The
    examples are the exact population, a weighted row for every class and set of present views. presence: "all" views in
    every example; "one" of them, all equally often; "chance", each view m on its own with `probability` p_m (one number
    or one per view). sizes: |phi_km|, one number or one per view. overlap: the cosine between any two features, 0 for
    orthogonal ones. noise: standard deviation of each input, as a set of rows with its exact first and second moments,
    which is all that a gated network sees. depth: L, layers of weights along a pathway.

    Gatings: "views", a pathway per view that is open when the view is present and reads its own K features through
    an input node of its own, "view0", "view1", ...; "linear", one pathway that is always open and reads "x".
    """
    require_count("classes", classes, most=1000)
    require_count("views", views, least=2, most=100)
    require_count("depth", depth, least=2, most=100)
    require_name("presence", presence, ("all", "one", "chance"))
    chances = _per_view("probability", probability, views, least=0.0, most=1.0)
    lengths = _per_view("sizes", sizes, views, above=0.0)
    sigma, size = require_number("noise", noise, least=0), classes * views
    unit = feature_vectors(classes, views, overlap)
    shown, likely = np.ones((1, views)), np.ones(1)
    if presence == "one":
        shown, likely = np.eye(views), np.full(views, 1 / views)
    unsure = np.flatnonzero((chances > 0) & (chances < 1)) if presence == "chance" else np.arange(0)
    if classes * len(shown) * 2.0 ** len(unsure) * (2 * size if sigma else 1) > MOST_ROWS:
        raise RangeError(
            f"the population may have {MOST_ROWS} rows; {classes} classes with {2.0 ** len(unsure):g} sets of views "
            "need more: take fewer views, or no noise"
        )
    if presence == "chance":
        if not chances.any():
            raise RangeError("probability must be above 0 for at least one view; all were 0: no view would be seen")
        shown = np.tile((chances == 1).astype(float), (2 ** len(unsure), 1))
        shown[:, unsure] = np.array(list(itertools.product((1.0, 0.0), repeat=len(unsure))))
        likely = np.where(shown > 0, chances, 1 - chances).prod(axis=1)
    labels, present = np.tile(np.arange(classes), len(shown)), np.repeat(shown, classes, axis=0)
    weights = np.repeat(likely, classes) / classes
    inputs = np.einsum("nm,nmd->nd", present, (unit * lengths[:, None])[labels])
    if sigma:  # +-sigma sqrt(d) along each of the d axes
        kicks = sigma * np.sqrt(size) * np.vstack([np.eye(size), -np.eye(size)])
        inputs = (inputs[:, None] + kicks).reshape(-1, size)
        labels, present = np.repeat(labels, len(kicks)), np.repeat(present, len(kicks), axis=0)
        weights = np.repeat(weights, len(kicks)) / len(kicks)
    task = Task({"x": inputs}, {"y": np.eye(classes)[labels]}, weights)
    apart = Task({f"view{m}": task.inputs["x"] @ unit[:, m].T for m in range(views)}, task.targets, task.weights)

    def by_view(hidden: int) -> Problem:
        own = {f"h{m}": f"view{m}" for m in range(views)}
        open_when = {f"h{m}": present[:, m] for m in range(views)}
        return with_depth(parallel_pathways(apart, open_when, hidden, own), depth)

    def linear(hidden: int) -> Problem:
        return with_depth(parallel_pathways(task, {"h": None}, hidden), depth)

    groups = {"class": labels, **{f"view{m}": present[:, m].astype(int) for m in range(views)}}
    return NamedTask(task, {"views": by_view, "linear": linear}, hidden=8, groups=groups)


def feature_vectors(classes: int, views: int, overlap: float = 0.0) -> np.ndarray:
    """Return unit features phi_km in as many dimensions as there are features, (classes, views, dimensions).

    overlap: the cosine between any two of them. Their Gram matrix is (1 - overlap) I + overlap 1 1^T and the features
    are the rows of its symmetric root.
    """
    size = classes * views
    cosine = require_number("overlap", overlap)
    lowest = -1.0 / (size - 1)
    if not lowest < cosine < 1:
        raise RangeError(
            f"overlap must lie between {lowest:.4g} and 1, both excluded, or the {size} features are linearly "
            f"dependent; it was {cosine:g}: bring it nearer to 0"
        )
    mean = np.full((size, size), 1.0 / size)
    root = np.sqrt(1 - cosine) * (np.eye(size) - mean) + np.sqrt(1 - cosine + size * cosine) * mean
    return root.reshape(classes, views, size)


def _per_view(name: str, value: float | Sequence[float], views: int, **bounds: float) -> np.ndarray:
    given: list[Any] = [value] * views if np.ndim(value) == 0 else list(np.asarray(value))
    if len(given) != views:
        raise RangeError(f"{name} must be one number or one per view, {views}; got {len(given)}")
    return np.array([require_number(f"{name} of view {m}", one, **bounds) for m, one in enumerate(given)])
