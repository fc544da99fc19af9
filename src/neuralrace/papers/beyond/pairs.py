"""Which pairs are trained: untrained pairs of domains work once the uniform mode of the graph of pairs is ahead.

Tables of two one-hot items are trained on pairs of every kind, and then routed images; both are forecast before.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, leaky_relu
from neuralrace.errors import require_count
from neuralrace.papers.beyond._pairs_claims import all_kinds, claims, select
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.plotting import COLORS, SERIES, TIME, label_axes, new_figure, theory_line
from neuralrace.tasks import RoutedImages, routed_images
from neuralrace.tasks.pairs import spectrum, trained_pairs
from neuralrace.theory.exact import PairRace
from neuralrace.theory.routed import RoutedFlow, drawn_weights, wide_weights
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import make_rule

Table = dict[str, Any]

SLOPE = 0.01  # of leaky ReLU
ITEMS = 2  # one-hot in and out: two modes with s = d = 1/2, so that a path has to reach one
LONG = 3.0  # times the time that the uniform mode takes
SLOWER = 3.0  # leaky ReLU learns about as many times more slowly: half of its neurons are silent
TABLE_KEY, IMAGE_KEY = 11, 23  # seeds of the pairs
MIDDLE = 4  # the K of which scales and depths are varied
MARKERS = {"circulant": "o", "regular": "s", "blocks": "^", "hubs": "D"}
RATIO = "ratio of singular values, g2/g1"
KINDS = ("trained", "untrained")
OBJECTIVES: dict[str, tuple[str, Any]] = {
    "squared": ("squared", None),
    "cross-entropy": ("cross-entropy", None),
    "leaky cross-entropy": ("cross-entropy", leaky_relu(SLOPE)),
}
# tested: test images. pairs: kinds of pairs and K, as "circulant 4". forecast: those whose curves are forecast, from as
# many draws as seeds of the training. looks: times of these curves
IMAGES: dict[str, dict[str, Any]] = {
    "digits": {
        "domains": 10, "width": 32, "gain": 0.2, "rate": 0.6, "steps": 2000, "batch": 16, "seeds": 4, "tested": 360,
        "pairs": ("circulant 2", "circulant 3", "circulant 4", "circulant 5", "regular 2", "regular 3", "regular 4",
                  "blocks 3", "blocks 5", "hubs 2", "hubs 3"),
        "forecast": ("circulant 3", "regular 3"), "draws": 4, "looks": 40,
    },
    "mnist": {
        "domains": 40, "width": 128, "gain": 0.2, "rate": 0.2, "steps": 20_000, "batch": 16, "seeds": 2, "tested": 2000,
        "pairs": ("circulant 4", "circulant 8", "circulant 12", "circulant 16", "circulant 20", "regular 2",
                  "regular 3", "regular 4", "regular 6", "regular 8", "blocks 4", "blocks 10", "blocks 20", "hubs 2",
                  "hubs 3", "hubs 4"),
        "forecast": ("circulant 12", "circulant 16", "regular 4"), "draws": 4, "looks": 16,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Tables of two items in M domains, and images: "digits", or "mnist" from a folder, at P1's size.

    circulant, regular, blocks, hubs: the K of each kind of pairs; fresh: of hub-like pairs from another key. gains:
    beside the first. depths: at twice the gain. image_steps, image_domains: those of IMAGES if zero. curves: whether
    those of the images are forecast.
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
    leaky: bool = True
    steps: int = 600
    seeds: int = 3
    data: str = setting("digits", words=tuple(IMAGES))
    folder: str = ""
    image_domains: int = 0
    image_steps: int = 0
    curves: bool = True


def _tables(settings: Settings) -> list[Table]:
    """List all kinds of pairs, linear and leaky; hubs of another key; scales and depths."""
    gain, width = settings.gain, settings.width

    def table(pairs: str, trained: int, **changes: Any) -> Table:
        usual = {"pairs": pairs, "trained": trained, "gain": gain, "width": width, "depth": 3, "leaky": False}
        return usual | {"series": "kinds", "key": TABLE_KEY} | changes

    kinds = [table(name, k) for name in MARKERS for k in getattr(settings, name)]
    leaky = [one | {"leaky": True} for one in kinds if settings.leaky]
    fresh = [table("hubs", k, series="fresh", key=TABLE_KEY + 1) for k in settings.fresh]
    both = ("circulant", "regular")
    scales = [table(name, MIDDLE, gain=other, series="scales") for name in both for other in settings.gains]
    deep = [(name, depth) for name in (*both, "blocks") for depth in settings.depths]
    # deep networks are slow from small weights
    depths = [table(name, MIDDLE, gain=2 * gain, depth=depth, series="depths") for name, depth in deep]
    return [*kinds, *leaky, *fresh, *scales, *depths]


def _pattern(table: Table, domains: int) -> np.ndarray:
    return trained_pairs(table["pairs"], domains, table["trained"], table["key"])


def _pictures(settings: Settings) -> dict[str, Any]:
    """Return how images are learned, with their task and the patterns of their pairs."""
    found = dict(IMAGES[settings.data])
    if settings.image_steps:
        found["steps"] = settings.image_steps
    if settings.image_domains:
        found["domains"] = require_count("image_domains", settings.image_domains, least=3)
        found["pairs"] = [pairs for pairs in found["pairs"] if int(pairs.split()[1]) < found["domains"]]
        found["forecast"] = found["pairs"][:1]
    domains = found["domains"]
    task = routed_images(settings.data, domains, min(4, domains), folder=settings.folder or None)
    tested = slice(found["tested"])
    task = replace(task, test_images=task.test_images[tested], test_labels=task.test_labels[tested])
    patterns = {}
    for pairs in found["pairs"]:
        name, k = pairs.split()
        patterns[pairs] = trained_pairs(name, domains, int(k), IMAGE_KEY)
    return found | {"task": task, "patterns": patterns, "forecast": found["forecast"] if settings.curves else ()}


def check(settings: Settings) -> None:
    """Make all tables and images before the first of them trains."""
    for table in _tables(settings):
        _pattern(table, settings.domains)
    _pictures(settings)


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast the tables, then the images."""
    pictures = _pictures(settings)
    data = xarray.merge([_measure_tables(settings), _measure_images(pictures)])
    return data.assign_attrs(domains=settings.domains, data=settings.data, image_domains=pictures["domains"])


