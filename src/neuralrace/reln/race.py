"""Candidate gatings of one task, ranked by the theory before anything is trained."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import ProblemError, RangeError, TaskError, require_count, require_kind
from neuralrace.initial import Initializer, gaussian
from neuralrace.problem import Problem
from neuralrace.reln.modules import gated_problem, initializer_of_modules
from neuralrace.task import Task
from neuralrace.theory import Aligned, Flow, Forecast, predict

# the flow itself: of pathways side by side, from small weights, in as few directions as grow
EXACT = (Aligned(diagonal=False, small=1e-6), Flow())
RTOL = 1e-4  # of solved curves, whose distance from training is read to two digits

FRACTION = 0.5  # of the initial loss, the criterion unless one is given
SMALL = 0.005  # initial weights times the number of neurons, unless an initializer is given (P2 Fig 4)
MOMENTS = 401  # at which losses are forecast, unless times are given
DOUBLINGS = 8  # of the time, until some candidate meets the criterion


@dataclass(frozen=True, eq=False)
class Runner:
    """One candidate. time: when its forecast loss meets the criterion, infinite if not by then.

    rates: path -> the largest singular value of what the path sees, which its strength grows with twice from small
    weights. final: the last loss of the forecast.
    """

    name: str
    time: float
    rates: dict[str, float]
    final: float
    forecast: Forecast

    @property
    def rate(self) -> float:
        """The largest of the rates: the pathway that starts first."""
        return max(self.rates.values())


@dataclass(frozen=True, eq=False)
class Ranking:
    """The candidates in the order in which they meet the criterion."""

    runners: tuple[Runner, ...]
    criterion: float

    @property
    def winner(self) -> str:
        """The name of the fastest."""
        return self.runners[0].name

    def __getitem__(self, name: str) -> Runner:
        return {runner.name: runner for runner in self.runners}[name]

    def __str__(self) -> str:
        lines = [
            f"{'gating':36s} {'time to loss ' + format(self.criterion, '.3g'):>22s} {'rate':>9s} {'final loss':>11s}"
        ]
        lines += [f"{r.name:36s} {r.time:22.4g} {r.rate:9.4g} {r.final:11.3g}" for r in self.runners]
        return "\n".join(lines)


def gatings_of_groups(labels: Any, sizes: Any = None) -> dict[str, np.ndarray]:
    """Every gating that treats the examples of a group alike: a common pathway and all pathways open in m groups.

    labels: (N,), the group of each example, such as its context. sizes: the m to make; from 1 to one less than the
    number of groups if not given. Returns name -> patterns (k, N). "common" alone is among them.
    """
    names = np.unique(np.asarray(labels))
    if not len(names):
        raise TaskError("labels must have one entry for each example; they were empty")
    wanted = range(1, len(names)) if sizes is None else sizes
    common = np.ones((1, len(labels)), dtype=bool)
    gatings = {"common": common}
    for size in wanted:
        size = require_count("a size", size)
        if size >= len(names):
            raise RangeError(f"a size must be below the number of groups, {len(names)}; it was {size}")
        chosen = [np.isin(labels, groups) for groups in itertools.combinations(names, size)]
        gatings[f"common + open in {size} of {len(names)}"] = np.vstack([common, *chosen])
    return gatings


def race(
    task: Task,
    candidates: Mapping[str, Any],
    *,
    initial: Initializer | None = None,
    times: Any = None,
    criterion: float | None = None,
    neurons: int = 120,
    draws: int = 2,
    key: Any = 0,
) -> Ranking:
    """Rank candidate gatings by the time at which the theory says they reach a loss; nothing is trained.

    candidates: name -> patterns (k, N), or a Problem. Patterns share the `neurons` equally, so that no gating has more
    of them. initial: an initializer, of small weights if not given; with a size for each edge of a ReLU network, every
    module has those of its layer. times: at which losses are forecast; as long as the first candidate takes, and as
    long again, if not given. criterion: a loss; half of the initial one if not given. Where several never reach it, the
    lower last loss comes first.
    """
    require_kind("task", task, Task, TaskError)
    require_kind("candidates", candidates, Mapping, ProblemError)
    if not candidates:
        raise ProblemError("a race needs at least one candidate; none came")
    problems = {
        name: candidate if isinstance(candidate, Problem) else _of_patterns(task, candidate, neurons)
        for name, candidate in candidates.items()
    }
    drawn = gaussian(SMALL / neurons) if initial is None else initial
    initializers = {name: initializer_of_modules(problem, drawn) for name, problem in problems.items()}
    rates = {name: _rates(problem) for name, problem in problems.items()}

    def run(moments: Any) -> Ranking:
        forecasts = {
            name: predict(problem, initializers[name], moments, EXACT, draws=draws, key=key, rtol=RTOL)
            for name, problem in problems.items()
        }
        start = max(float(forecast.loss[0]) for forecast in forecasts.values())
        level = FRACTION * start if criterion is None else float(criterion)
        runners = [
            Runner(name, float(forecast.time_to(level)), rates[name], float(forecast.loss[-1]), forecast)
            for name, forecast in forecasts.items()
        ]
        return Ranking(tuple(sorted(runners, key=lambda runner: (runner.time, runner.final))), level)

    if times is not None:
        return run(times)
    rate = max(max(one.values()) for one in rates.values())
    end = 10.0 / rate if rate > 0 else 10.0
    for _ in range(DOUBLINGS):  # until some candidate meets the criterion in the first half of the time
        found = run(np.linspace(0.0, end, MOMENTS))
        if found.runners[0].time <= end / 2:
            break
        end *= 2
    return found


def _of_patterns(task: Task, patterns: Any, neurons: int) -> Problem:
    rows = np.atleast_2d(np.asarray(patterns))
    return gated_problem(task, rows, max(1, require_count("neurons", neurons) // len(rows)))


def _rates(problem: Problem) -> dict[str, float]:
    statistics = problem.statistics()
    return {
        str(path): float(np.linalg.norm(np.asarray(statistics.input_output(path)), 2)) for path in statistics.open_paths
    }
