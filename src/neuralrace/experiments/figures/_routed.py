"""What the figures with images share: one scan of trained pairs and first weights, its sizes, errors and drawing.

A scan is everything that one data set in M x M domains is trained with: all its networks are one compiled program.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.activations import leaky_relu
from neuralrace.errors import RangeError, require_count, require_name, require_number
from neuralrace.experiments.claim import HOLDS, Claim, at_least, at_most
from neuralrace.experiments.settings import setting
from neuralrace.plotting import COLOURS, label_axes, new_figure
from neuralrace.tasks import RoutedImages
from neuralrace.tasks.pairs import PAIRS, trained_pairs
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import Momentum

NONE: Mapping[str, str] = MappingProxyType({})
KINDS = ("trained", "untrained")
MOMENTUM = 0.9
PAPER_TRAINED = 10  # K of P1 Fig 10
PAPER_TIME = 7500.0  # rate / (1 - momentum) * steps of P1's 1000 epochs
MOMENTS = (0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of a training, at which test errors are taken
ROUND = 100  # steps between these moments are a multiple of this where there are enough
WORKS = 0.05  # untrained pairs are as good as trained ones if they miss so many of all images more, at most
LOW = 0.15  # an error below this is low
LEARNED = 0.3  # and below this something was learned; a guess has 0.9


DIFFERS = (
    "By default on scikit-learn's digits, with 10 domains, 32 hidden neurons and 3 seeds: sentences of the paper are "
    "then ours. On the paper's data M, the width, biases, cross-entropy and momentum are its own; its steps are so "
    "small (1e-4) that it follows the gradient flow for a time of 7,500; that time is covered here with larger steps, "
    "of 16 images that are drawn anew for each. Angles are those of its code, 270 i / M degrees; its text says 180."
)


@dataclass(frozen=True)
class Settings:
    """None, or an empty word: as the data ask, see SIZES.

    data: digits, mnist, fashion, features (of CIFAR-10) or arrays. folder: where its files are. panels: which domains,
    as "permuted-40" or "rotated-40". domains: M of every panel.
    """

    data: str = "digits"
    folder: str = ""
    panels: tuple[str, ...] = ()
    pairs: str = setting("circulant", words=tuple(PAIRS))
    degrees: float = setting(270.0)
    domains: int | None = None
    hidden: int | None = None
    seeds: int | None = None
    steps: int | None = None
    rate: float | None = None
    batch: int | None = None


@dataclass(frozen=True)
class Sizes:
    """How large networks and trainings are for a data set; domains: of the panels that have no number."""

    domains: int
    hidden: int
    batch: int
    rate: float
    steps: int
    seeds: int
    gain: float  # of first weights, where pairs are scanned
    fractions: tuple[float, ...]  # K / M, where pairs are scanned


SIZES = {
    "digits": Sizes(10, 32, 16, 0.1, 1600, 3, 0.1, (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)),
    "mnist": Sizes(40, 128, 16, 0.04, 20_000, 10, 0.1, (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7)),
    "features": Sizes(40, 1024, 16, 0.04, 20_000, 10, 0.1, (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)),
}
SIZES |= {"fashion": SIZES["mnist"], "arrays": SIZES["mnist"]}


@dataclass(frozen=True)
class Scan:
    """Networks that are trained together: each condition is K, the trained outputs per input domain, and a gain."""

    data: str
    folder: str
    inputs: str
    domains: int
    conditions: tuple[tuple[int, float], ...]
    slope: float  # of both hidden layers; 1: linear
    hidden: int
    batch: int
    rate: float
    steps: int
    seeds: int
    pairs: str
    degrees: float

    @property
    def moments(self) -> list[int]:
        """The steps at which errors are taken."""
        unit = ROUND if self.steps % ROUND == 0 and self.steps >= ROUND / MOMENTS[1] else 1
        return sorted({round(self.steps * moment / unit) * unit for moment in MOMENTS})


def plan(
    settings: Settings,
    panels: Mapping[str, Sequence[str]],
    *,
    fractions: Sequence[float] | None = None,
    gains: Sequence[float] = (),
    trained: Sequence[int] = (),
    slope: float = 1.0,
) -> dict[str, Scan]:
    """The scans of a figure by the names of its panels, checked before anything starts.

    panels: data -> those of the paper. Pairs are scanned at the usual gain if there are fractions, or as the data ask;
    with gains, the gains are scanned for each K in `trained`; an empty `trained` is 40 % of all.
    """
    sizes = SIZES[require_name("data", settings.data, [name for name in panels if name in SIZES])]
    chosen = settings.panels or panels[settings.data]
    found = {}
    for panel in chosen:
        inputs, _, number = panel.partition("-")
        domains = require_count("domains", _given(settings.domains, _whole(panel, number, sizes.domains)), least=2)
        if gains:
            counts = trained or (round(0.4 * domains),)
            conditions = [(k, require_number("gains", gain, above=0)) for k in counts for gain in gains]
        else:
            parts = sizes.fractions if fractions is None else fractions
            checked = [require_number("fractions", part, above=0) for part in parts]
            conditions = [(max(round(part * domains), 1), sizes.gain) for part in checked]
        for count, _ in conditions:
            if require_count("trained", count) > domains:
                raise RangeError(f"trained must be at most the number of domains, {domains}; it was {count}")
        scan = Scan(
            data=settings.data,
            folder=settings.folder,
            inputs=inputs,
            domains=domains,
            conditions=tuple(dict.fromkeys(conditions)),
            slope=slope,
            hidden=require_count("hidden", _given(settings.hidden, sizes.hidden)),
            batch=require_count("batch", _given(settings.batch, sizes.batch)),
            rate=require_number("rate", _given(settings.rate, sizes.rate), above=0),
            steps=require_count("steps", _given(settings.steps, sizes.steps)),
            seeds=require_count("seeds", _given(settings.seeds, sizes.seeds)),
            pairs=settings.pairs,
            degrees=settings.degrees,
        )
        found[f"{inputs}-{domains}"] = scan
    for scan in found.values():  # files and names are looked at before the first of them trains
        images_of(scan)
    return found


def images_of(scan: Scan, trained: int = 1) -> RoutedImages:
    """The task of a scan for one K."""
    return tasks.routed_images(
        scan.data,
        scan.domains,
        trained,
        inputs=scan.inputs,
        folder=scan.folder or None,
        pairs=scan.pairs,
        degrees=scan.degrees,
    )


def measure(scan: Scan, *, progress: bool = False) -> xarray.Dataset:
    """Train all networks of a scan; test errors of trained and of untrained pairs on the way, and the loss."""
    network = RoutedNetwork(images_of(scan), scan.hidden, None if scan.slope == 1 else leaky_relu(scan.slope))
    conditions = [_condition(scan, network, trained, gain) for trained, gain in scan.conditions]
    runs = train_together(
        conditions,
        scan.steps,
        seeds=scan.seeds,
        record="pair_errors",
        at=scan.moments,
        precision="single",
        keep_weights=False,
        progress=progress,
    )
    errors = [[run.values(f"pair_errors[{kind}]") for kind in KINDS] for run in runs]
    return xarray.Dataset(
        {
            "error": (("condition", "kind", "seed", "moment"), np.array(errors, dtype=np.float64)),
            "loss": (("condition", "seed", "moment"), np.array([run.loss for run in runs], dtype=np.float64)),
            "trained": ("condition", [trained for trained, _ in scan.conditions]),
            "gain": ("condition", [gain for _, gain in scan.conditions]),
            "time": (("condition", "moment"), np.array([run.time for run in runs])),
            "domains": ((), scan.domains),
        },
        coords={"kind": list(KINDS)},
    )


def _condition(scan: Scan, network: RoutedNetwork, trained: int, gain: float) -> Condition:
    """Large first weights make large gradients: the step is divided by the root of a gain above one."""
    rate = scan.rate / max(gain, 1.0) ** 0.5
    return Condition(
        network.with_pairs(trained_pairs(scan.pairs, scan.domains, trained)),
        initial.xavier(gain),
        Momentum(np.asarray(rate), np.asarray(MOMENTUM)),
        rate / (1 - MOMENTUM),
        "cross-entropy",
        batch_size=scan.batch,
        drawn=True,
    )


def assemble(scans: Mapping[str, Scan], parts: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Panels with equally many conditions in one dataset; what was run, as attributes."""
    data = xarray.concat([parts[name] for name in scans], dim="panel")
    first = next(iter(scans.values()))
    told = {"data": first.data, "steps": first.steps, "seeds": first.seeds, "slope": first.slope}
    return data.assign_coords(panel=list(scans)).assign_attrs(told)