def _ratio(pattern: np.ndarray, leveled: bool = False) -> float:
    values = spectrum(pattern, leveled=leveled)
    return float(values[1] / values[0])


def _measure_tables(settings: Settings) -> xarray.Dataset:
    """Measure squared errors of trained and untrained pairs in units of that of output zero, and forecast them."""
    domains, steps, seeds, tables = settings.domains, settings.steps, settings.seeds, _tables(settings)
    rows, labels = np.eye(ITEMS), np.arange(ITEMS)
    patterns = [_pattern(table, domains) for table in tables]
    arrays = {"images": rows, "labels": labels, "test_images": rows, "test_labels": labels}
    networks, conditions, ends = [], [], []
    forecasts: dict[Any, tuple[float, float]] = {}
    for table, pattern in zip(tables, patterns, strict=True):
        gain, depth = table["gain"], table["depth"]
        race = np.log(2 * domains / gain**2) / 2 if depth == 2 else 1.25 * gain ** (2 - depth)  # of the uniform mode
        ends.append(LONG * domains * ITEMS * race * (SLOWER if table["leaky"] else 1.0))
        task = routed_images(arrays, domains, inputs="plain", outputs="plain", pairs=pattern)
        activation = leaky_relu(SLOPE) if table["leaky"] else None
        networks.append(RoutedNetwork(task, table["width"], activation, biases=False, depth=depth))
        rule, time = make_rule(ends[-1] / steps, None, steps)
        conditions.append(Condition(networks[-1], initial.orthogonal(gain), rule, time))
    errors = np.empty((len(tables), seeds, 2))
    wide, closed = np.full((len(tables), 2), np.nan), np.full(len(tables), np.nan)
    runs = train_together(conditions, steps, seeds=seeds, at=[0, steps])
    for place, (table, pattern, run) in enumerate(zip(tables, patterns, runs, strict=True)):
        for seed in range(seeds):
            off = networks[place].forward(run.weights(seed)) - rows[:, None, None, :]
            errors[place, seed] = _means(np.sum(off**2, axis=(0, 3)) / ITEMS, pattern)
        if table["leaky"]:
            continue
        if table["pairs"] != "hubs":  # the closed form is for equal degrees
            closed[place] = PairRace(pattern, table["gain"], 1.0, table["depth"]).untrained
        like = tuple(table[name] for name in ("pairs", "trained", "gain", "depth", "key"))
        if like not in forecasts:
            flow = RoutedFlow(pattern, [[1 / ITEMS]], [[1 / ITEMS]], 1 / ITEMS)
            last = flow.follow(wide_weights(domains, table["gain"], table["depth"]), ends[place]).last
            forecasts[like] = _means(2 * ITEMS * flow.errors(last), pattern)
        wide[place] = forecasts[like]
    named = {name: ("table", [table[name] for table in tables]) for name in tables[0]}
    data = xarray.Dataset(named, coords={"kind": list(KINDS), "seed": np.arange(seeds)})
    data["error"] = (("table", "seed", "kind"), errors)
    data["closed"] = ("table", closed)  # of untrained pairs
    data["wide"] = (("table", "kind"), wide)
    data["ratio"] = ("table", [_ratio(pattern) for pattern in patterns])
    data["levelled"] = ("table", [_ratio(pattern, leveled=True) for pattern in patterns])
    return data


