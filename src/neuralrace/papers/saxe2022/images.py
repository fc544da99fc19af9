"""P1 Figs 7 to 10: real images in M x M domains; trained and untrained pairs over their number, or the initial scale.

A figure has panels over K / M and over the gain of the initial weights. A panel is a scan: one data set with all its
numbers of pairs, or gains, and seeds, trained as one compiled program.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, leaky_relu, tasks
from neuralrace.errors import RangeError
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.plotting import COLORS, label_axes, new_figure
from neuralrace.tasks import RoutedImages
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import Momentum

Scan = dict[str, Any]

KINDS = ("trained", "untrained")
MOMENTUM = 0.9
WORKS = 0.05  # untrained pairs are as good as trained ones if their errors are larger by at most this
LOW = 0.15  # an error below this is low

# the paper's K and gains; its 1,000 epochs of tiny steps are a time of 7,500, rate / (1 - momentum) * steps
MNIST: dict[str, Any] = {
    "hidden": 128,
    "batch": 16,
    "rate": 0.04,
    "steps": 20_000,
    "seeds": 10,
    "fractions": (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7),
    "gains": (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001),
    "trained": 10,
}
FEW = (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)
DIGITS = {"hidden": 32, "rate": 0.1, "steps": 1600, "seeds": 3, "trained": 4, "gains": (10.0, 3.0, 1.0, 0.3, 0.1)}
DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": MNIST | DIGITS | {"fractions": FEW},
    "mnist": MNIST,
    "fashion": MNIST,
    "features": MNIST | {"hidden": 1024, "fractions": FEW},
}
PANELS: dict[str, tuple[str, ...]] = {
    "digits": ("permuted-10", "rotated-10"),
    "mnist": ("permuted-100", "permuted-40", "rotated-40"),
    "fashion": ("permuted-40", "rotated-40"),
    "features": ("given-40",),
}
FAILS = {
    "small": {
        "mnist": "not in the paper's time: from a gain of 0.1 untrained pairs still lose more than this, and smaller "
        "gains have not learned yet; in three times that time a gain of 0.01 works, at M = 40"
    },
    "all scales": {"mnist": "in the paper's time the smallest gains learn nothing"},
    "trained": {"features": "a linear network on these features misses a third of the images"},
}


@dataclass(frozen=True)
class Settings:
    """None, or an empty word or list: chosen by the data, see DEFAULTS.

    data: digits, mnist, fashion or features (of CIFAR-10). folder: where its files are. panels: which domains, as
    "permuted-40" or "rotated-40". domains: M of every panel. slope: of both hidden layers, 1: linear. fractions: K / M,
    in panels over pairs. gains, trained: of the initial weights, and K, in panels over gains.
    """

    data: str = setting("digits", words=tuple(DEFAULTS))
    folder: str = ""
    panels: tuple[str, ...] = ()
    domains: int | None = setting(None, least=2)
    hidden: int | None = None
    seeds: int | None = None
    steps: int | None = None
    rate: float | None = None
    batch: int | None = None
    slope: float = setting(1.0, least=0, most=1)
    fractions: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()
    trained: int | None = None


@dataclass(frozen=True)
class RoutedFigure:
    """One of the four figures.

    panels: those over "pairs" and over "gains", of each data set. shown: the letter of either in the paper, and the
    source. about, said: the fraction of pairs that the paper names. fails: claim -> data -> why it does not hold there.
    """

    panels: Mapping[str, Mapping[str, tuple[str, ...]]]
    shown: Mapping[str, tuple[str, str]]
    about: tuple[float, float] = (0.3, 0.5)
    said: str = "40 %"
    fails: Mapping[str, Mapping[str, str]] | None = None

    def scans(self, settings: Settings) -> dict[str, Scan]:
        """Return the scans by the names of their panels."""
        chosen = DEFAULTS[settings.data] | {
            name: value for name in MNIST if (value := getattr(settings, name)) not in (None, ())
        }
        found: dict[str, Scan] = {}
        for over, panels in self.panels.items():
            for panel in settings.panels or panels[settings.data]:
                inputs, _, number = panel.partition("-")
                if not number.isdigit():
                    raise RangeError(f"a panel must be named like permuted-40; it was {panel!r}")
                domains = settings.domains or int(number)
                if over == "pairs":
                    conditions = [(max(round(part * domains), 1), 0.1) for part in chosen["fractions"]]
                else:
                    trained = settings.trained or min(chosen["trained"], domains)
                    conditions = [(trained, gain) for gain in chosen["gains"]]
                name = f"{inputs}-{domains}{' over gains' if over == 'gains' and 'pairs' in self.panels else ''}"
                found[name] = {
                    **{key: getattr(settings, key) for key in ("data", "folder", "slope")},
                    **{key: chosen[key] for key in ("hidden", "batch", "rate", "steps", "seeds")},
                    **{"inputs": inputs, "domains": domains, "over": over},
                    "conditions": list(dict.fromkeys(conditions)),  # (K, gain)
                }
        return found

    def check(self, settings: Settings) -> None:
        """Refuse names, numbers of pairs and files before anything is trained."""
        for scan in self.scans(settings).values():
            images_of(scan)
            for trained, _ in scan["conditions"]:
                trained_pairs("circulant", scan["domains"], trained)

    def compute(self, settings: Settings) -> xarray.Dataset:
        """Train every panel."""
        scans = self.scans(settings)
        return assemble(scans, {name: measure(scan) for name, scan in scans.items()})

    def claims(self, data: xarray.Dataset) -> Claims:
        """Measure what the paper says of the panels over pairs, and of those over gains."""
        claim, name = Claims(), data.attrs["data"]
        kind = "finding" if name == "digits" else "paper"  # a sentence is the paper's on its own data
        fails = {key: why.get(name) for key, why in (FAILS | dict(self.fails or {})).items()}
        curves = {panel: curve(data, panel) for panel in data["panel"].values.tolist()}
        means = {panel: errors.mean("seed").values for panel, (_, errors) in curves.items()}
        panels = {over: [panel for panel in curves if data["over"].sel(panel=panel) == over] for over in self.panels}
        if "pairs" in panels:
            letter, source = self.shown["pairs"]
            errors = {panel: means[panel] for panel in panels["pairs"]}
            text = "Zero-shot transfer to untrained pathways becomes as good as the training performance when about "
            claim.said(kind, source, f"{text}{self.said} of pathways are trained.", letter)
            what = f"least K/M from which untrained pairs miss at most {WORKS:.0%} of all images more than trained ones"
            claim.within(what, {panel: first_fraction(data, panel) for panel in errors}, self.about)
            claim.fails(fails.get("transfer"))
            claim.said(kind, source, "Training accuracy is always high.", letter)
            worst = {panel: error[:, 0].max() for panel, error in errors.items()}
            claim.at_most("largest mean test error of trained pairs", worst, LOW)
            claim.fails(fails["trained"])
            claim.said(kind, source, "With few trained pairs the untrained ones are near chance.", letter)
            lost = {panel: error[0, 1] - error[0, 0] for panel, error in errors.items()}
            claim.at_least("untrained less trained test error at the smallest K", lost, 0.4)
        if "gains" in panels:
            letter, source = self.shown["gains"]
            small, large, worst = {}, {}, {}
            for panel in panels["gains"]:
                trained, untrained = means[panel].T
                learned = (curves[panel][0] < 1) & (trained <= LOW)
                small[panel] = float((untrained - trained)[learned].min()) if learned.any() else float("nan")
                large[panel], worst[panel] = untrained[-1] - trained[-1], trained.max()
            usual = MNIST["trained"]
            if not (data["trained"].sel(panel=panels["gains"]).fillna(usual) == usual).all():
                kind, fails = "finding", {}  # K is not the paper's
            claim.said(kind, source, "Zero-shot generalization only emerges at small initializations.", letter)
            what = "least untrained less trained test error over the gains below one at which trained pairs are learned"
            claim.at_most(what, small, WORKS)
            claim.at_least("at the largest gain", large, 4 * WORKS)
            claim.fails(fails.get("small"))
            claim.said(kind, source, "Performance on trained domains is reasonably good for all scales.", letter)
            claim.at_most("largest mean test error of trained pairs over all gains", worst, 0.3)
            claim.fails(fails.get("all scales"))
        return claim

    def draw(self, data: xarray.Dataset) -> Figure:
        """Draw mean and standard error over seeds of trained and untrained pairs, one panel for each scan."""
        figure, axes = new_figure(data.sizes["panel"], width=4.2, height=3.2)
        for axis, panel in zip(axes[0], data["panel"].values.tolist(), strict=True):
            over, (places, errors) = str(data["over"].sel(panel=panel).values), curve(data, panel)
            axis.set_label(self.shown[over][0])
            title = f"{data.attrs['data']}, {panel.removesuffix(' over gains').replace('-', ', M = ')}"
            for kind, color in zip(KINDS, ("gated", "untrained"), strict=True):
                values = 100 * errors.sel(kind=kind)
                spread = values.std("seed", ddof=1) if values.sizes["seed"] > 1 else 0 * values.mean("seed")
                spread = spread / np.sqrt(values.sizes["seed"])
                style: dict[str, Any] = {"color": COLORS[color], "fmt": "o-", "capsize": 2, "label": f"{kind} pairs"}
                axis.errorbar(places, values.mean("seed"), spread, **style)
            if over == "gains":
                axis.set_xscale("log")
                title += f", K = {float(data['trained'].sel(panel=panel).max()):g}"
            elif np.isfinite(first := first_fraction(data, panel)):
                title += f": untrained pairs work from {100 * first:.0f} % on"
            axis.set_ylim(0, 100)
            across = "gain of the initial weights" if over == "gains" else "part of pairs trained, K / M"
            label_axes(axis, title, across, "test error (%)")
        return figure

    def experiment(self, name: str, finding: str, differs: str = "", slope: float = 1.0) -> Experiment:
        """Declare the figure."""
        tiny = Settings(domains=3, hidden=4, seeds=2, steps=20, batch=4, fractions=(0.3, 0.7), gains=(1.0, 0.3))
        return Experiment(
            name=name,
            full=Settings(slope=slope),
            tiny=replace(tiny, slope=slope, trained=2),
            compute=self.compute,
            check=self.check,
            claims=self.claims,
            draw=self.draw,
            differs="By default on scikit-learn's digits, with 10 domains, 32 hidden neurons and 3 seeds: sentences of "
            "the paper are then ours. On the paper's data M, the width, biases, cross-entropy and momentum are its "
            "own; its steps are so small (1e-4) that it follows the gradient flow for a time of 7,500; that time is "
            "covered here with larger steps, of 16 images that are drawn anew for each. Angles are those of its code, "
            f"270 i / M degrees; its text says 180. {differs}".strip(),
            finding=finding,
        )


def images_of(scan: Scan) -> RoutedImages:
    """Return the task of a scan, whatever K."""
    own = {name: scan[name] for name in ("data", "domains", "inputs")}
    return tasks.routed_images(**own, trained=1, folder=scan["folder"] or None)


def measure(scan: Scan) -> xarray.Dataset:
    """Train all networks of a scan; record test errors of trained and of untrained pairs."""
    slope, steps = scan["slope"], scan["steps"]
    network = RoutedNetwork(images_of(scan), scan["hidden"], None if slope == 1 else leaky_relu(slope))
    conditions = []
    for trained, gain in scan["conditions"]:
        rate = scan["rate"] / max(gain, 1.0) ** 0.5  # large weights make large gradients
        conditions.append(
            Condition(
                network.with_pairs(trained_pairs("circulant", scan["domains"], trained)),
                initial.xavier(gain),
                Momentum(np.asarray(rate), np.asarray(MOMENTUM)),
                rate / (1 - MOMENTUM),
                "cross-entropy",
                batch_size=scan["batch"],
                drawn=True,
            )
        )
    runs = train_together(
        conditions,
        steps,
        seeds=scan["seeds"],
        record="pair_errors",
        at=[0, steps],
        precision="single",
        keep_weights=False,
        progress=False,
    )
    errors = [[run.values(f"pair_errors[{kind}]") for kind in KINDS] for run in runs]
    data = xarray.Dataset(coords={"kind": list(KINDS)})
    data["error"] = (("condition", "kind", "seed", "moment"), np.array(errors, dtype=np.float64))
    data["trained"] = ("condition", [trained for trained, _ in scan["conditions"]])
    data["gain"] = ("condition", [gain for _, gain in scan["conditions"]])
    data["time"] = (("condition", "moment"), np.array([run.time for run in runs]))
    data["domains"] = ((), scan["domains"])
    return data


def assemble(scans: Mapping[str, Scan], parts: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Put all panels in one dataset, padded with NaN where conditions are fewer."""
    most = max(part.sizes["condition"] for part in parts.values())
    padded = [parts[name].pad(condition=(0, most - parts[name].sizes["condition"])) for name in scans]
    data = xarray.concat(padded, dim="panel", combine_attrs="drop").assign_coords(panel=list(scans))
    first = next(iter(scans.values()))
    return data.assign(over=("panel", [scan["over"] for scan in scans.values()])).assign_attrs(data=first["data"])


