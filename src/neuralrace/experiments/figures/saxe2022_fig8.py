"""P1 Fig 8: trained and untrained pairs of domains, over the part of pairs that is trained, on real images."""

from dataclasses import dataclass

import xarray
from matplotlib.figure import Figure

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.figures import _routed

PANELS = {
    "digits": ("permuted", "rotated"),
    "mnist": ("permuted-100", "permuted-40", "rotated-40"),
    "fashion": ("permuted-40", "rotated-40"),
    "features": ("given-40",),
    "arrays": ("given",),
}


@dataclass(frozen=True)
class Settings(_routed.Settings):
    """fractions: K / M; none: as the data ask."""

    fractions: tuple[float, ...] = ()


def scans(settings: Settings) -> dict[str, _routed.Scan]:
    """One for each panel."""
    return _routed.plan(settings, PANELS, fractions=settings.fractions or None)


together = _routed.assemble


def compute(settings: Settings) -> xarray.Dataset:
    """Train every panel."""
    asked = scans(settings)
    return together(asked, _routed.measured(asked))


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says, panel by panel."""
    return _routed.pair_claims(data, "P1 section 5.1, Figs 7b, 7c and 8", (0.3, 0.5), "40 %")


def draw(data: xarray.Dataset) -> Figure:
    """Errors over K / M, one panel for each data set."""
    return _routed.draw_each(data, _routed.draw_pairs, "8")


EXPERIMENT = Experiment(
    name="saxe2022-fig8",
    title="Real images: zero-shot error over the part of pairs that is trained",
    source="P1 Fig 8",
    full=Settings(),
    tiny=Settings(domains=3, hidden=4, seeds=2, steps=20, batch=4, fractions=(0.3, 0.7)),
    compute=compute,
    check=scans,
    claims=claims,
    draw=draw,
    differs=_routed.DIFFERS,
    finding="On real images untrained pairs of domains are near chance when few pairs are trained, and work "
    "once about 40 % are.",
)