def _means(errors: np.ndarray, pattern: np.ndarray) -> tuple[float, float]:
    return float(errors[pattern].mean()), float(errors[~pattern].mean())


def _measure_images(given: dict[str, Any]) -> xarray.Dataset:
    """Measure errors on test images after training, and curves of squared errors beside their forecasts."""
    patterns, steps = given["patterns"], given["steps"]
    rule, time = make_rule(given["rate"], None, steps)

    def condition(pairs: str, objective: str) -> Condition:
        loss, activation = OBJECTIVES[objective]
        network = RoutedNetwork(given["task"].with_pairs(patterns[pairs]), given["width"], activation, biases=False)
        return Condition(network, initial.orthogonal(given["gain"]), rule, time, loss, batch_size=given["batch"])

    data = xarray.Dataset()
    data["image_ratio"] = ("graph", [_ratio(pattern) for pattern in patterns.values()])
    data["image_pairs"] = ("graph", [pairs.split()[0] for pairs in patterns])
    data["image_trained"] = ("graph", [int(pairs.split()[1]) for pairs in patterns])
    wrong = []
    for objective in OBJECTIVES:
        conditions = [condition(pairs, objective) for pairs in patterns]
        options: dict[str, Any] = {"record": "pair_errors", "at": [steps], "precision": "single"}
        runs = train_together(conditions, steps, seeds=given["seeds"], **options)
        wrong.append([[run.values(f"pair_errors[{kind}]")[:, -1] for kind in KINDS] for run in runs])
    data["image_error"] = (("objective", "graph", "kind", "image_seed"), np.array(wrong))
    data = data.transpose("objective", "graph", "image_seed", "kind", ...)
    if given["forecast"]:
        looks = np.unique(np.linspace(0, steps, given["looks"]).astype(int)).tolist()
        conditions = [condition(pairs, "squared") for pairs in given["forecast"]]
        runs = train_together(conditions, steps, seeds=given["draws"], record="weights", at=looks, precision="single")
        found = [
            _forecast_curve(given, patterns[pairs], one.network, run)
            for pairs, one, run in zip(given["forecast"], conditions, runs, strict=True)
        ]
        names = [pairs.replace(" ", ", K = ") for pairs in given["forecast"]]
        curves = xarray.concat(found, "curve", data_vars="all", coords="minimal").assign_coords(curve=names)
        data = xarray.merge([data, curves])
    return data.assign_coords(objective=list(OBJECTIVES), kind=list(KINDS))


def _forecast_curve(given: dict[str, Any], pattern: np.ndarray, network: Any, run: Any) -> xarray.Dataset:
    """Compare the squared errors of a training with the exact flow."""
    spread, joint, energy = moments_of(given["task"])
    flow, end = RoutedFlow(pattern, spread, joint, energy), float(run.time[-1])
    sizes, initializer = (len(spread), given["width"], len(joint)), initial.orthogonal(given["gain"])
    measured, exact = [], []
    for draw in range(given["draws"]):
        stacks = [network.stack(run.weights(draw, look)) for look in range(len(run.time))]
        measured.append([_means(flow.errors(one), pattern) for one in stacks])
        errors = flow.follow(drawn_weights(initializer, given["domains"], sizes, key=draw), end, rtol=1e-4).at(run.time)
        exact.append(np.stack([errors[kind] for kind in KINDS], axis=1))
    data = xarray.Dataset(coords={"image_time": run.time})
    data["curve_trained"] = (("draw", "image_time", "kind"), np.array(measured))
    data["curve_flow"] = (("draw", "image_time", "kind"), np.array(exact))
    return data


def moments_of(task: RoutedImages) -> tuple[np.ndarray, np.ndarray, float]:
    """Return Sigma_x, Sigma_yx and <|y|^2> of one domain."""
    rows, targets = task.inputs_of(0), np.eye(task.classes)[task.targets_of(0)]
    return rows.T @ rows / len(rows), targets.T @ rows / len(rows), 1.0


