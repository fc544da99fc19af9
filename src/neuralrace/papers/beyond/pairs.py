"""Which pairs are trained: untrained pairs of domains work once the uniform mode of the graph of pairs is ahead.

Tables of two one-hot items are trained on pairs of every kind, and forecast before; then routed images are trained.
Thresholds of the claims were set after small trials and before the full run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, panels, setting
from neuralrace.plotting import COLORS, SERIES, label_axes, theory_line
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import PairRace
from neuralrace.theory.routed import wide_errors
from neuralrace.training import Condition, Descent, RoutedNetwork, train_together

SOURCE = "docs/theory/pairs.md"
ITEMS = 2  # one-hot in and out: two modes with s = d = 1/2, so that a path has to reach one
TABLE_KEY, IMAGE_KEY = 11, 23  # seeds of the pairs
MARKERS = {"circulant": "o", "regular": "s", "blocks": "^", "hubs": "D"}
OBJECTIVES: dict[str, tuple[str, Any]] = {
    "squared": ("squared", None),
    "cross-entropy": ("cross-entropy", None),
    "leaky cross-entropy": ("cross-entropy", nr.leaky_relu(0.01)),
}
IMAGES: dict[str, dict[str, Any]] = {
    "digits": {
        "domains": 10, "width": 32, "rate": 0.6, "steps": 2000, "seeds": 4,
        "pairs": {"circulant": (2, 3, 4, 5), "regular": (2, 3, 4), "blocks": (3, 5), "hubs": (2, 3)},
    },
    "mnist": {
        "domains": 40, "width": 128, "rate": 0.2, "steps": 20_000, "seeds": 2,
        "pairs": {
            "circulant": (4, 8, 12, 16, 20), "regular": (2, 3, 4, 6, 8), "blocks": (4, 10, 20), "hubs": (2, 3, 4),
        },
    },
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Tables of two items in M domains, and images: "digits", or "mnist" from a folder, at P1's size.

    circulant, regular, blocks, hubs: the K of each kind of pairs; fresh: of hub-like pairs from another key. gains:
    beside the first. depths: at twice the gain. image_steps, image_domains: those of IMAGES if None.
    """

    domains: int = setting(16, least=2)
    width: int = 64
    gain: float = 0.2
    gains: tuple[float, ...] = (0.1, 0.4, 0.8)
    depths: tuple[int, ...] = setting((2, 4), least=2)
    circulant: tuple[int, ...] = (2, 3, 4, 6, 8, 10)
    regular: tuple[int, ...] = (2, 3, 4, 6, 8)
    blocks: tuple[int, ...] = (2, 3, 4, 5, 8)
    hubs: tuple[int, ...] = (2, 3, 4, 6)
    fresh: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    steps: int = 600
    seeds: int = 3
    data: str = setting("digits", words=tuple(IMAGES))
    folder: str = ""
    image_domains: int | None = setting(None, least=3)
    image_steps: int | None = None


full = Settings()
tiny = Settings(
        domains=6, width=16, gains=(0.4,), depths=(), circulant=(2, 3), regular=(2,), blocks=(2,), hubs=(2,),
        fresh=(3,), steps=200, seeds=1, image_domains=4, image_steps=10,
    )  # fmt: skip


def make_tables(settings: Settings) -> list[tuple[dict[str, Any], np.ndarray]]:
    """List all kinds of pairs, hubs of another key, scales and depths, each with its trained pairs."""
    usual: dict[str, Any] = {"gain": settings.gain, "depth": 3, "series": "kinds", "key": TABLE_KEY}
    changes = [{"pairs": name, "trained": k} for name in MARKERS for k in getattr(settings, name)]
    changes += [{"pairs": "hubs", "trained": k, "series": "fresh", "key": TABLE_KEY + 1} for k in settings.fresh]
    middle = {"trained": 4}
    both = ("circulant", "regular")
    changes += [middle | {"pairs": name, "gain": gain, "series": "scales"} for name in both for gain in settings.gains]
    deep = middle | {"gain": 2 * settings.gain, "series": "depths"}  # deep networks are slow from small weights
    changes += [deep | {"pairs": name, "depth": depth} for name in (*both, "blocks") for depth in settings.depths]
    tables = [usual | one for one in changes]
    return [(one, trained_pairs(one["pairs"], settings.domains, one["trained"], one["key"])) for one in tables]


