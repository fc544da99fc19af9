"""Candidate gatings of one task, ranked by the theory before anything is trained."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, RangeError, TaskError, require_count, require_kind
from neuralrace.initial import ByShape, Initializer, gaussian
from neuralrace.problem import Problem
from neuralrace.reln.modules import gated_problem
from neuralrace.task import Task
from neuralrace.theory import Aligned, Flow, Forecast, predict


@dataclass(frozen=True, eq=False)
class Runner:
    """One candidate. time: when its forecast loss meets the criterion, infinite if not by then.

    rate: the largest singular value that one of its paths sees, by twice of which a strength grows from small weights.
    final: the last loss of the forecast.
    """

    name: str
    time: float
    rate: float
    final: float
    forecast: Forecast


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
        lines = [f"{'gating':36s} {f'time to loss {self.criterion:.3g}':>22s} {'rate':>9s} {'final loss':>11s}"]
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
    gatings = {"common": np.ones((1, len(labels)), dtype=bool)}
    for size in range(1, len(names)) if sizes is None else sizes:
        if require_count("a size", size) >= len(names):
            raise RangeError(f"a size must be below the number of groups, {len(names)}; it was {size}")
        chosen = [np.isin(labels, groups) for groups in itertools.combinations(names, size)]
        gatings[f"common + open in {size} of {len(names)}"] = np.vstack([gatings["common"], *chosen])
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
    drawn = gaussian(0.005 / neurons) if initial is None else initial  # P2 Fig 4
    entered: dict[str, tuple[Problem, Initializer, float]] = {}
    for name, candidate in candidates.items():
        problem = candidate
        if not isinstance(candidate, Problem):
            rows = np.atleast_2d(np.asarray(candidate))
            problem = gated_problem(task, rows, max(1, require_count("neurons", neurons) // len(rows)))
        graph, statistics, own = problem.architecture, problem.statistics(), drawn
        if isinstance(drawn, ByShape):  # the edges of a module are like those of its layer
            layer = {node: f"h{graph.level[node]}" for node in graph.hidden}
            ends: dict[Edge, Edge] = {e: (layer.get(s, s), layer.get(t, t)) for e, (s, t) in graph.edges.items()}
            own = drawn.like(ends)
        seen = [np.linalg.norm(np.asarray(statistics.input_output(path)), 2) for path in statistics.open_paths]
        entered[name] = problem, own, float(max(seen, default=0.0))
    # the flow itself: of pathways side by side, from small weights, in as few directions as grow
    methods = Aligned(diagonal=False, small=1e-6), Flow()

    def run(moments: Any) -> Ranking:
        forecasts = {
            name: predict(problem, own, moments, methods, draws=draws, key=key, rtol=1e-4)
            for name, (problem, own, _) in entered.items()
        }
        start = max(float(forecast.loss[0]) for forecast in forecasts.values())
        level = 0.5 * start if criterion is None else float(criterion)
        runners = [
            Runner(name, float(forecast.time_to(level)), entered[name][2], float(forecast.loss[-1]), forecast)
            for name, forecast in forecasts.items()
        ]
        return Ranking(tuple(sorted(runners, key=lambda runner: (runner.time, runner.final))), level)

    if times is not None:
        return run(times)
    rate = max(rate for _, _, rate in entered.values())
    end = 10.0 / rate if rate > 0 else 10.0
    for _ in range(8):  # until some candidate meets the criterion in the first half of the time
        found = run(np.linspace(0.0, end, 401))
        if found.runners[0].time <= end / 2:
            break
        end *= 2
    return found