def draw(data: xarray.Dataset) -> Figure:
    """Draw errors against the ratio and against K/M, forecast against training, and the images."""
    figure, axes = new_figure(3, 2, width=4.4, height=3.6)
    for axis, letter in zip(axes.flat, "abcdef", strict=True):
        axis.set_label(letter)
    linear = all_kinds(data, leaky=False)
    _draw_errors(axes[0, 0], linear, "linear: the ratio orders the errors")
    fraction = linear.assign(ratio=linear["trained"] / data.attrs["domains"])
    title = "the fraction that is trained does not"
    _draw_errors(axes[0, 1], fraction, title, "fraction of pairs trained, K/M")
    _draw_errors(axes[1, 0], all_kinds(data, leaky=True), "with leaky ReLU it nearly does")

    axis, measured = axes[0, 2], data["error"].isel(kind=1).median("seed").values
    closed = {"color": COLORS["reference"], "label": "closed form, K for each domain"}
    axis.loglog(data["closed"], measured, "x", markersize=4, **closed)
    wide = {"color": COLORS["gated"], "label": "flow at infinite width"}
    axis.loglog(data["wide"].isel(kind=1), measured, "o", markersize=4, **wide)
    theory_line(axis, np.array([1e-5, 1.0]), np.array([1e-5, 1.0]), "equal")
    title = "errors forecast before training; finite width adds to them"
    label_axes(axis, title, "forecast error of untrained pairs", "measured")

    axis = axes[1, 1]
    for place, (kind, color) in enumerate(zip(data["objective"].values, SERIES, strict=False)):
        error = data["image_error"].isel(objective=place, kind=1).mean("image_seed")
        axis.semilogy(data["image_ratio"], error, "os^"[place], color=color, markersize=5, label=kind)
    trained = float(data["image_error"].isel(kind=0).mean())
    axis.axhline(trained, color=COLORS["reference"], linewidth=1, label="trained pairs, mean")
    title = f"on images the ratio orders the errors too: {data.attrs['data']}, M = {data.attrs['image_domains']}"
    label_axes(axis, title, RATIO, "test error of untrained pairs")

    axis = axes[1, 2]
    if not data.sizes.get("curve", 0):
        axis.remove()
        return figure
    time = data["image_time"].values
    for place, style in zip(range(data.sizes["curve"]), ("-", ":", "-."), strict=False):
        one = data.isel(curve=place).mean("draw")
        axis.plot([], [], style, color=COLORS["reference"], label=str(data["curve"].values[place]))
        for kind, color in zip(KINDS, (COLORS["gated"], COLORS["untrained"]), strict=True):
            label = None if place else f"{kind} pairs"
            axis.plot(time, one["curve_trained"].sel(kind=kind), style, color=color, linewidth=1.8, label=label)
            label = "moments alone" if place == 0 and kind == "untrained" else None
            theory_line(axis, time, one["curve_flow"].sel(kind=kind).values, label)
    label_axes(axis, "trained pairs follow from moments alone", TIME, "half the squared error")
    return figure


def _draw_errors(axis: Axes, data: xarray.Dataset, title: str, over: str = RATIO) -> None:
    for (name, marker), color in zip(MARKERS.items(), SERIES, strict=False):
        own = select(data, data["pairs"] == name).sortby("ratio")
        if own.sizes["table"]:
            middle = own["error"].isel(kind=1).median("seed")
            axis.semilogy(own["ratio"], middle, marker, color=color, markersize=5, label=name)
            if np.isfinite(own["wide"]).any():
                theory_line(axis, own["ratio"].values, own["wide"].isel(kind=1).values, None)
    label_axes(axis, title, over, "error of untrained pairs")


EXPERIMENT = Experiment(
    name="pairs",
    full=Settings(),
    tiny=Settings(
        domains=6, width=16, gains=(0.4,), depths=(), circulant=(2, 3), regular=(2,), blocks=(2,), hubs=(2,),
        fresh=(3,), leaky=False, steps=200, seeds=1, image_domains=4, image_steps=10, curves=False,
    ),
    compute=compute,
    check=check,
    claims=claims,
    draw=draw,
    differs="P1 trains circulant pairs alone, from Xavier weights with biases. Here initial weights are orthogonal, as "
    "the theory requires, and there are no biases.",
    finding="How well untrained pairs work follows from the two leading singular values of the graph of "
    "trained pairs, and the number that is needed is forecast; with leaky ReLU this is so only "
    "roughly.",
)  # fmt: skip