def make_images(settings: Settings) -> tuple[dict[str, Any], nr.tasks.RoutedImages, dict[tuple[str, int], np.ndarray]]:
    """Return how images are learned, their task, and the trained pairs of every kind and K."""
    given = {"domains": settings.image_domains, "steps": settings.image_steps}
    chosen = IMAGES[settings.data] | {name: value for name, value in given.items() if value is not None}
    domains = chosen["domains"]
    kinds = [(name, k) for name, counts in chosen["pairs"].items() for k in counts if k < domains]
    task = nr.tasks.routed_images(settings.data, domains, min(4, domains), folder=settings.folder or None)
    return chosen, task, {(name, k): trained_pairs(name, domains, k, IMAGE_KEY) for name, k in kinds}


def check(settings: Settings) -> None:
    """Make all tables and images before the first of them trains."""
    make_tables(settings)
    make_images(settings)


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast the tables, then train the images."""
    data = xarray.merge([measure_tables(settings), measure_images(settings)], combine_attrs="drop_conflicts")
    return data.assign_attrs(domains=settings.domains, data=settings.data)


def ratio(pattern: np.ndarray) -> float:
    """Divide the second singular value of the trained pairs by the first."""
    values = np.linalg.svdvals(pattern.astype(float))
    return float(values[1] / values[0])


def measure_tables(settings: Settings) -> xarray.Dataset:
    """Measure squared errors of trained and untrained pairs in units of that of output zero, and forecast them.

    closed: of untrained pairs, the closed form, which is for equal degrees. wide: the flow at infinite width.
    """
    domains, steps, tables = settings.domains, settings.steps, make_tables(settings)
    rows, labels = np.eye(ITEMS), np.arange(ITEMS)
    arrays = {"images": rows, "labels": labels, "test_images": rows, "test_labels": labels}
    networks, conditions, closed, wide = [], [], [], []

    def means(errors: np.ndarray, pattern: np.ndarray) -> tuple[float, float]:
        return float(errors[pattern].mean()), float(errors[~pattern].mean())

    for table, pattern in tables:
        gain, depth = table["gain"], table["depth"]
        race = np.log(2 * domains / gain**2) / 2 if depth == 2 else 1.25 * gain ** (2 - depth)  # of the uniform mode
        end = 3 * domains * ITEMS * race
        task = nr.tasks.routed_images(arrays, domains, pairs=pattern)
        networks.append(RoutedNetwork(task, settings.width, None, biases=False, depth=depth))
        rate = end / steps
        conditions.append(Condition(networks[-1], nr.initial.orthogonal(gain), Descent(np.asarray(rate)), rate))
        closed.append(PairRace(pattern, gain, 1.0, depth).untrained if table["pairs"] != "hubs" else np.nan)
        wide.append(means(wide_errors(pattern, gain, end, variance=1 / ITEMS, depth=depth), pattern))
    errors = np.empty((len(tables), settings.seeds, 2))
    runs = train_together(conditions, steps, seeds=settings.seeds, at=[0, steps])
    for place, seed in np.ndindex(*errors.shape[:2]):
        off = networks[place].forward(runs[place].weights(seed)) - rows[:, None, None, :]
        errors[place, seed] = means(np.sum(off**2, axis=(0, 3)) / ITEMS, tables[place][1])
    data = xarray.Dataset({name: ("table", [table[name] for table, _ in tables]) for name in tables[0][0]})
    data["error"], data["wide"] = (("table", "seed", "kind"), errors), (("table", "kind"), np.array(wide))
    data["closed"] = ("table", closed)
    data["ratio"] = ("table", [ratio(pattern) for _, pattern in tables])
    return data


def measure_images(settings: Settings) -> xarray.Dataset:
    """Measure errors on test images after training."""
    chosen, task, patterns = make_images(settings)
    steps, rate, wrong, kinds = chosen["steps"], chosen["rate"], [], ("trained", "untrained")
    test = task.test
    initial, rule = nr.initial.orthogonal(0.2), Descent(np.asarray(rate))
    for loss, activation in OBJECTIVES.values():
        conditions = []
        for pattern in patterns.values():
            network = RoutedNetwork(task.with_pairs(pattern), chosen["width"], activation, biases=False)
            evaluate = {"trained": test.with_pairs(pattern), "untrained": test.with_pairs(~pattern)}
            conditions.append(Condition(network, initial, rule, rate, loss, batch_size=16, evaluate=evaluate))
        options: dict[str, Any] = {"at": [steps], "precision": "single"}
        runs = train_together(conditions, steps, seeds=chosen["seeds"], **options)
        right = [[run.evaluated[kind]["accuracy"].values[:, -1] for kind in kinds] for run in runs]
        wrong.append(1 - np.swapaxes(right, 1, 2))
    data = xarray.Dataset({"image_error": (("objective", "graph", "image_seed", "kind"), np.array(wrong))})
    data["image_ratio"] = ("graph", [ratio(pattern) for pattern in patterns.values()])
    data["image_pairs"], data["image_trained"] = (("graph", list(part)) for part in zip(*patterns, strict=True))
    data = data.assign_coords(objective=list(OBJECTIVES), kind=list(kinds))
    return data.assign_attrs(image_domains=chosen["domains"])


def untrained(data: xarray.Dataset, name: str = "error") -> np.ndarray:
    """Return the errors of untrained pairs, their median over seeds where these were trained."""
    errors = data[name].isel(kind=1)
    return np.asarray((errors.median("seed") if "seed" in errors.dims else errors).values)


def distance(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """Return the distance of log10 of two errors; below 1e-5 of the error of output zero they are equal."""
    return np.asarray(np.abs(np.log10(np.maximum(one, 1e-5)) - np.log10(np.maximum(other, 1e-5))))


def rank_correlation(one: np.ndarray, other: np.ndarray) -> float:
    """Return Spearman's, NaN where one of them is constant."""
    from scipy.stats import spearmanr  # half a second of imports

    constant = len(np.unique(one)) < 2 or len(np.unique(other)) < 2
    return float("nan") if constant else float(spearmanr(one, other).statistic)


