"""From a trained ReLU network to the gated network with few modules that learns like it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import numpy as np

from neuralrace.analysis import Agreement, agreement
from neuralrace.errors import GateError, RangeError, require_count
from neuralrace.initial import Initialiser, as_key
from neuralrace.problem import Problem
from neuralrace.reln.modules import Modules, find_modules, gated_problem
from neuralrace.reln.recorded import gate_samples, hidden_layers, law_of, neuron_strengths
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.trajectory import Trajectory

ELBOW = 1.5  # the fewest modules whose error is at most so many times the least
MOST_MODULES = 6
FORECAST_STREAM = 1 << 29  # of draws, apart from those that a run with the same key was trained from
RTOL = 1e-4  # of forecasts, whose distance from training is read to two digits
SAMPLES = 81  # records that are clustered, evenly over the run


class Tried(NamedTuple):
    """One row of the elbow: how many modules, and how far their forecast is from the ReLU networks."""

    modules: int
    normalised_l1: float
    log10_gap: float
    consistency: float  # the least over the modules


@dataclass(frozen=True, eq=False)
class Layer:
    """The modules of one hidden layer. members: (seeds, neurons), the module of each neuron at the end, -1 silent."""

    name: str
    modules: Modules
    members: np.ndarray

    @property
    def widths(self) -> tuple[int, ...]:
        """How many neurons a module has at the end, in the mean over the runs; at least one."""
        counts = [np.sum(self.members == module, axis=1).mean() for module in range(len(self.modules))]
        return tuple(max(1, round(float(count))) for count in counts)


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was found, layer by layer.

    forecast, agreement: of the gated network with these modules from the law of the runs' first weights, against the
    mean of the runs; table: the same for every number of modules that was tried. None and empty where the law is not
    known.
    """

    layers: tuple[Layer, ...]
    task: Task = field(repr=False)
    forecast: Forecast | None = field(repr=False)
    agreement: Agreement | None
    table: tuple[Tried, ...]

    @property
    def patterns(self) -> np.ndarray:
        """(k, N) of bool: for which examples each module is on; all of the first layer, then of the next."""
        return np.vstack([layer.modules.patterns for layer in self.layers])

    @property
    def modules(self) -> Modules:
        """The modules of the only hidden layer."""
        return self._only.modules

    @property
    def members(self) -> np.ndarray:
        """The members of the modules of the only hidden layer."""
        return self._only.members

    @property
    def problem(self) -> Problem:
        """The gated network, ready to train or to forecast; its nodes are as wide as their modules are on average."""
        if len(self.layers) == 1:
            return gated_problem(self.task, self.patterns, self._only.widths)
        patterns = [layer.modules.patterns for layer in self.layers]
        return gated_problem(self.task, patterns, [layer.widths for layer in self.layers])

    @property
    def _only(self) -> Layer:
        if len(self.layers) > 1:
            raise GateError(f"one hidden layer is required; there are {len(self.layers)}: look at .layers")
        return self.layers[0]


def discover(
    run: Trajectory,
    modules: int | str = "auto",
    *,
    weighted: bool = False,
    most: int = MOST_MODULES,
    initial: Initialiser | None = None,
    key: int = 0,
    draws: int = 2,
) -> Discovery:
    """Find the modules of ReLU networks from the gate patterns of their training (P2 Algorithm 1).

    run: of a ReLU network, with record="gate_patterns". modules: how many in each hidden layer, or "auto": from one to
    `most`, the fewest whose forecast comes within ELBOW times the least error (P2 Fig 9). weighted: whether a neuron
    counts by its strength at the end. initial: the law of the first weights that the forecast starts from; that of the
    run if not given.
    """
    counts = _counts(modules, most)
    law = law_of(run) if initial is None else initial
    if law is None and len(counts) > 1:
        raise GateError(
            "modules='auto' forecasts learning curves and needs a law of the first weights; this run started from "
            "given weights: give initial=..., or a number of modules"
        )
    samples = {layer: _sampled(gate_samples(run, layer)) for layer in hidden_layers(run)}
    strengths = {layer: neuron_strengths(run, layer) if weighted else None for layer in samples}
    distinct = {layer: _distinct(taken) for layer, taken in samples.items()}
    useful = [count for count in counts if count <= max(distinct.values())] or [counts[0]]
    tried: list[Discovery] = []
    for count in useful:
        layers = []
        for name, taken in samples.items():
            amount = strengths[name]
            spread = None if amount is None else np.broadcast_to(amount[:, None], taken.shape[:-1])
            found = find_modules(taken, min(count, distinct[name]), spread, key)
            layers.append(Layer(name, found, found.nearest(taken[:, -1])))
        tried.append(_forecast(Discovery(tuple(layers), run.task, None, None, ()), count, run, law, draws, key))
    rows = tuple(row for one in tried for row in one.table)
    best = tried[0] if len(tried) == 1 else tried[_elbow([row.normalised_l1 for row in rows])]
    return Discovery(best.layers, best.task, best.forecast, best.agreement, rows)


def check_modules(modules: int | str) -> None:
    """Refuse what is neither a number of modules nor "auto"."""
    if not isinstance(modules, str):
        require_count("modules", modules)
    elif modules != "auto":
        raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")


def _counts(modules: int | str, most: int) -> Sequence[int]:
    check_modules(modules)
    return range(1, require_count("most", most) + 1) if isinstance(modules, str) else (modules,)


def _sampled(samples: np.ndarray) -> np.ndarray:
    """Records evenly over the run, the last among them."""
    count = samples.shape[1]
    return samples[:, np.unique(np.linspace(0, count - 1, min(SAMPLES, count)).astype(int))]


def _distinct(samples: np.ndarray) -> int:
    """How many patterns there are, the silent one apart."""
    rows = samples.reshape(-1, samples.shape[-1])
    return max(1, len(np.unique(np.packbits(rows[rows.any(axis=1)], axis=1), axis=0)))


def _forecast(
    found: Discovery, count: int, run: Trajectory, law: Initialiser | None, draws: int, key: int
) -> Discovery:
    """Forecast the gated network of some modules, and compare."""
    if law is None:
        return found
    apart_from_training = jax.random.fold_in(as_key(key), FORECAST_STREAM)
    forecast = predict(found.problem, law, run.time, method="flow", draws=draws, key=apart_from_training, rtol=RTOL)
    apart = agreement(forecast, run)
    least = min(float(layer.modules.consistency.min()) for layer in found.layers)
    row = Tried(count, apart.normalised_l1, apart.log10_gap, least)
    return Discovery(found.layers, found.task, forecast, apart, (row,))


def _elbow(errors: Sequence[float]) -> int:
    least = min(errors)
    return next(i for i, error in enumerate(errors) if error <= ELBOW * least)
