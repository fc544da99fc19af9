"""Candidate gatings of one task, ranked by the theory before anything is trained."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas

from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, RangeError, TaskError, require_count, require_kind, require_number
from neuralrace.initial import ByShape, Initializer, gaussian
from neuralrace.problem import Problem
from neuralrace.reln.modules import gated_problem
from neuralrace.task import Task
from neuralrace.theory import Aligned, Flow, Forecast, predict


@dataclass(frozen=True, eq=False)
class Ranking:
    """Gatings in the order in which their forecast loss reaches the criterion.

    table: one row per gating. time: when the criterion is reached, infinite if not by the last time. rate: the largest
    singular value that one of its paths sees; a strength grows from small weights at twice this rate. final: the last
    loss. forecasts: name -> forecast, in the same order.
    """

    criterion: float
    table: pandas.DataFrame
    forecasts: dict[str, Forecast] = field(repr=False)

    @property
    def winner(self) -> str:
        """The name of the fastest."""
        return next(iter(self.forecasts))

    def __str__(self) -> str:
        return f"time to loss {self.criterion:.3g}\n{self.table.to_string(float_format='{:.4g}'.format)}"


def gatings_of_groups(labels: Any, sizes: Any = None) -> dict[str, np.ndarray]:
    """Return every gating that treats the examples of a group alike: a common pathway and all those open in m groups.

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
    progress: bool = True,
) -> Ranking:
    """Rank candidate gatings by the time at which the theory says they reach a loss; nothing is trained.

    candidates: name -> patterns (k, N), or a Problem. Patterns share the `neurons` equally, so that no gating has more
    of them. initial: an initializer (small weights); with a size for each edge of a ReLU network, every module has
    those of its layer. times: of the forecast (default: twice as long as the fastest candidate needs). criterion: a
    loss (default: half of the initial one). Among candidates that never reach it, the lower last loss comes first.
    """
    require_kind("task", task, Task, TaskError)
    require_kind("candidates", candidates, Mapping, ProblemError)
    if not candidates:
        raise ProblemError("a race needs at least one candidate; none was given")
    if criterion is not None:
        require_number("criterion", criterion)
    drawn = gaussian(0.005 / neurons) if initial is None else initial  # P2 Fig 4
    entered: dict[str, tuple[Problem, Initializer]] = {}
    rates: dict[str, float] = {}
    for name, candidate in candidates.items():
        problem, own = candidate, drawn
        if not isinstance(candidate, Problem):
            patterns = np.atleast_2d(np.asarray(candidate))
            problem = gated_problem(task, patterns, max(1, require_count("neurons", neurons) // len(patterns)))
        graph, statistics = problem.architecture, problem.statistics()
        if isinstance(drawn, ByShape):  # the edges of a module are like those of its layer
            layer = {node: f"h{graph.level[node]}" for node in graph.hidden}
            ends: dict[Edge, Edge] = {e: (layer.get(s, s), layer.get(t, t)) for e, (s, t) in graph.edges.items()}
            own = drawn.like(ends)
        entered[name] = problem, own
        seen = [np.linalg.norm(np.asarray(statistics.input_output(path)), 2) for path in statistics.open_paths]
        rates[name] = float(max(seen, default=0.0))
    # the flow itself: of pathways side by side, from small weights, in as few directions as grow
    methods = Aligned(diagonal=False, small=1e-6), Flow()
    end = 10.0 / (max(rates.values()) or 1.0)
    for doublings in range(8):  # until some candidate meets the criterion in the first half of the time
        moments = np.linspace(0.0, end * 2**doublings, 401) if times is None else times
        forecasts = {
            name: predict(problem, own, moments, methods, draws=draws, key=key, rtol=1e-4, progress=progress)
            for name, (problem, own) in entered.items()
        }
        level = 0.5 * max(float(one.loss[0]) for one in forecasts.values()) if criterion is None else float(criterion)
        rows = {name: (one.time_to(level), rates[name], one.loss[-1]) for name, one in forecasts.items()}
        table = pandas.DataFrame.from_dict(rows, orient="index", columns=["time", "rate", "final"], dtype=float)
        table = table.sort_values(["time", "final"], kind="stable")
        if times is not None or table["time"].iloc[0] <= moments[-1] / 2:
            break
    return Ranking(level, table, {name: forecasts[name] for name in table.index})