def least(data: xarray.Dataset, errors: np.ndarray, name: str) -> float:
    """Return the least K from which on the error of untrained pairs is below 1 % of that of output zero, or inf."""
    own = data["pairs"].values == name
    trained, works = data["trained"].values[own], errors[own] < 0.01
    return float(min((k for k in trained if works[trained >= k].all()), default=np.inf))


def claims(data: xarray.Dataset) -> Claims:
    claim, domains = Claims(retired=(2, 3, 7)), data.attrs["domains"]
    linear = data.isel(table=data["series"].values == "kinds")
    errors, trained = untrained(linear), linear["trained"].values
    claim.finding(
        SOURCE,
        "The ratio of the second to the first singular value of the trained pairs orders the errors of untrained "
        "pairs, over circulant, random regular, block and hub-like pairs.",
        "a, b",
    )
    claim.at_least("rank correlation of ratio and error", rank_correlation(linear["ratio"].values, errors), 0.9)
    claim.detail(f"for the fraction of trained pairs it is {rank_correlation(-trained / domains, errors):.3g}")
    claim.finding(SOURCE, "Random regular pairs need fewer trained pairs than P1's circulant ones.", "b")
    what = "least K with an untrained error below 1% of that of output zero"
    fewest = [least(linear, errors, name) for name in ("circulant", "regular")]
    claim.falling(what, fewest, "the kind, circulant and regular,")
    claim.detail(f"of {domains} domains")

    claim.panel = "c"
    claim.finding(
        SOURCE,
        "The flow at infinite width, which knows nothing that is random, says before training what untrained pairs "
        "will have learned, for every kind of pairs, from all scales.",
    )
    usual = data.isel(table=data["depth"].values == 3)
    off = distance(untrained(usual, "wide"), untrained(usual))
    claim.at_most("median distance of log10 of forecast and measured error", np.median(off), 0.3)
    claim.detail(f"largest {off.max():.2g}, of {len(off)} tables")
    text = "Where every domain is in K pairs, the closed form gives the errors of that flow, at every depth and scale."
    claim.check(SOURCE, text)
    regular = data.isel(table=data["closed"].notnull().values)
    off = distance(untrained(regular, "wide"), regular["closed"].values)
    claim.at_most("largest distance of log10 of the two", np.max(off), 0.1)
    claim.detail(f"median {np.median(off):.2g}, of {len(off)} tables")
    claim.finding(SOURCE, "The least K that works is the one that is forecast, for each kind of pairs.")
    names = dict.fromkeys(linear["pairs"].values.tolist())
    found = {name: [least(linear, errors, name), least(linear, untrained(linear, "wide"), name)] for name in names}
    missed = [0.0 if one == other else abs(other - one) for one, other in found.values()]
    claim.at_most("largest difference of forecast and measured K", max(missed), 1)
    claim.detail(", ".join(f"{name} {one:g} for {other:g}" for name, (one, other) in found.items()))

    text = "On images the ratio orders how much worse untrained pairs are than trained ones, for every objective."
    claim.finding(SOURCE, text, "d")
    lost = data["image_error"].mean("image_seed").diff("kind").squeeze("kind").transpose("objective", "graph")
    ranks = [rank_correlation(data["image_ratio"].values, row) for row in lost.values]
    what = "rank correlation of ratio and difference of test errors"
    claim.at_least(what, dict(zip(lost["objective"].values, ranks, strict=True)), 0.9)
    claim.detail(f"{data.attrs['data']}, {data.sizes['graph']} kinds and numbers of pairs")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Draw errors against the ratio and against K/M, forecast against training, and the images."""
    figure, (ratios, fractions, forecasts, images) = panels("a", "b", "c", "d", columns=2, width=4.4)
    across = "ratio of singular values, g2/g1"
    linear = data.isel(table=data["series"].values == "kinds")
    for axis, places, title, over in (
        (ratios, linear["ratio"].values, "the ratio orders the errors", across),
        (fractions, linear["trained"].values / data.attrs["domains"], "the fraction that is trained does not", "K/M"),
    ):
        for (name, marker), color in zip(MARKERS.items(), SERIES, strict=False):
            own = np.flatnonzero(linear["pairs"].values == name)
            own = own[np.argsort(places[own])]
            axis.semilogy(places[own], untrained(linear)[own], marker, color=color, markersize=5, label=name)
            theory_line(axis, places[own], untrained(linear, "wide")[own], None)
        label_axes(axis, title, over, "error of untrained pairs")

    for values, marker, color, label in (
        (data["closed"].values, "x", "reference", "closed form, K for each domain"),
        (untrained(data, "wide"), "o", "gated", "flow at infinite width"),
    ):
        forecasts.loglog(values, untrained(data), marker, markersize=4, color=COLORS[color], label=label)
    theory_line(forecasts, np.array([1e-5, 1.0]), np.array([1e-5, 1.0]), "equal")
    title = "errors forecast before training; finite width adds to them"
    label_axes(forecasts, title, "forecast error of untrained pairs", "measured")

    errors = data["image_error"].mean("image_seed").transpose("kind", "objective", "graph").values
    for row, kind, marker, color in zip(errors[1], data["objective"].values, "os^", SERIES, strict=False):
        images.semilogy(data["image_ratio"], row, marker, color=color, markersize=5, label=kind)
    images.axhline(errors[0].mean(), color=COLORS["reference"], linewidth=1, label="trained pairs, mean")
    title = f"on images the ratio orders the errors too: {data.attrs['data']}, M = {data.attrs['image_domains']}"
    label_axes(images, title, across, "test error of untrained pairs")
    return figure
