"""A figure of routed images: its panels over the part of trained pairs or over first weights, claims and drawing."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.saxe2022._routed import SIZES, OverPairs, Panels, Scan, Settings, images_of, measure, plan
from neuralrace.plotting import COLORS, label_axes, new_figure

WORKS = 0.05  # untrained pairs are as good as trained ones if they miss so many of all images more, at most
LOW = 0.15  # an error below this is low
GOOD = 0.3  # and one below this reasonably good
LEARNED = 0.45  # half of what a guess has: below this something was learned

PANELS: Panels = {
    "digits": ("permuted", "rotated"),
    "mnist": ("permuted-100", "permuted-40", "rotated-40"),
    "fashion": ("permuted-40", "rotated-40"),
    "features": ("given-40",),
    "arrays": ("given",),
}
ON_RECORD = {  # name of a sentence -> data -> why it does not hold there
    "small": {
        "mnist": "not in the paper's time: from a gain of 0.1 untrained pairs still lose more than this, and smaller "
        "gains have not learned yet; in three times that time a gain of 0.01 works, at M = 40"
    },
    "all scales": {"mnist": "in the paper's time the smallest gains learn nothing"},
    "trained": {"features": "a linear network on these features misses a third of the images"},
}
TINY: dict[str, Any] = {"domains": 3, "hidden": 4, "seeds": 2, "steps": 20, "batch": 4}
DIFFERS = (
    "By default on scikit-learn's digits, with 10 domains, 32 hidden neurons and 3 seeds: sentences of the paper are "
    "then ours. On the paper's data M, the width, biases, cross-entropy and momentum are its own; its steps are so "
    "small (1e-4) that it follows the gradient flow for a time of 7,500; that time is covered here with larger steps, "
    "of 16 images that are drawn anew for each. Angles are those of its code, 270 i / M degrees; its text says 180."
)


@dataclass(frozen=True)
class RoutedFigure:
    """What differs from figure to figure.

    pairs, gains: its panels over K / M and over the gain. letters: before the titles of those. sources: of what is said
    of those. about, said: the part of all pairs that the paper names. on_record: why a sentence does not hold on some
    data.
    """

    pairs: Panels | None = None
    gains: Panels | None = None
    sources: tuple[str, str] = ("", "")
    letters: tuple[str, str] = ("", "")
    about: tuple[float, float] = (0.3, 0.5)
    said: str = "40 %"
    on_record: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: ON_RECORD)

    def scans(self, settings: Settings) -> dict[str, Scan]:
        """What is trained, by the names of the panels."""
        return plan(settings, self.pairs, self.gains)

    def check(self, settings: Settings) -> None:
        """Look at names and files."""
        for scan in self.scans(settings).values():
            images_of(scan)

    def compute(self, settings: Settings) -> xarray.Dataset:
        """Train every panel."""
        asked = self.scans(settings)
        return all_panels(asked, {name: measure(scan) for name, scan in asked.items()})

    def claims(self, data: xarray.Dataset) -> Claims:
        """What the figure says, panel by panel."""
        claim = Claims()
        if len(over(data, "pairs")):
            self._pair_claims(claim, data)
        if len(over(data, "gains")):
            self._gain_claims(claim, data)
        return claim

    def _known(self, name: str, data: xarray.Dataset) -> str | None:
        """Why a sentence is known not to hold on these data."""
        return self.on_record.get(name, {}).get(data.attrs["data"])

    def draw(self, data: xarray.Dataset) -> Figure:
        """Mean and standard error over seeds of trained and untrained pairs, one panel for each data set."""
        figure, axes = new_figure(data.sizes["panel"], width=4.2, height=3.2)
        for axis, panel in zip(axes[0], data["panel"].values, strict=True):
            letter = self.letters[panel in over(data, "gains")]
            _draw_panel(axis, data, str(panel), letter)
        return figure

    def _pair_claims(self, claim: Claims, data: xarray.Dataset) -> None:
        """That untrained pairs come to work at about some part of all pairs, and that trained ones always do."""
        panels, kind, source = over(data, "pairs"), kind_of(data), self.sources[0]
        errors = {panel: curve(data, panel)[1].mean("seed").values for panel in panels}
        claim.said(
            kind,
            source,
            "Zero-shot transfer to untrained pathways becomes as good as the training performance when about "
            f"{self.said} of pathways are trained.",
        )
        what = f"least K/M from which untrained pairs miss at most {WORKS:.0%} of all images more than trained ones"
        claim.within(what, {panel: first_fraction(data, panel) for panel in panels}, self.about)
        claim.fails(self._known("transfer", data))
        worst = {panel: error[:, 0].max() for panel, error in errors.items()}
        claim.said(kind, source, "Training accuracy is always high.")
        claim.at_most("largest mean test error of trained pairs", worst, LOW)
        claim.fails(self._known("trained", data))
        lost = {panel: error[0, 1] - error[0, 0] for panel, error in errors.items()}
        claim.said(kind, source, "With few trained pairs the untrained ones are near chance.")
        claim.at_least("untrained less trained test error at the smallest K", lost, 0.4)

    def _gain_claims(self, claim: Claims, data: xarray.Dataset) -> None:
        """That untrained pairs work from small first weights only, and trained ones from all."""
        panels, source, small, large, worst = over(data, "gains"), self.sources[1], {}, {}, {}
        for panel in panels:
            gains, errors = curve(data, panel)
            trained, untrained = errors.mean("seed").values.T
            learned = (gains < 1) & (trained <= LOW)
            small[panel] = float((untrained - trained)[learned].min()) if learned.any() else float("nan")
            large[panel], worst[panel] = untrained[-1] - trained[-1], trained.max()
        usual = SIZES["mnist"].trained
        of_paper = bool((data["trained"].sel(panel=panels).fillna(usual) == usual).all())  # its K
        kind = kind_of(data) if of_paper else "finding"
        claim.said(kind, source, "Zero-shot generalization only emerges at small initializations.")
        what = "least untrained less trained test error over the gains below one at which trained pairs are learned"
        claim.at_most(what, small, WORKS)
        claim.at_least("at the largest gain", large, 4 * WORKS)
        claim.fails(self._known("small", data) if of_paper else None)
        claim.said(kind, source, "Performance on trained domains is reasonably good for all scales.")
        claim.at_most("largest mean test error of trained pairs over all gains", worst, GOOD)
        claim.fails(self._known("all scales", data) if of_paper else None)


def declare(figure: RoutedFigure, *, full: Settings, differs: str = "", **words: Any) -> Experiment:
    """The experiment of a figure; words: its name, title, source and finding."""
    tiny = dict(TINY)
    if isinstance(full, OverPairs):
        tiny |= {"fractions": (0.3, 0.7)}
    if figure.gains:
        tiny |= {"gains": (1.0, 0.3), "trained": 2}
    return Experiment(
        full=full,
        tiny=replace(full, **tiny),
        compute=figure.compute,
        check=figure.check,
        claims=figure.claims,
        draw=figure.draw,
        differs=f"{DIFFERS} {differs}".strip(),
        **words,
    )


def all_panels(scans: Mapping[str, Scan], parts: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """All panels in one dataset, where conditions are fewer the rest is NaN; what was run, as attributes."""
    most = max(part.sizes["condition"] for part in parts.values())
    padded = [parts[name].pad(condition=(0, most - parts[name].sizes["condition"])) for name in scans]
    first = next(iter(scans.values()))
    told = {"data": first.data, "steps": first.steps, "seeds": first.seeds, "slope": first.slope}
    kinds = ["gains" if len({gain for _, gain in scan.conditions}) > 1 else "pairs" for scan in scans.values()]
    data = xarray.concat(padded, dim="panel", combine_attrs="drop").assign_coords(panel=list(scans))
    return data.assign(over=("panel", kinds)).assign_attrs(told)


def over(data: xarray.Dataset, what: str) -> list[str]:
    """The panels over pairs, or over gains."""
    return [str(panel) for panel, kind in zip(data["panel"].values, data["over"].values, strict=True) if kind == what]


def kind_of(data: xarray.Dataset) -> str:
    """A sentence of the paper is the paper's only on its own data."""
    return "finding" if data.attrs["data"] == "digits" else "paper"