def measured(scans: Mapping[str, Scan]) -> dict[str, xarray.Dataset]:
    """Train every panel."""
    return {name: measure(scan) for name, scan in scans.items()}


def kind_of(data: xarray.Dataset) -> str:
    """A sentence of the paper is the paper's only on its own data."""
    return "ours" if data.attrs["data"] == "digits" else "paper"


def at_the_end(data: xarray.Dataset, panel: str) -> xarray.DataArray:
    """Errors at the end of training, (condition, kind, seed), in the order of K and then of the gain."""
    return data["error"].sel(panel=panel).isel(moment=-1).transpose("condition", "kind", "seed")


def gap(data: xarray.Dataset, panel: str) -> np.ndarray:
    """How much more untrained pairs miss than trained ones, mean over seeds, for each condition."""
    errors = at_the_end(data, panel).mean("seed").values
    return np.asarray(errors[:, 1] - errors[:, 0])


def first_fraction(data: xarray.Dataset, panel: str) -> float:
    """The least K/M from which untrained pairs are as good as trained ones that were learned; NaN if they never are."""
    fractions = data["trained"].sel(panel=panel).values / float(data["domains"].sel(panel=panel))
    order = np.argsort(fractions)
    learned = at_the_end(data, panel).mean("seed").values[:, 0] <= LEARNED
    good = ((gap(data, panel) <= WORKS) & learned)[order]
    lasting = np.flatnonzero(np.logical_and.accumulate(good[::-1])[::-1])
    return float(fractions[order][lasting[0]]) if len(lasting) else float("nan")


