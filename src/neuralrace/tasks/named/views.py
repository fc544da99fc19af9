"""Classes that can be told by any of several views: the data of the race of views (P3)."""

import itertools
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.errors import RangeError, require_count, require_name, require_number
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks.registry import Gating, NamedTask, register

COUNTS: dict[str, tuple[int, int | None]] = {  # the least and the most
    **{"classes": (1, 1000), "views": (2, 100), "depth": (2, 100)},
    **{"examples": (0, 10**7), "seed": (0, None)},
}
PRESENCES = ("all", "one", "chance")
TARGETS = ("one-hot", "scalar")
MOST_LISTED = 12  # views of which every set is listed
MOST_ROWS = 200_000  # of the exact set; more classes and views than that want drawn examples


@register("views", summary="classes with several views each, which occur together, one at a time or by chance")
def views(
    classes: int = 3,
    views: int = 3,
    presence: str = "all",
    probability: float | Sequence[float] = 0.5,
    sizes: float | Sequence[float] = 1.0,
    overlap: float = 0.0,
    noise: float = 0.0,
    targets: str = "one-hot",
    examples: int = 0,
    seed: int = 0,
    depth: int = 2,
) -> NamedTask:
    """Inputs "x" are the sum of the features phi_km of the views m that are present, the target is the class k (P3).

    presence: "all" views in every example; "one" of them, all equally often; "chance", each view m on its own with
    `probability` p_m (one number or one per view). sizes: |phi_km|, one number or one per view. overlap: the cosine
    between any two features, 0 for orthogonal ones. noise: standard deviation of each input. targets: "one-hot", or
    "scalar", +1 for even and -1 for odd classes. examples: how many to draw with `seed`; 0 gives the exact population,
    a weighted row for every class and set of present views; noise is then a set of rows with its exact first and
    second moments, which is all that a gated network sees. depth: L, layers of weights along a pathway.

    Gatings: "views", a pathway per view that is open when the view is present and reads its own K features through
    an input node of its own, "view0", "view1", ...; "views, whole input", the same gates on pathways that read all of
    "x"; "linear", one pathway that is always open.
    """
    settings = dict(locals())
    for name, (least, most) in COUNTS.items():
        settings[name] = require_count(name, settings[name], least=least, most=most)
    for name, known in (("presence", PRESENCES), ("targets", TARGETS)):
        require_name(name, settings[name], known)
    if presence == "chance" and not examples and views > MOST_LISTED:
        raise RangeError(
            f"views must be at most {MOST_LISTED} where every set of them is listed; it was {views}: "
            "draw examples instead"
        )
    chances = _per_view("probability", probability, views, least=0.0, most=1.0)
    if presence == "chance" and not chances.any():
        raise RangeError("probability must be above 0 for at least one view; all were 0: no view would ever be seen")
    lengths = _per_view("sizes", sizes, views, above=0.0)
    sigma = require_number("noise", noise, least=0)
    unit = feature_vectors(classes, views, overlap)
    features = unit * lengths[:, None]
    if examples:
        labels, present, inputs, weights = _drawn(examples, seed, features, presence, chances, sigma)
    else:
        labels, present, inputs, weights = _population(features, presence, chances, sigma)
    rows = np.eye(classes)[labels] if targets == "one-hot" else 1.0 - 2.0 * (labels % 2)[:, None]
    task = Task({"x": inputs}, {"y": rows}, weights)
    return NamedTask(
        name="views",
        settings=settings,
        task=task,
        gatings=_gatings(task, unit, present, depth),
        hidden=8,
        groups={"class": labels, **{f"view{m}": present[:, m].astype(int) for m in range(views)}},
    )


def _gatings(task: Task, unit: np.ndarray, present: np.ndarray, depth: int) -> dict[str, Gating]:
    """Pathways by view, on the view's own features or on all inputs, and one linear pathway."""
    views, inputs = unit.shape[1], task.inputs["x"]
    apart = Task({f"view{m}": inputs @ unit[:, m].T for m in range(views)}, task.targets, task.weights)
    own = {f"h{m}": f"view{m}" for m in range(views)}
    open_when = {f"h{m}": present[:, m] for m in range(views)}
    return {
        "views": partial(deep_pathways, apart, own, open_when, depth),
        "views, whole input": partial(deep_pathways, task, dict.fromkeys(own, "x"), open_when, depth),
        "linear": partial(deep_pathways, task, {"h": "x"}, {}, depth),
    }


