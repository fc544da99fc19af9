"""P1 Fig 7: real images; trained and untrained pairs over the part that is trained, and over first weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import xarray
from matplotlib.figure import Figure

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.figures import _routed
from neuralrace.experiments.figures.saxe2022_fig10 import GAINS
from neuralrace.plotting import new_figure

PAIRS = {
    "digits": ("permuted",),
    "mnist": ("permuted-100",),
    "fashion": ("permuted-100",),
    "features": ("given-40",),
    "arrays": ("given",),
}
SCALES = PAIRS | {"mnist": ("permuted-40",), "fashion": ("permuted-40",)}
MARK = "gains_"  # before the names of what belongs to the second panel


@dataclass(frozen=True)
class Settings(_routed.Settings):
    """fractions: K / M in the first panel. gains: of the first weights in the second. Empty: as the data ask."""

    fractions: tuple[float, ...] = ()
    gains: tuple[float, ...] = ()


def scans(settings: Settings) -> dict[str, _routed.Scan]:
    """The part that is trained, and the scale."""
    pairs = _routed.plan(settings, PAIRS, fractions=settings.fractions or None)
    gains = settings.gains or GAINS[settings.data == "digits"]
    return pairs | {f"{MARK}{name}": scan for name, scan in _routed.plan(settings, SCALES, gains=gains).items()}


def together(asked: Mapping[str, _routed.Scan], parts: Mapping[str, xarray.Dataset]) -> xarray.Dataset:
    """Both panels; all names of the second are marked."""
    pairs = {name: scan for name, scan in asked.items() if not name.startswith(MARK)}
    scales = {name.removeprefix(MARK): scan for name, scan in asked.items() if name.startswith(MARK)}
    first = _routed.assemble(pairs, parts)
    second = _routed.assemble(scales, {name: parts[f"{MARK}{name}"] for name in scales})
    marked = second.rename({name: f"{MARK}{name}" for name in (*second.variables, *second.dims)})
    return xarray.merge([first, marked], combine_attrs="override")


def second_panel(data: xarray.Dataset) -> xarray.Dataset:
    """What is marked, under its own names."""
    mine = data[[name for name in data.data_vars if str(name).startswith(MARK)]]
    names = [str(name) for name in (*mine.variables, *mine.dims)]
    return mine.rename({name: name.removeprefix(MARK) for name in names if name.startswith(MARK)})


def compute(settings: Settings) -> xarray.Dataset:
    """Train both panels."""
    asked = scans(settings)
    return together(asked, _routed.measured(asked))


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    return [
        *_routed.pair_claims(data, "P1 section 5.1, Fig 7b and 7c", (0.3, 0.5), "40 %"),
        *_routed.gain_claims(second_panel(data), "P1 section 5.1, Fig 7d"),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Errors over K / M and over the gain."""
    second = second_panel(data)
    figure, axes = new_figure(data.sizes["panel"] + second.sizes["panel"], width=4.2, height=3.2)
    for axis, panel in zip(axes[0], data["panel"].values, strict=False):
        _routed.draw_pairs(axis, data, str(panel), "b, c")
    for axis, panel in zip(axes[0, data.sizes["panel"] :], second["panel"].values, strict=True):
        _routed.draw_gains(axis, second, str(panel), "d")
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-fig7",
    title="Real images: zero-shot transfer to pairs of domains that were never trained",
    source="P1 Fig 7",
    full=Settings(),
    tiny=Settings(domains=3, hidden=4, seeds=2, steps=20, batch=4, fractions=(0.3, 0.7), gains=(1.0, 0.3)),
    compute=compute,
    check=scans,
    claims=claims,
    draw=draw,
    differs=f"{_routed.DIFFERS} The text does not say of which data panel d is: Fig 10's MNIST with 1,600 pairs.",
    finding="On real images pairs of domains that were never trained become as good as trained ones once about "
    "40 % of pairs are trained, and from small first weights only.",
)