def pair_claims(
    data: xarray.Dataset, source: str, about: tuple[float, float], said: str, on_record: Mapping[str, str] = NONE
) -> list[Claim]:
    """That untrained pairs come to work at about some part of all pairs, and that trained ones always do.

    on_record: data -> the verdict of the first that is known, where it does not hold.
    """
    panels = [str(panel) for panel in data["panel"].values]
    found = {panel: first_fraction(data, panel) for panel in panels}
    trained = {panel: at_the_end(data, panel).mean("seed").values[:, 0].max() for panel in panels}
    few = {panel: gap(data, panel)[0] for panel in panels}
    return [
        Claim.within(
            f"Zero-shot transfer to untrained pathways becomes as good as the training performance when about {said} "
            "of pathways are trained.",
            source,
            kind_of(data),
            f"least K/M from which untrained pairs miss at most {WORKS:.0%} of all images more than trained ones",
            found,
            about,
            on_record=on_record.get(data.attrs["data"], HOLDS),
        ),
        Claim.at_most(
            "Training accuracy is always high.",
            source,
            kind_of(data),
            "largest mean test error of trained pairs",
            trained,
            LOW,
        ),
        Claim.at_least(
            "With few trained pairs the untrained ones are near chance.",
            source,
            kind_of(data),
            "untrained less trained test error at the smallest K",
            few,
            0.4,
        ),
    ]


