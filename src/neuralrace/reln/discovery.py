"""From a trained ReLU network to the gated network with few modules that learns like it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from neuralrace.analysis import Agreement, agreement
from neuralrace.errors import GateError, RangeError, require_count
from neuralrace.initial import Initialiser
from neuralrace.problem import Problem
from neuralrace.reln.modules import RTOL, Modules, find_modules, gated_problem
from neuralrace.reln.recorded import gate_samples, hidden_layers, law_of, network_of, neuron_strengths
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.trajectory import Trajectory

ELBOW = 1.5  # the fewest modules whose error is at most so many times the least
MOST_MODULES = 6
SAMPLES = 81  # records that are clustered, evenly over the run


class Tried(NamedTuple):
    """One row of the elbow: how many modules, and how far their reconstruction is from the ReLU networks."""

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

    reconstruction: the gated network with these modules, solved by the exact flow from the law of the runs' first
    weights. Its modules and their widths are read off the runs, so it describes them and predicts nothing. agreement:
    of it with the mean of the runs; table: the same for every number of modules that was tried. None and empty where
    the law is not known.
    """

    layers: tuple[Layer, ...]
    task: Task = field(repr=False)
    biases: bool = False
    reconstruction: Forecast | None = field(default=None, repr=False)
    agreement: Agreement | None = None
    table: tuple[Tried, ...] = ()

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
        """The gated network, ready to train or to solve; its nodes are as wide as their modules are on average."""
        if len(self.layers) == 1:
            return gated_problem(self.task, self.patterns, self._only.widths, self.biases)
        patterns = [layer.modules.patterns for layer in self.layers]
        return gated_problem(self.task, patterns, [layer.widths for layer in self.layers], self.biases)

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
    `most`, the fewest whose reconstruction comes within ELBOW times the least error (P2 Fig 9). weighted: whether a
    neuron counts by its strength at the end. initial: the law of the first weights that the reconstruction starts from;
    that of the run if not given. draws: of that law, which are never those of a training.
    """
    counts = _counts(modules, most)
    law = _law(run, initial)
    if law is None and len(counts) > 1:
        raise GateError(
            "modules='auto' compares learning curves, for which a run of the squared error from a known law of first "
            "weights is required; this is none: give a number of modules, or initial=... if it started from weights"
        )
    samples = {layer: _sampled(gate_samples(run, layer)) for layer in hidden_layers(run)}
    network = network_of(run)
    described = [
        Discovery(
            tuple(_modules_of(run, *layer, count, weighted, key) for layer in samples.items()),
            network.given,
            network.biases,
        )
        for count in _useful(counts, samples)
    ]
    if law is None:
        return described[0]
    tried = [_reconstructed(found, run, law, draws, key) for found in described]
    rows = tuple(row for _, row in tried)
    return replace(tried[_elbow([row.normalised_l1 for row in rows])][0], table=rows)


def check_modules(modules: int | str) -> None:
    """Refuse what is neither a number of modules nor "auto"."""
    if not isinstance(modules, str):
        require_count("modules", modules)
    elif modules != "auto":
        raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")


def _counts(modules: int | str, most: int) -> Sequence[int]:
    check_modules(modules)
    return range(1, require_count("most", most) + 1) if isinstance(modules, str) else (modules,)


def _law(run: Trajectory, initial: Initialiser | None) -> Initialiser | None:
    """What a reconstruction starts from; there is none for another loss than the squared error, which it solves."""
    if run.settings["settings"]["loss"] != "squared":
        return None
    return law_of(run) if initial is None else initial


def _sampled(samples: np.ndarray) -> np.ndarray:
    """Records evenly over the run, the last among them."""
    count = samples.shape[1]
    return samples[:, np.unique(np.linspace(0, count - 1, min(SAMPLES, count)).astype(int))]


def _useful(counts: Sequence[int], samples: Mapping[str, np.ndarray]) -> list[int]:
    """The numbers of modules for which some layer has patterns enough."""
    most = max(_distinct(taken) for taken in samples.values())
    if counts[0] > most:
        raise RangeError(f"modules must be at most the number of distinct patterns, {most}; it was {counts[0]}")
    return [count for count in counts if count <= most]


def _distinct(samples: np.ndarray) -> int:
    """How many patterns there are, the silent one apart; one, if all are silent."""
    rows = samples.reshape(-1, samples.shape[-1])
    return max(1, len(np.unique(np.packbits(rows[rows.any(axis=1)], axis=1), axis=0)))


def _modules_of(run: Trajectory, name: str, samples: np.ndarray, count: int, weighted: bool, key: int) -> Layer:
    """The modules of one layer, as many as asked or as it has patterns."""
    amount = np.broadcast_to(neuron_strengths(run, name)[:, None], samples.shape[:-1]) if weighted else None
    modules = find_modules(samples, min(count, _distinct(samples)), amount, key)
    return Layer(name, modules, modules.nearest(samples[:, -1]))


def _reconstructed(
    found: Discovery, run: Trajectory, law: Initialiser, draws: int, key: int
) -> tuple[Discovery, Tried]:
    """Solve the gated network of some modules, and compare."""
    solved = predict(found.problem, law, run.time, method="flow", draws=draws, key=key, rtol=RTOL)
    apart = agreement(solved, run)
    count = max(len(layer.modules) for layer in found.layers)
    least = min(float(layer.modules.consistency.min()) for layer in found.layers)
    row = Tried(count, apart.normalised_l1, apart.log10_gap, least)
    return replace(found, reconstruction=solved, agreement=apart), row


def _elbow(errors: Sequence[float]) -> int:
    least = min(errors)
    return next(i for i, error in enumerate(errors) if error <= ELBOW * least)