def curve(data: xarray.Dataset, panel: str) -> tuple[np.ndarray, xarray.DataArray]:
    """Return K/M or the gains of a panel in increasing order, and errors at the end, (condition, kind, seed)."""
    here = data.sel(panel=panel)
    places = here["gain"] if here["over"] == "gains" else here["trained"] / here["domains"]
    order = np.argsort(places.values)[: int(np.isfinite(places).sum())]  # NaN comes last
    errors = here["error"].isel(moment=-1, condition=order).transpose("condition", "kind", "seed")
    return np.asarray(places.values[order]), errors


def first_fraction(data: xarray.Dataset, panel: str) -> float:
    """Return the least K/M from which untrained pairs are as good as trained ones that were learned, or NaN."""
    fractions, errors = curve(data, panel)
    trained, untrained = errors.mean("seed").values.T
    good = (untrained - trained <= WORKS) & (trained <= 0.45)  # half the error of a guess: something was learned
    lasting = np.flatnonzero(np.logical_and.accumulate(good[::-1])[::-1])
    return float(fractions[lasting[0]]) if len(lasting) else float("nan")


FIG7 = RoutedFigure(
    {
        "pairs": PANELS | {"digits": ("permuted-10",), "mnist": ("permuted-100",), "fashion": ("permuted-100",)},
        "gains": PANELS | {"digits": ("permuted-10",), "mnist": ("permuted-40",), "fashion": ("permuted-40",)},
    },
    {"pairs": ("b, c", "P1 section 5.1, Fig 7b and 7c"), "gains": ("d", "P1 section 5.1, Fig 7d")},
).experiment(
    "saxe2022-fig7",
    "On real images pairs of domains that were never trained become as good as trained ones once about 40 % of pairs "
    "are trained, and from small initial weights only.",
    differs="The text does not say of which data panel d is: Fig 10's MNIST with 1,600 pairs.",
)
FIG8 = RoutedFigure({"pairs": PANELS}, {"pairs": ("8", "P1 section 5.1, Figs 7b, 7c and 8")}).experiment(
    "saxe2022-fig8",
    "On real images untrained pairs of domains are near chance when few pairs are trained, and work once about 40 % "
    "are.",
)
FIG9 = RoutedFigure(
    {"pairs": PANELS | {"mnist": ("permuted-40", "rotated-40")}},
    {"pairs": ("9", "P1 Fig 9")},
    about=(0.15, 0.35),
    said="25 %",
    fails={
        "transfer": {
            "digits": "on digits 40 % are needed, as with linear layers; at 30 % untrained pairs miss a third of all "
            "images more"
        }
    },
).experiment(
    "saxe2022-fig9",
    "With leaky ReLU untrained pairs work as well, once enough pairs are trained: on digits 40 %, as with linear "
    "layers, and not the 25 % of the paper.",
    slope=0.01,
)
FIG10 = RoutedFigure({"gains": PANELS}, {"gains": ("10", "P1 section 5.1, Figs 7d and 10")}).experiment(
    "saxe2022-fig10",
    "On real images untrained pairs of domains work from small initial weights only, trained ones from all.",
    differs="On the paper's data K is its own, 10; on digits it is 40 % of M, where zero-shot transfer sets in.",
)