def gain_claims(data: xarray.Dataset, source: str) -> list[Claim]:
    """That untrained pairs work from small first weights only, and trained ones from all."""
    panels = [str(panel) for panel in data["panel"].values]
    kind = kind_of(data) if (data["trained"] == PAPER_TRAINED).all() else "ours"
    return [
        Claim.of(
            "Zero-shot generalization only emerges at small initialisations.",
            source,
            kind,
            at_most(
                "least untrained less trained test error over the gains below one at which trained pairs are learned",
                {panel: _small_gap(data, panel) for panel in panels},
                WORKS,
            ),
            at_least("at the largest gain", {panel: by_gain(data, panel)[0][-1] for panel in panels}, 4 * WORKS),
        ),
        Claim.at_most(
            "Performance on trained domains is reasonably good for all scales.",
            source,
            kind,
            "largest mean test error of trained pairs over all gains",
            {panel: by_gain(data, panel)[1].max() for panel in panels},
            LEARNED,
        ),
    ]


def by_gain(data: xarray.Dataset, panel: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gap and trained error at the end, and the gains, smallest first, for the largest K."""
    here = data.sel(panel=panel)
    chosen = np.flatnonzero(here["trained"].values == np.nanmax(here["trained"].values))
    chosen = chosen[np.argsort(here["gain"].values[chosen])]
    errors = at_the_end(data, panel).mean("seed").values[chosen]
    return errors[:, 1] - errors[:, 0], errors[:, 0], here["gain"].values[chosen]


def _small_gap(data: xarray.Dataset, panel: str) -> float:
    gaps, trained, gains = by_gain(data, panel)
    learned = (gains < 1) & (trained <= LOW)
    return float(gaps[learned].min()) if learned.any() else float("nan")


def draw_gains(axis: Axes, data: xarray.Dataset, panel: str, letter: str) -> None:
    """Errors of one panel over the gain of the first weights, for the largest K."""
    here = data.sel(panel=panel)
    chosen = np.flatnonzero(here["trained"].values == np.nanmax(here["trained"].values))
    chosen = chosen[np.argsort(here["gain"].values[chosen])]
    title = f"{letter}  {data.attrs['data']}, {panel.replace('-', ', M = ')}, K = {here['trained'].values.max():g}"
    errors = at_the_end(data, panel).isel(condition=chosen)
    draw_errors(axis, here["gain"].values[chosen], errors, title, "gain of the first weights")
    axis.set_xscale("log")


def draw_each(data: xarray.Dataset, draw: Callable[[Axes, xarray.Dataset, str, str], None], letter: str) -> Figure:
    """One panel for each data set; draw: draw_pairs or draw_gains."""
    figure, axes = new_figure(data.sizes["panel"], width=4.2, height=3.2)
    for axis, panel in zip(axes[0], data["panel"].values, strict=True):
        draw(axis, data, str(panel), letter)
    return figure


def draw_pairs(axis: Axes, data: xarray.Dataset, panel: str, letter: str) -> None:
    """Errors of one panel over K / M."""
    fractions = 100 * data["trained"].sel(panel=panel).values / float(data["domains"].sel(panel=panel))
    title = f"{letter}  {data.attrs['data']}, {panel.replace('-', ', M = ')}"
    draw_errors(axis, fractions, at_the_end(data, panel), title, "trained pairs, 100 K / M (%)")


def draw_errors(axis: Axes, places: np.ndarray, errors: xarray.DataArray, title: str, horizontal: str) -> None:
    """Mean and standard error over seeds, of trained and of untrained pairs; errors: (condition, kind, seed)."""
    for index, colour in enumerate(("gated", "untrained")):
        values = 100 * errors.isel(kind=index)
        spread = values.std("seed", ddof=1) if values.sizes["seed"] > 1 else 0 * values.mean("seed")
        error = spread / np.sqrt(values.sizes["seed"])
        axis.errorbar(
            places,
            values.mean("seed"),
            error,
            color=COLOURS[colour],
            fmt="o-",
            capsize=2,
            label=f"{KINDS[index]} pairs",
        )
    axis.set_ylim(0, 100)
    label_axes(axis, title, horizontal, "test error (%)")


def _given(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


def _whole(panel: str, number: str, otherwise: int) -> int:
    if not number:
        return otherwise
    if not number.isdigit():
        raise RangeError(f"a panel must be named like permuted-40; it was {panel!r}")
    return int(number)
