"""One way of training on views, and the arrays that stand for it."""

import itertools
from dataclasses import dataclass, field

import numpy as np

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_count, require_number

NETWORKS = ("gated", "relu")
LOSSES = ("squared", "cross-entropy")
RULES = ("flow", "descent", "mini-batch", "momentum")
PRESENCES = ("chance", "one")


@dataclass(frozen=True, eq=False)
class Trial:
    """A network, its data and how it is trained; seeds are the caller's.

    network: "gated", a pathway per view with weights of its own, or "relu", one network that reads all inputs. hidden:
    neurons per layer of a pathway, or of the ReLU network. presence: "chance", every view with `probability`, 1 for all
    of them always; or "one" at a time. scale: the spread of initial weights times sqrt(hidden). rule: "flow"
    (fourth-order Runge-Kutta with the step of descent), "descent", "mini-batch" (`batch` examples drawn anew for each
    step) or "momentum" (heavy ball, its step times 1 - momentum, so that time runs alike; full batch). competition:
    lambda of the penalty lambda/K sum over classes and pairs of views of r_m^2 r_n^2, r the response to a lone view.
    targets: soft targets in place of the classes, (rows, K), in the order of `rows`.
    """

    network: str = "gated"
    depth: int = 2
    classes: int = 3
    views: int = 3
    hidden: int = 8
    presence: str = "chance"
    probability: float = 1.0
    sizes: tuple[float, ...] = ()
    scale: float = 0.1
    loss: str = "squared"
    rule: str = "descent"
    learning_rate: float = 0.5
    momentum: float = 0.9
    batch: int = 16
    competition: float = 0.0
    targets: np.ndarray | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("network", self.network, NETWORKS),
            ("loss", self.loss, LOSSES),
            ("rule", self.rule, RULES),
            ("presence", self.presence, PRESENCES),
        ):
            if value not in known:
                raise UnknownNameError(
                    f"{name} must be one of {', '.join(known)}; {value!r} came; {nearest(value, known)}"
                )
        require_count("depth", self.depth, least=2)
        require_count("classes", self.classes, least=2)
        require_count("views", self.views, least=2)
        require_count("hidden", self.hidden)
        require_count("batch", self.batch)
        require_number("probability", self.probability, above=0, most=1)
        require_number("scale", self.scale, above=0)
        require_number("learning_rate", self.learning_rate, above=0)
        require_number("competition", self.competition, least=0)
        if not 0 <= self.momentum < 1:
            raise RangeError(f"momentum must be at least 0 and below 1; it was {self.momentum:g}")
        if len(self.sizes) not in (0, self.views):
            raise RangeError(f"sizes must have one number per view, {self.views}; it has {len(self.sizes)}")


def rows(classes: int, views: int) -> tuple[np.ndarray, np.ndarray]:
    """The class and the present views of every row that can occur: all classes for each set of views."""
    sets = np.array(list(itertools.product((1.0, 0.0), repeat=views)))
    return np.tile(np.arange(classes), len(sets)), np.repeat(sets, classes, axis=0)


def inputs(trial: Trial) -> np.ndarray:
    """(rows, pathways, inputs): for "gated" what each pathway reads, its own view's K features; else all K M inputs."""
    labels, present = rows(trial.classes, trial.views)
    sizes = np.array(trial.sizes or (1.0,) * trial.views)
    apart = (present * sizes)[:, :, None] * np.eye(trial.classes)[labels][:, None, :]
    if trial.network == "gated":
        return apart
    # in the order of tasks.views: class by class, view by view
    return apart.transpose(0, 2, 1).reshape(len(labels), 1, -1)


def weights(trial: Trial) -> np.ndarray:
    """The probability of every row."""
    _, present = rows(trial.classes, trial.views)
    if trial.presence == "one":
        return (present.sum(axis=1) == 1) / (trial.views * trial.classes)
    p = trial.probability
    return np.asarray(np.where(present > 0, p, 1 - p).prod(axis=1) / trial.classes)


def targets(trial: Trial) -> np.ndarray:
    """One-hot classes, or the soft targets of the trial."""
    labels, _ = rows(trial.classes, trial.views)
    if trial.targets is None:
        return np.eye(trial.classes)[labels]
    soft = np.asarray(trial.targets, dtype=np.float64)
    if soft.shape != (len(labels), trial.classes) or not np.isfinite(soft).all():
        raise RangeError(
            f"targets must be finite, one row per class and set of views, {(len(labels), trial.classes)}; their shape "
            f"was {soft.shape}"
        )
    return soft


def lone_rows(classes: int, views: int) -> np.ndarray:
    """The row in which class k shows view m and no other, (K, M)."""
    labels, present = rows(classes, views)
    lone = present.sum(axis=1) == 1
    found = [
        [int(np.flatnonzero(lone & (labels == k) & (present[:, m] == 1))[0]) for m in range(views)]
        for k in range(classes)
    ]
    return np.array(found)


def shapes(trial: Trial) -> list[tuple[int, int, int]]:
    """(pathways, target, source) of every layer."""
    gated = trial.network == "gated"
    paths = trial.views if gated else 1
    enter = trial.classes * (1 if gated else trial.views)
    sizes = [enter, *[trial.hidden] * (trial.depth - 1), trial.classes]
    return [(paths, into, out) for out, into in itertools.pairwise(sizes)]


def draw_weights(trial: Trial, seed: int) -> list[np.ndarray]:
    """Independent normal weights with standard deviation scale / sqrt(hidden); a seed draws the same at any scale."""
    random = np.random.default_rng(seed)
    std = trial.scale / np.sqrt(trial.hidden)
    return [std * random.standard_normal(shape) for shape in shapes(trial)]
