"""Routed images, trained on pairs of every kind, and what moments alone say of them before."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import xarray

from neuralrace import initial
from neuralrace.activations import LeakyReLU
from neuralrace.papers.beyond._pairs_tables import SLOPE, pair_means, ratio, stacked
from neuralrace.tasks import RoutedImages, routed_images
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import PairRace, Routing
from neuralrace.theory.routed import RoutedFlow, drawn_weights
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import make_rule
from neuralrace.trajectory import Trajectory

KEY = 23  # of the pairs
KINDS: dict[str, tuple[str, LeakyReLU | None]] = {  # name -> objective and activation
    "squared": ("squared", None),
    "cross-entropy": ("cross-entropy", None),
    "leaky cross-entropy": ("cross-entropy", LeakyReLU(SLOPE)),
}
PAIRS = ("trained", "untrained")

DomainMoments = tuple[np.ndarray, np.ndarray, float]  # Sigma_x, Sigma_yx and <|y|^2> of one domain


@dataclass(frozen=True)
class Pictures:
    """The images and how they are learned; forecast: pairs of which the whole curve is forecast."""

    data: str
    folder: str | None
    domains: int
    width: int
    gain: float
    rate: float
    steps: int
    batch: int
    seeds: int
    tested: int
    pairs: tuple[tuple[str, int], ...]
    forecast: tuple[tuple[str, int], ...]
    draws: int = 4  # of theory, and as many seeds of the training beside it
    looks: int = 40

    @cached_property
    def task(self) -> RoutedImages:
        """The images in their domains."""
        task = routed_images(self.data, self.domains, min(4, self.domains), folder=self.folder or None)
        tested = slice(self.tested)
        return replace(task, test_images=task.test_images[tested], test_labels=task.test_labels[tested])

    def pattern(self, name: str, trained: int) -> np.ndarray:
        """Which pairs are trained."""
        return trained_pairs(name, self.domains, trained, KEY)


def measure(given: Pictures) -> xarray.Dataset:
    """Errors on test images after training, and the curves of squared errors beside their forecast."""
    patterns = [given.pattern(*pairs) for pairs in given.pairs]
    found = xarray.Dataset()
    found["image_ratio"] = ("graph", [ratio(pattern) for pattern in patterns])
    found["image_pairs"] = ("graph", [name for name, _ in given.pairs])
    found["image_trained"] = ("graph", [trained for _, trained in given.pairs])
    wrong = [_test_errors(given, patterns, kind) for kind in KINDS]
    found["image_error"] = (("objective", "graph", "image_seed", "kind"), np.array(wrong))
    return xarray.merge([found, curves(given)]).assign_coords(objective=list(KINDS), kind=list(PAIRS))


def curves(given: Pictures) -> xarray.Dataset:
    """Squared errors of trained and untrained pairs over time: trained, by the exact flow, and by the reduction."""
    if not given.forecast:
        return xarray.Dataset()
    moments, patterns = moments_of(given.task), [given.pattern(*pairs) for pairs in given.forecast]
    looks = np.unique(np.linspace(0, given.steps, given.looks).astype(int))
    conditions = [_condition(given, pattern, "squared") for pattern in patterns]
    runs = train_together(
        conditions, given.steps, seeds=given.draws, record="weights", at=looks.tolist(), precision="single"
    )
    found = [_curve(given, moments, pattern, run) for pattern, run in zip(patterns, runs, strict=True)]
    named = [f"{name}, K = {trained}" for name, trained in given.forecast]
    return xarray.concat(found, "curve", data_vars="all", coords="minimal").assign_coords(curve=named, kind=list(PAIRS))


def _condition(given: Pictures, pattern: np.ndarray, kind: str) -> Condition:
    loss, activation = KINDS[kind]
    task = given.task.with_pairs(pattern)
    network = RoutedNetwork(task, given.width, activation, biases=False)
    rule, time = make_rule(given.rate, None, given.steps)
    return Condition(network, initial.orthogonal(given.gain), rule, time, loss, batch_size=given.batch)


def _test_errors(given: Pictures, patterns: list[np.ndarray], kind: str) -> np.ndarray:
    """The part of test images that trained and untrained pairs get wrong at the end, (graph, seed, kind)."""
    conditions = [_condition(given, pattern, kind) for pattern in patterns]
    runs = train_together(
        conditions, given.steps, seeds=given.seeds, record="pair_errors", at=[given.steps], precision="single"
    )
    return np.array([np.stack([run.values(f"pair_errors[{kind}]")[:, -1] for kind in PAIRS], axis=1) for run in runs])


def _curve(given: Pictures, moments: DomainMoments, pattern: np.ndarray, run: Trajectory) -> xarray.Dataset:
    flow = RoutedFlow(pattern, *moments)
    measured = [
        [
            pair_means(flow.errors(stacked(run.weights(seed, look), given.domains)), pattern)
            for look in range(len(run.time))
        ]
        for seed in range(given.draws)
    ]
    sizes, law = (moments[0].shape[0], given.width, moments[1].shape[0]), initial.orthogonal(given.gain)
    exact = []
    for draw in range(given.draws):
        first = drawn_weights(law, given.domains, sizes, key=draw)
        errors = flow.follow(first, float(run.time[-1]), rtol=1e-4).at(run.time)
        exact.append(np.stack([errors["trained"], errors["untrained"]], axis=1))
    reduced = _reduced(moments, pattern, given, run.time)
    data = xarray.Dataset(coords={"image_time": run.time})
    data["curve_trained"] = (("draw", "image_time", "kind"), np.array(measured))
    data["curve_flow"] = (("draw", "image_time", "kind"), np.array(exact))
    data["curve_reduction"] = ("image_time", reduced[0])
    data["left_reduction"] = ((), reduced[1])
    data["best"] = ((), float(flow.unexplained))
    return data


def moments_of(task: RoutedImages) -> DomainMoments:
    """Sigma_x, Sigma_yx and <|y|^2> of one domain."""
    rows, targets = task.inputs_of(0), np.eye(task.classes)[task.targets_of(0)]
    return rows.T @ rows / len(rows), targets.T @ rows / len(rows), 1.0


def _reduced(
    moments: DomainMoments, pattern: np.ndarray, given: Pictures, times: np.ndarray
) -> tuple[np.ndarray, float]:
    """The reduction, modes of Sigma_yx as if inputs were white: the trained error over time, the untrained at the end.

    In the uniform mode of the pairs the growing half of an encoder's and a decoder's first weights is what counts.
    """
    spread, joint, energy = moments
    _left, strengths, right = np.linalg.svd(joint, full_matrices=False)
    variances = np.einsum("ar,rs,as->a", right, spread, right)
    shown = min(1.0, given.width / len(spread))  # of an encoder's input direction, as the width allows
    outer = given.gain * np.sqrt((shown + 1) / 4 / len(pattern))
    losses = Routing(strengths, variances, outer, given.gain, len(pattern)).loss(times[:, None])
    explained = strengths**2 / variances
    floor = 0.5 * (energy - explained.sum())
    race = PairRace(pattern, given.gain, strengths / variances)
    return losses.sum(axis=1) + floor, floor + float(np.sum(0.5 * explained * race.untrained))
