"""From a trained ReLU network to the gated network with few modules that learns like it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis import Agreement, agreement
from neuralrace.errors import GateError, ProblemError, RangeError, require_count
from neuralrace.initial import Initialiser
from neuralrace.problem import Problem
from neuralrace.reln.modules import Modules, find_modules, gate_samples, gated_problem
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.trajectory import Trajectory

ELBOW = 1.5  # the fewest modules whose error is at most so many times the least
MOST_MODULES = 6
SAMPLES = 81  # records that are clustered, evenly over the run


class Tried(NamedTuple):
    """One row of the trade-off: how many modules, and how far their forecast is from the ReLU networks."""

    modules: int
    normalised_l1: float
    log10_gap: float
    consistency: float  # the least over the modules


@dataclass(frozen=True, eq=False)
class Discovery:
    """What was found. patterns: (k, N). members: (seeds, neurons), the module of each neuron at the end, -1 silent.

    problem: the gated network, ready to train or to forecast; its pathways are as wide as their modules are on
    average. forecast, agreement: of that network from the given law of initial weights, against the mean of the runs;
    table: the same for every number of modules that was tried. All of these are None or empty without a task.
    """

    modules: Modules
    members: np.ndarray
    widths: tuple[int, ...]
    task: Task | None = field(repr=False)
    forecast: Forecast | None = field(repr=False)
    agreement: Agreement | None
    table: tuple[Tried, ...]

    @property
    def patterns(self) -> np.ndarray:
        """(k, N) of bool: for which examples each module is on."""
        return self.modules.patterns

    @property
    def problem(self) -> Problem:
        """The gated network with these modules."""
        if self.task is None:
            raise ProblemError("the examples are required for a problem and were not given: discover(..., task=task)")
        return gated_problem(self.task, self.patterns, self.widths)


def discover(
    run: Trajectory,
    modules: int | str = "auto",
    *,
    task: Task | None = None,
    initial: Initialiser | None = None,
    layer: str = "h1",
    weights: Any = None,
    most: int = MOST_MODULES,
    key: int = 0,
    draws: int = 2,
) -> Discovery:
    """Find the modules of ReLU networks from the gate patterns of their training (P2 Algorithm 1).

    run: of a ReLU network, with record="gate_patterns". modules: how many, or "auto": from one to `most`, the fewest
    whose forecast comes within ELBOW times the least error (P2 Fig 9). task, initial: the examples and the law of the
    initial weights of the run, for the problem and its forecast (one hidden layer). weights: (seeds, records, neurons),
    how much each sample counts, for all records of the run.
    """
    samples = gate_samples(run, layer)
    chosen = np.unique(np.linspace(0, samples.shape[1] - 1, min(SAMPLES, samples.shape[1])).astype(int))
    amount = None if weights is None else np.asarray(weights, dtype=float)[:, chosen]
    if isinstance(modules, str):
        if modules != "auto":
            raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")
        if task is None or initial is None:
            raise GateError("modules='auto' compares learning curves and needs task=... and initial=...: give both")
        counts: Sequence[int] = range(1, require_count("most", most) + 1)
    else:
        counts = (require_count("modules", modules),)
    distinct = len(np.unique(np.packbits(samples[:, chosen].reshape(-1, samples.shape[-1]), axis=1), axis=0))
    tried: list[Discovery] = []
    for count in [c for c in counts if c < distinct] or [min(counts[0], distinct)]:
        found = find_modules(samples[:, chosen], count, amount, key)
        tried.append(_rebuild(found, samples[:, -1], run, task, initial, draws, key))
    rows = tuple(row for one in tried for row in one.table)
    best = tried[0] if len(tried) == 1 else tried[_elbow([row.normalised_l1 for row in rows])]
    return Discovery(best.modules, best.members, best.widths, task, best.forecast, best.agreement, rows)


def _rebuild(
    found: Modules,
    last: np.ndarray,
    run: Trajectory,
    task: Task | None,
    initial: Initialiser | None,
    draws: int,
    key: int,
) -> Discovery:
    """Forecast the gated network of some modules from the law of the run's initial weights."""
    members = found.nearest(last)
    widths = tuple(max(1, round(float(np.mean(np.sum(members == m, axis=1))))) for m in range(len(found)))
    if task is None or initial is None:
        return Discovery(found, members, widths, task, None, None, ())
    problem = gated_problem(task, found.patterns, widths)
    forecast = predict(problem, initial, run.time, method="flow", draws=draws, key=key)
    apart = agreement(forecast, run)
    row = Tried(len(found), apart.normalised_l1, apart.log10_gap, float(found.consistency.min()))
    return Discovery(found, members, widths, task, forecast, apart, (row,))


def _elbow(errors: Sequence[float]) -> int:
    least = min(errors)
    return next(i for i, error in enumerate(errors) if error <= ELBOW * least)
