"""The modules that a ReLU network will form, predicted before any training."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralrace.analysis import Line
from neuralrace.errors import RangeError, WeightError, shortened
from neuralrace.initial import Initializer
from neuralrace.problem import Problem, side_by_side
from neuralrace.reln.discover import Modular, check_modules, describe
from neuralrace.reln.modules import looks_at, require_relu_chain
from neuralrace.reln.replay import fewest, replay
from neuralrace.task import Task
from neuralrace.theory import NetworkFlow, Representatives, predict


def predict_modules(
    network: Problem,
    initial: Initializer,
    times: Sequence[float] | np.ndarray,
    modules: int | str = "auto",
    *,
    learning_rate: float | None = None,
    draws: int = 2,
    key: Any = None,
) -> Modular:
    """Predict which modules a ReLU network will form, how large they become, and what each writes.

    Nothing is trained: neurons are drawn from the initializer, by a stream that no training has, and followed by
    `predict`. Of a wide hidden layer some stand for all, as there. They are put into modules like those of a run.
    modules: how many in each layer, or "auto": the fewest whose replay explains the forecast. learning_rate: of the
    training that is predicted, by the same steps; the flow if not given.
    """
    if not callable(initial):
        raise WeightError(f"initial must be an initializer such as initial.gaussian(std); it was {shortened(initial)}")
    require_relu_chain(network)
    count, dynamics = check_modules(modules), "flow" if learning_rate is None else "descent"
    methods = Representatives(), NetworkFlow()
    forecast = predict(
        network, initial, times, methods, key, draws=draws, learning_rate=learning_rate, dynamics=dynamics
    )
    if not np.isfinite(forecast.losses).all():
        raise RangeError(f"the forecast diverges at learning_rate={learning_rate:.3g}: give a smaller one")
    graph, records = network.architecture, 121  # at which neurons are looked at, evenly over the times
    rate = learning_rate
    if rate is None:  # a replay of a flow takes steps of a tenth of the inverse of a bound on the curvature
        rate = min(0.1 / largest_curvature(network.task, len(graph.hidden) + 1), forecast.time[-1] / records)
    moments = forecast.time[np.unique(np.linspace(0, len(forecast.time) - 1, records).astype(int))]
    moments = np.unique(np.append(0.0, moments))
    steps, first = np.unique(np.rint(moments / rate).astype(int), return_index=True)
    moments = moments[first]
    sets = [forecast.weights_at(moments, draw) for draw in range(len(forecast.losses))]
    weights = {edge: np.array([[at[edge] for at in draw] for draw in sets]) for edge in graph.edges}
    followed = network if forecast.simulated is None else forecast.simulated
    each = graph.nodes[graph.hidden[0]] / followed.architecture.nodes[graph.hidden[0]]
    curve = Line(moments, np.interp(moments, forecast.time, forecast.loss))
    rows = replay(followed, [draw[0] for draw in sets], looks_at(followed, weights), curve, steps, rate, count)
    chosen = fewest(rows)
    described = describe(followed, chosen.gatings[-1], [draw[-1] for draw in sets], weights, each)
    return Modular(described, network, moments, chosen, rows, forecast)


def largest_curvature(task: Task, layers: int) -> float:
    """Bound the curvature that a linear network of L layers reaches: L d p^(2 - 2/L) with p = s / d.

    d is the largest variance of the inputs, and s, the largest singular value that an input-output correlation of any
    of the examples can have, at most the root of d times the mean squared length of the targets.
    """
    rows, wanted = side_by_side(task.inputs), side_by_side(task.targets)
    spread = float(np.linalg.eigvalsh(rows.T @ (rows * task.weights[:, None]))[-1])
    energy = float(task.weights @ np.sum(wanted**2, axis=1))
    if spread <= 0 or energy <= 0:
        raise RangeError("a task to learn has inputs and targets that are not all zero; here they are: check the file")
    return float(layers * spread * np.sqrt(energy / spread) ** (2 - 2 / layers))