def curve(data: xarray.Dataset, panel: str) -> tuple[np.ndarray, xarray.DataArray]:
    """What a panel is over, K/M or the gain, smallest first, and errors at the end, (condition, kind, seed)."""
    here = data.sel(panel=panel)
    places = here["gain"] if here["over"] == "gains" else here["trained"] / here["domains"]
    order = np.argsort(places.values)[: int(np.isfinite(places).sum())]  # what is NaN comes last
    errors = here["error"].isel(moment=-1, condition=order).transpose("condition", "kind", "seed")
    return np.asarray(places.values[order]), errors


def first_fraction(data: xarray.Dataset, panel: str) -> float:
    """The least K/M from which untrained pairs are as good as trained ones that were learned; NaN if they never are."""
    fractions, errors = curve(data, panel)
    trained, untrained = errors.mean("seed").values.T
    good = (untrained - trained <= WORKS) & (trained <= LEARNED)
    lasting = np.flatnonzero(np.logical_and.accumulate(good[::-1])[::-1])
    return float(fractions[lasting[0]]) if len(lasting) else float("nan")


def _draw_panel(axis: Axes, data: xarray.Dataset, panel: str, letter: str) -> None:
    places, errors = curve(data, panel)
    words = panel.removesuffix(" over gains").replace("-", ", M = ")
    title, gains = f"{letter}  {data.attrs['data']}, {words}", panel in over(data, "gains")
    for index, color in enumerate(("gated", "untrained")):
        values = 100 * errors.isel(kind=index)
        spread = values.std("seed", ddof=1) if values.sizes["seed"] > 1 else 0 * values.mean("seed")
        axis.errorbar(
            places if gains else 100 * places,
            values.mean("seed"),
            spread / np.sqrt(values.sizes["seed"]),
            color=COLORS[color],
            fmt="o-",
            capsize=2,
            label=f"{errors['kind'].values[index]} pairs",
        )
    if gains:
        axis.set_xscale("log")
        title += f", K = {float(data['trained'].sel(panel=panel).max()):g}"
    elif np.isfinite(first := first_fraction(data, panel)):
        title += f": untrained pairs work from {100 * first:.0f} % on"
    axis.set_ylim(0, 100)
    label_axes(axis, title, "gain of the first weights" if gains else "trained pairs, 100 K / M (%)", "test error (%)")
