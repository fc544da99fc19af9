"""Modules before any training: the neurons that the forecast followed, put into modules like those of a run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from neuralrace.analysis import Line
from neuralrace.reln.foreseen import Neurons, followed
from neuralrace.reln.gating import LayerGating
from neuralrace.reln.matching import paired
from neuralrace.reln.pricing import Priced, fewest, prices
from neuralrace.reln.watched import Watched
from neuralrace.theory import Forecast
from neuralrace.training import ReLUNetwork

ALIKE = 0.9  # of the examples: modules that are on or off together for so many are the same


class Match(NamedTuple):
    """A module that was foreseen and the found one that is most like it, by their places; None where none is left.

    responds: what the foreseen one is on for, in words. alike: the share of examples for which both are on or both off.
    share: of all that is carried, of each.
    """

    layer: str
    foreseen: int | None
    found: int | None
    responds: str
    alike: float
    share: tuple[float, float]

    @property
    def same(self) -> bool:
        """Whether they are one module."""
        return self.alike >= ALIKE


@dataclass(frozen=True, eq=False)
class Foretold:
    """What was foreseen of the modules. chosen: the fewest that explain the neurons that the forecast followed.

    With several hidden layers the neurons are kept, and put into as many modules as are found: chosen is None.
    """

    chosen: Priced | None
    neurons: Neurons | None = field(default=None, repr=False)

    def layers(self, found: Mapping[str, LayerGating]) -> dict[str, LayerGating]:
        """The modules of each layer at the end."""
        if self.chosen is not None:
            return {next(iter(found)): self.chosen.gatings[-1]}
        assert self.neurons is not None
        most = max(1, *(len(gating) for gating in found.values()))
        return {layer.name: LayerGating.of_layer(layer.occupied()) for layer in self.neurons.layers(most, at_most=True)}


def foretell(network: ReLUNetwork, forecast: Forecast, rate: float, modules: int | None, key: int) -> Foretold:
    """Which modules the neurons of the forecast's first draw form; it was made by steps of that size."""
    if len(network.hidden) > 1:
        return Foretold(None, followed(network, forecast))
    at = forecast.weights_at(forecast.time, 0)
    weights = {edge: np.stack([one[edge] for one in at])[None] for edge in at[0]}
    watched = Watched.over_time(network, np.rint(forecast.time / rate).astype(int), weights)
    rows = prices(Line(forecast.time, forecast.losses[:1]), watched, rate, modules, key=key)
    return Foretold(fewest(rows))


def matches(
    foreseen: Mapping[str, LayerGating],
    found: Mapping[str, LayerGating],
    weights: np.ndarray,
    words: Callable[[np.ndarray], str],
) -> tuple[Match, ...]:
    """Foreseen and found modules in pairs that differ least; weights: of the examples; words: of a pattern."""
    rows: list[Match] = []
    for layer, there in found.items():
        here = foreseen[layer]
        pairs = paired(here.gates, there.gates)
        for one, other in pairs:
            alike = float(weights @ (here.patterns[one] == there.patterns[other]))
            share = float(here.share[one]), float(there.share[other])
            rows.append(Match(layer, one, other, words(here.patterns[one]), alike, share))
        for one in sorted(set(range(len(here))) - {pair[0] for pair in pairs}):
            rows.append(Match(layer, one, None, words(here.patterns[one]), 0.0, (float(here.share[one]), 0.0)))
        for other in sorted(set(range(len(there))) - {pair[1] for pair in pairs}):
            rows.append(Match(layer, None, other, "", 0.0, (0.0, float(there.share[other]))))
    return tuple(rows)
