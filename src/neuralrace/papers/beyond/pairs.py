"""Which pairs are trained: untrained pairs of domains work once the uniform mode of the graph of pairs is ahead."""

from dataclasses import dataclass, replace

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.errors import require_count
from neuralrace.papers.beyond import _pairs_images, _pairs_tables
from neuralrace.papers.beyond._pairs_claims import all_kinds, claims, select
from neuralrace.papers.beyond._pairs_images import Pictures
from neuralrace.papers.beyond._pairs_tables import PairTable
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.plotting import COLORS, SERIES, TIME, label_axes, new_figure, theory_line

RATIO = "ratio of singular values, g2/g1"
MIDDLE = 4  # the K of which scales and depths are tried
MARKERS = {"circulant": "o", "regular": "s", "blocks": "^", "hubs": "D"}
IMAGES = {
    "digits": Pictures(
        "digits", None, domains=10, width=32, gain=0.2, rate=0.6, steps=2000, batch=16, seeds=4, tested=360,
        pairs=(("circulant", 2), ("circulant", 3), ("circulant", 4), ("circulant", 5), ("regular", 2), ("regular", 3),
               ("regular", 4), ("blocks", 3), ("blocks", 5), ("hubs", 2), ("hubs", 3)),
        forecast=(("circulant", 3), ("regular", 3)),
    ),
    "mnist": Pictures(
        "mnist", None, domains=40, width=128, gain=0.2, rate=0.2, steps=20_000, batch=16, seeds=2, tested=2000,
        pairs=(("circulant", 4), ("circulant", 8), ("circulant", 12), ("circulant", 16), ("circulant", 20),
               ("regular", 2), ("regular", 3), ("regular", 4), ("regular", 6), ("regular", 8),
               ("blocks", 4), ("blocks", 10), ("blocks", 20), ("hubs", 2), ("hubs", 3), ("hubs", 4)),
        draws=4, looks=16, forecast=(("circulant", 12), ("circulant", 16), ("regular", 4)),
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Settings:
    """Tables of two items in M domains, and images: "digits", or "mnist" from a folder, at P1's size.

    circulant, regular, blocks, hubs: the K of each kind of pairs; fresh: of hub-like pairs from another key. gains:
    tried beside the first. depths: at twice the gain. widths: with more seeds, since what a finite width adds is luck.
    image_steps, image_domains: those of IMAGES if zero. curves: whether those of the images are forecast.
    """

    domains: int = setting(16, least=2)
    width: int = 64
    gain: float = 0.2
    gains: tuple[float, ...] = (0.1, 0.4, 0.8)
    depths: tuple[int, ...] = setting((2, 4), least=2)
    widths: tuple[int, ...] = (32, 64, 128)
    circulant: tuple[int, ...] = (2, 3, 4, 6, 8, 10)
    regular: tuple[int, ...] = (2, 3, 4, 6, 8)
    blocks: tuple[int, ...] = (2, 3, 4, 5, 8)
    hubs: tuple[int, ...] = (2, 3, 4, 6)
    fresh: tuple[int, ...] = (2, 3, 4, 5, 6, 8)
    leaky: bool = True
    steps: int = 600
    seeds: int = 3
    width_seeds: int = 8
    data: str = setting("digits", words=tuple(IMAGES))
    folder: str = ""
    image_domains: int = 0
    image_steps: int = 0
    curves: bool = True


def check(settings: Settings) -> None:
    """All tables and images are there before the first of them trains."""
    for table in (*_tables(settings), *_widths(settings)):
        table.pattern(settings.domains)
    _ = _pictures(settings).task


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast the tables, then the images."""
    pictures = _pictures(settings)
    parts = [(_tables(settings), settings.seeds), (_widths(settings), settings.width_seeds)]
    measured = [_pairs_tables.measure(tables, settings.domains, settings.steps, n) for tables, n in parts if tables]
    data = xarray.concat(measured, "table", data_vars="all", join="outer")  # where seeds are fewer the rest is NaN
    data = xarray.merge([data, _pairs_images.measure(pictures)])
    return data.assign_attrs(domains=settings.domains, data=pictures.data, image_domains=pictures.domains)


def _tables(settings: Settings) -> list[PairTable]:
    """All kinds of pairs, linear and leaky; hub-like ones of another key; scales and depths for few of them."""
    kinds, gain, width = {name: getattr(settings, name) for name in MARKERS}, settings.gain, settings.width
    first = [PairTable(name, k, gain, width) for name, ks in kinds.items() for k in ks]
    leaky = [replace(table, leaky=True) for table in first if settings.leaky]
    fresh = [PairTable("hubs", k, gain, width, series="fresh", key=first[0].key + 1) for k in settings.fresh]
    both = ("circulant", "regular")
    scales = [PairTable(name, MIDDLE, other, width, series="scales") for name in both for other in settings.gains]
    strong = 2 * gain  # deep networks are slow from small weights
    depths = [
        PairTable(name, MIDDLE, strong, width, depth, series="depths")
        for name in (*both, "blocks")
        for depth in settings.depths
    ]
    return [*first, *leaky, *fresh, *scales, *depths]


def _widths(settings: Settings) -> list[PairTable]:
    """Pairs whose gap is not far from one over the square root of the width."""
    chosen = (("circulant", MIDDLE), ("regular", 3))
    return [
        PairTable(name, k, settings.gain, width, series="widths") for name, k in chosen for width in settings.widths
    ]


def _pictures(settings: Settings) -> Pictures:
    found = replace(IMAGES[settings.data], folder=settings.folder or None)
    if settings.image_steps:
        found = replace(found, steps=settings.image_steps)
    if settings.image_domains:
        count = require_count("image_domains", settings.image_domains, least=3)
        few = tuple((name, k) for name, k in found.pairs if k < count)
        found = replace(found, domains=count, pairs=few, forecast=few[:1])
    if not settings.curves:
        found = replace(found, forecast=())
    return found


def draw(data: xarray.Dataset) -> Figure:
    """Errors against the ratio and against K/M, forecast against training, and the images."""
    figure, axes = new_figure(3, 2, width=4.4, height=3.6)
    linear = all_kinds(data, leaky=False)
    _errors(axes[0, 0], linear, "a  linear: the ratio orders the errors")
    fraction = linear.assign(ratio=linear["trained"] / data.attrs["domains"])
    _errors(axes[0, 1], fraction, "b  the fraction that is trained does not", "fraction of pairs trained, K/M")
    _forecasts(axes[0, 2], data)
    _errors(axes[1, 0], all_kinds(data, leaky=True), "d  with leaky ReLU it nearly does")
    _images(axes[1, 1], data)
    if data.sizes.get("curve", 0):
        _curves(axes[1, 2], data)
    else:
        axes[1, 2].remove()
    return figure


def _errors(axis: Axes, data: xarray.Dataset, title: str, over: str = RATIO) -> None:
    for name, color in zip(MARKERS, SERIES, strict=False):
        own = select(data, data["pairs"] == name).sortby("ratio")
        if own.sizes["table"]:
            middle = own["error"].isel(kind=1).median("seed")
            axis.semilogy(own["ratio"], middle, MARKERS[name], color=color, markersize=5, label=name)
            if np.isfinite(own["wide"]).any():
                theory_line(axis, own["ratio"].values, own["wide"].isel(kind=1).values, None)
    label_axes(axis, title, over, "error of untrained pairs")


def _forecasts(axis: Axes, data: xarray.Dataset) -> None:
    """Every linear table: forecast before training, and measured."""
    measured = data["error"].isel(kind=1).median("seed").values
    wide = data["wide"].isel(kind=1).values
    axis.loglog(
        data["closed"], measured, "x", color=COLORS["reference"], markersize=4, label="closed form, K for each domain"
    )
    axis.loglog(wide, measured, "o", color=COLORS["gated"], markersize=4, label="flow at infinite width")
    ends = np.array([1e-5, 1.0])
    theory_line(axis, ends, ends, "equal")
    title = "c  errors forecast before training; finite width adds to them"
    label_axes(axis, title, "forecast error of untrained pairs", "measured")


def _images(axis: Axes, data: xarray.Dataset) -> None:
    for place, (kind, color) in enumerate(zip(data["objective"].values, SERIES, strict=False)):
        error = data["image_error"].isel(objective=place, kind=1).mean("image_seed")
        axis.semilogy(data["image_ratio"], error, "os^"[place], color=color, markersize=5, label=kind)
    trained = float(data["image_error"].isel(kind=0).mean())
    axis.axhline(trained, color=COLORS["reference"], linewidth=1, label="trained pairs, mean")
    shown = f"{data.attrs['data']}, M = {data.attrs['image_domains']}"
    title = f"e  on images the ratio orders the errors too: {shown}"
    label_axes(axis, title, RATIO, "test error of untrained pairs")


def _curves(axis: Axes, data: xarray.Dataset) -> None:
    """Means over seeds and over theory's draws; colors are kinds of pairs, styles are curves."""
    for place, style in zip(range(data.sizes["curve"]), ("-", ":", "-."), strict=False):
        time, one = data["image_time"].values, data.isel(curve=place).mean("draw")
        axis.plot([], [], style, color=COLORS["reference"], label=str(data["curve"].values[place]))
        for kind, color in zip(data["kind"].values, (COLORS["gated"], COLORS["untrained"]), strict=True):
            label = None if place else f"{kind} pairs"
            axis.plot(time, one["curve_trained"].sel(kind=kind), style, color=color, linewidth=1.8, label=label)
            told = None if place or kind == "trained" else "moments alone"
            theory_line(axis, time, one["curve_flow"].sel(kind=kind).values, told)
    theory_line(axis, time, data["curve_reduction"][0].values, "reduction, trained pairs", dotted=True)
    label_axes(axis, "f  trained pairs follow from moments alone", TIME, "half the squared error")


EXPERIMENT = Experiment(
    name="pairs",
    full=Settings(),
    tiny=Settings(
        domains=6,
        width=16,
        gains=(0.4,),
        depths=(),
        widths=(),
        circulant=(2, 3),
        regular=(2,),
        blocks=(2,),
        hubs=(2,),
        fresh=(3,),
        leaky=False,
        steps=200,
        seeds=1,
        image_domains=4,
        image_steps=10,
        curves=False,
    ),
    compute=compute,
    check=check,
    claims=claims,
    draw=draw,
    differs="P1 trains circulant pairs alone, from Xavier weights with biases. Here first weights are orthogonal, "
    "which the theory is written for, and there are no biases.",
    finding="How well untrained pairs work follows from the two leading singular values of the graph of "
    "trained pairs, and the number that is needed is forecast; with leaky ReLU this is so only "
    "roughly.",
)
