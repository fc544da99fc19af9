"""Scans of the figures with images: one data set in M x M domains with all its numbers of pairs, or gains, and seeds.

All networks of a scan are one compiled program. What a figure makes of its scans is in `_routed_figure`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray

from neuralrace import initial, tasks
from neuralrace.activations import leaky_relu
from neuralrace.errors import RangeError, require_count, require_name
from neuralrace.papers.settings import setting
from neuralrace.tasks import RoutedImages
from neuralrace.tasks.pairs import PAIRS, trained_pairs
from neuralrace.training import Condition, RoutedNetwork, train_together
from neuralrace.training.rules import Momentum

Panels = Mapping[str, tuple[str, ...]]  # data -> panels

KINDS = ("trained", "untrained")
DATA = ("digits", "mnist", "fashion", "features", "arrays")
MOMENTUM = 0.9
GAIN = 0.1  # of first weights, where pairs are scanned
PAPER_TIME = 7500.0  # rate / (1 - momentum) * steps of P1's 1000 epochs
MOMENTS = (0, 1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1)  # of a training, at which test errors are taken
ROUND = 100  # steps between these moments are a multiple of this where there are enough


@dataclass(frozen=True)
class Settings:
    """None, or an empty word or list: as the data ask, see SIZES.

    data: digits, mnist, fashion, features (of CIFAR-10) or arrays. folder: where its files are. panels: which domains,
    as "permuted-40" or "rotated-40". domains: M of every panel. slope: of both hidden layers, 1: linear.
    """

    data: str = setting("digits", words=DATA)
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
    slope: float = setting(1.0, least=0, most=1)


@dataclass(frozen=True)
class OverPairs(Settings):
    """fractions: K / M."""

    fractions: tuple[float, ...] = ()


@dataclass(frozen=True)
class OverGains(Settings):
    """gains: of the first weights. trained: K."""

    gains: tuple[float, ...] = ()
    trained: int | None = None


@dataclass(frozen=True)
class OverBoth(OverGains, OverPairs):
    """fractions, in panels over pairs; gains and trained, in panels over gains."""


@dataclass(frozen=True)
class Sizes:
    """How large networks and trainings are for a data set; domains: of the panels that have no number."""

    domains: int
    hidden: int
    batch: int
    rate: float
    steps: int
    seeds: int
    fractions: tuple[float, ...]  # K / M, where pairs are scanned; from weights of the gain GAIN
    gains: tuple[float, ...] = (10.0, 1.0, 0.1, 0.01, 0.001, 0.0001)  # where gains are, the paper's
    trained: int = 10  # K where gains are scanned, the paper's


SIZES = {
    "digits": Sizes(
        10, 32, 16, 0.1, 1600, 3, (0.1, 0.2, 0.3, 0.4, 0.5, 0.7), gains=(10.0, 3.0, 1.0, 0.3, 0.1), trained=4
    ),
    "mnist": Sizes(40, 128, 16, 0.04, 20_000, 10, (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7)),
    "features": Sizes(40, 1024, 16, 0.04, 20_000, 10, (0.1, 0.2, 0.3, 0.4, 0.5, 0.7)),
}
SIZES |= {"fashion": SIZES["mnist"], "arrays": SIZES["mnist"]}


@dataclass(frozen=True)
class Scan:
    """Networks that are trained together."""

    data: str
    folder: str
    inputs: str
    domains: int
    conditions: tuple[tuple[int, float], ...]  # K, the trained outputs per input domain, and a gain
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


def plan(settings: Any, pairs: Panels | None, gains: Panels | None) -> dict[str, Scan]:
    """The scans of a figure by the names of its panels.

    pairs, gains: the paper's panels over K / M and over the gain, data -> their domains; None: the figure has none.
    """
    sizes, found = SIZES[require_name("data", settings.data, pairs or gains or {})], {}
    if pairs is not None:
        for inputs, domains in _domains(settings, sizes, pairs):
            counts = [max(round(part * domains), 1) for part in settings.fractions or sizes.fractions]
            found[f"{inputs}-{domains}"] = _scan(settings, sizes, inputs, domains, [(k, GAIN) for k in counts])
    if gains is not None:
        for inputs, domains in _domains(settings, sizes, gains):
            trained = min(sizes.trained, domains) if settings.trained is None else settings.trained
            conditions = [(trained, gain) for gain in settings.gains or sizes.gains]
            ending = " over gains" if pairs else ""
            found[f"{inputs}-{domains}{ending}"] = _scan(settings, sizes, inputs, domains, conditions)
    return found


def _domains(settings: Settings, sizes: Sizes, panels: Panels) -> Iterator[tuple[str, int]]:
    """Inputs and M of every panel."""
    for panel in settings.panels or panels[settings.data]:
        inputs, _, number = panel.partition("-")
        if number and not number.isdigit():
            raise RangeError(f"a panel must be named like permuted-40; it was {panel!r}")
        domains = int(number) if number else sizes.domains
        yield inputs, require_count("domains", domains if settings.domains is None else settings.domains, least=2)


def _scan(settings: Settings, sizes: Sizes, inputs: str, domains: int, conditions: list[tuple[int, float]]) -> Scan:
    for count, _ in conditions:
        if count > domains:
            raise RangeError(f"trained must be at most the number of domains, {domains}; it was {count}")
    given = {name: getattr(settings, name) for name in ("data", "folder", "pairs", "degrees", "slope")}
    for name in ("hidden", "batch", "rate", "steps", "seeds"):
        value = getattr(settings, name)
        given[name] = getattr(sizes, name) if value is None else value
    return Scan(inputs=inputs, domains=domains, conditions=tuple(dict.fromkeys(conditions)), **given)


def images_of(scan: Scan) -> RoutedImages:
    """The task of a scan, whatever K."""
    own = {name: getattr(scan, name) for name in ("data", "domains", "inputs", "pairs", "degrees")}
    return tasks.routed_images(**own, trained=1, folder=scan.folder or None)


def measure(scan: Scan) -> xarray.Dataset:
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
        progress=False,
    )
    errors = [[run.values(f"pair_errors[{kind}]") for kind in KINDS] for run in runs]
    data = xarray.Dataset(coords={"kind": list(KINDS)})
    data["error"] = (("condition", "kind", "seed", "moment"), np.array(errors, dtype=np.float64))
    data["loss"] = (("condition", "seed", "moment"), np.array([run.loss for run in runs], dtype=np.float64))
    data["trained"] = ("condition", [trained for trained, _ in scan.conditions])
    data["gain"] = ("condition", [gain for _, gain in scan.conditions])
    data["time"] = (("condition", "moment"), np.array([run.time for run in runs]))
    data["domains"] = ((), scan.domains)
    return data


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