def feature_vectors(classes: int, views: int, overlap: float = 0.0) -> np.ndarray:
    """Unit features phi_km in as many dimensions as there are features, (classes, views, dimensions).

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


def deep_pathways(
    task: Task, sources: Mapping[str, str], open_when: Mapping[str, np.ndarray], depth: int, hidden: int
) -> Problem:
    """One chain of `depth` layers per pathway from its input node to the output, gated at its first hidden node."""
    target = next(iter(task.targets))
    nodes = {node: rows.shape[1] for node, rows in task.inputs.items()}
    edges: list[tuple[str, str]] = []
    for pathway, source in sources.items():
        chain = [pathway, *(f"{pathway}_{layer}" for layer in range(2, depth))]
        nodes |= dict.fromkeys(chain, hidden)
        edges += itertools.pairwise([source, *chain, target])
    nodes[target] = task.targets[target].shape[1]
    return Problem(Architecture(nodes, edges), task, Gates(nodes=open_when))


def patterns(views: int, presence: str, chances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sets of present views that can occur, (patterns, views) of 0 and 1, and their probabilities."""
    if presence == "all":
        return np.ones((1, views)), np.ones(1)
    if presence == "one":
        return np.eye(views), np.full(views, 1.0 / views)
    unsure = np.flatnonzero((chances > 0) & (chances < 1))
    shown = np.tile((chances == 1).astype(float), (2 ** len(unsure), 1))
    shown[:, unsure] = np.array(list(itertools.product((1.0, 0.0), repeat=len(unsure))))
    return shown, np.where(shown > 0, chances, 1 - chances).prod(axis=1)


def _population(
    features: np.ndarray, presence: str, chances: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Class, present views, input and weight of every row; noise is +-sigma sqrt(d) along each of the d axes."""
    classes, views, size = features.shape
    sets = 2 ** int(((chances > 0) & (chances < 1)).sum()) if presence == "chance" else views
    if classes * sets * (2 * size if sigma else 1) > MOST_ROWS:
        raise RangeError(
            f"the exact population may have {MOST_ROWS} rows; {classes} classes with {sets} sets of views need more: "
            f"draw examples instead, examples=10000"
        )
    shown, probability = patterns(views, presence, chances)
    labels = np.tile(np.arange(classes), len(shown))
    present = np.repeat(shown, classes, axis=0)
    weights = np.repeat(probability, classes) / classes
    inputs = np.einsum("nm,nmd->nd", present, features[labels])
    if sigma:
        kicks = sigma * np.sqrt(size) * np.vstack([np.eye(size), -np.eye(size)])
        inputs = (inputs[:, None] + kicks).reshape(-1, size)
        labels, present, weights = (np.repeat(part, len(kicks), axis=0) for part in (labels, present, weights))
    return labels, present, inputs, weights


def _drawn(
    number: int, seed: int, features: np.ndarray, presence: str, chances: np.ndarray, sigma: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """As `_population`, with independent examples of equal weight."""
    classes, views, size = features.shape
    random = np.random.default_rng(seed)
    labels = random.integers(classes, size=number)
    if presence == "chance":
        present = (random.random((number, views)) < chances).astype(float)
    else:
        present = np.ones((number, views)) if presence == "all" else np.eye(views)[random.integers(views, size=number)]
    inputs = np.einsum("nm,nmd->nd", present, features[labels]) + sigma * random.standard_normal((number, size))
    return labels, present, inputs, np.full(number, 1.0 / number)


def _per_view(name: str, value: float | Sequence[float], views: int, **bounds: float) -> np.ndarray:
    """One number per view, each checked."""
    given: list[Any] = [value] * views if np.ndim(value) == 0 else list(np.asarray(value))
    if len(given) != views:
        raise RangeError(f"{name} must be one number or one per view, {views}; {len(given)} came")
    return np.array([require_number(f"{name} of view {m}", one, **bounds) for m, one in enumerate(given)])
