"""The front door of training: a network, its initial weights and a step size in, a trajectory out."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, RangeError, require_count, require_number
from neuralrace.initial import Initialiser, as_data, as_key, draw, key_as_data
from neuralrace.precision import float64
from neuralrace.problem import Problem, check_weights
from neuralrace.progress import Meter
from neuralrace.training.descent import Loop, descend
from neuralrace.training.gated import GatedLearner
from neuralrace.training.learner import Learner
from neuralrace.training.narrowing import narrow, widen
from neuralrace.training.objective import make_objective
from neuralrace.training.record import Recorder, make_recorder
from neuralrace.training.rectified import RectifiedLearner
from neuralrace.training.relu import ReLUNetwork
from neuralrace.training.rule import optax_rule, plain_descent
from neuralrace.training.schedule import LOOKS, Schedule, make_schedule
from neuralrace.trajectory import STATUS, Trajectory, make_trajectory, with_examples

SEED_BYTES = 1 << 30  # seeds that are trained side by side may take this much
SETTLED = 1e-3  # see _status
EXPLODED = 1e6  # a loss so many times the first one is divergence
BATCH_STREAM = 1 << 30  # apart from the streams of the initial weights, which are numbered from zero


@float64
def train(
    network: Problem | ReLUNetwork,
    initial: Initialiser | Weights,
    learning_rate: float | None = None,
    steps: int = 1000,
    *,
    seeds: int = 1,
    key: Any = 0,
    loss: str = "squared",
    optimiser: Any = None,
    batch_size: int | None = None,
    coupling: str = "joint",
    record: str | Sequence[str] = ("loss",),
    every: int = 1,
    at: Sequence[int] | None = None,
    progress: bool = True,
) -> Trajectory:
    """Train a gated network or a ReLU network by gradient descent from one initial condition per seed.

    initial: an initialiser, drawn anew for each seed, or a set of weights. learning_rate: the step size; time is
    learning_rate * step. With an optax `optimiser` the step size is the optimiser's own and learning_rate,
    1 unless given, only sets the unit of time. loss: "squared" or "cross-entropy". batch_size: examples per step,
    the full batch unless given. coupling: "joint" or "residual", for gated networks. record: any of loss,
    outputs, weights, path_singular_values, weight_singular_values, activity, gate_patterns; taken `every` so many steps
    and at the end, or `at` given steps. A diverging seed is marked in `status` and does not stop the others.
    """
    if learning_rate is None and optimiser is None:
        raise RangeError("learning_rate is required: give learning_rate=..., or an optax optimiser=...")
    rate = 1.0 if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    seeds = require_count("seeds", seeds)
    schedule = make_schedule(steps, every, at)
    learner = _learner(network, loss, coupling)
    batch = None if batch_size is None else _batch(batch_size, learner.example_count, coupling)
    start = first = _initial_weights(network, initial, seeds, key)
    narrowing = narrow(network, start) if optimiser is None and isinstance(network, Problem) else None
    if narrowing is not None and narrowing.bases:
        learner, start = _learner(narrowing.problem, loss, coupling), dict(narrowing.weights)
    rule = plain_descent(rate) if optimiser is None else optax_rule(optimiser, learner)
    recorder = make_recorder(learner, record)
    loop = Loop(learner, rule, recorder.look, recorder.finish, batch)
    with Meter("training", max(steps, 1) * seeds, shown=progress) as meter:
        records, final = _in_groups_of_seeds(loop, start, seeds, key, schedule, meter)
    if narrowing is not None and narrowing.bases:
        records, final = widen(narrowing, records, final)
    settings = {
        "learning_rate": rate,
        "steps": steps,
        "seeds": seeds,
        "key": key_as_data(key),
        "loss": loss,
        "rule": {"rule": "optax"} if optimiser is not None else {"rule": "descent", "learning_rate": rate},
        "batch_size": batch,
        "coupling": coupling,
        "initial": as_data(initial),
    }
    weights = {"final_weights": final}
    if any(name.startswith("gate_patterns") for name in records):
        weights["first_weights"] = first
    return _trajectory(network, recorder, records, weights, schedule, rate, settings)


def _learner(network: Problem | ReLUNetwork, loss: str, coupling: str) -> Learner:
    if isinstance(network, Problem):
        return GatedLearner(network, make_objective(loss, network.task), coupling)
    if isinstance(network, ReLUNetwork):
        if coupling != "joint":
            raise ProblemError(f"coupling={coupling!r} is for gated networks; a ReLU network has no pathways to order")
        return RectifiedLearner(network, make_objective(loss, network.task))
    raise ProblemError(f"a Problem or a ReLUNetwork is required; {type(network).__name__} came")


def _batch(size: int, examples: int, coupling: str) -> int:
    size = require_count("batch_size", size)
    if size > examples:
        raise RangeError(f"batch_size must be at most the number of examples, {examples}; it was {size}")
    if coupling != "joint":
        raise ProblemError("mini-batches go with coupling='joint'; leave batch_size out for 'residual'")
    return size


def _seed_keys(key: Any, seeds: int) -> list[jax.Array]:
    """One key per seed, the same for a seed however many others there are."""
    return [jax.random.fold_in(as_key(key), seed) for seed in range(seeds)]


def _initial_weights(
    network: Problem | ReLUNetwork, initial: Initialiser | Weights, seeds: int, key: Any
) -> dict[Edge, np.ndarray]:
    """Edge -> (seeds, target, source)."""
    architecture = network.architecture
    drawn = [check_weights(architecture, draw(initial, network, k)) for k in _seed_keys(key, seeds)]
    return {edge: np.stack([weights[edge] for weights in drawn]) for edge in architecture.edges}


def _in_groups_of_seeds(
    loop: Loop, start: Mapping[Edge, np.ndarray], seeds: int, key: Any, schedule: Schedule, meter: Meter
) -> tuple[dict[str, np.ndarray], dict[Edge, np.ndarray]]:
    """Train as many seeds side by side as memory allows; each group is one compiled run."""
    learner = loop.learner
    batch_keys = jnp.stack([jax.random.fold_in(k, BATCH_STREAM) for k in _seed_keys(key, seeds)])
    rows = learner.example_count if loop.batch is None else loop.batch
    activity = rows * sum(learner.architecture.nodes.values())
    per_seed = 8 * (6 * sum(matrix[0].size for matrix in start.values()) + 4 * activity)
    at_once = int(np.clip(SEED_BYTES // max(per_seed, 1), 1, seeds))
    records, finals = [], []
    for first in range(0, seeds, at_once):
        chosen = slice(first, min(first + at_once, seeds))
        parameters = jax.vmap(learner.pack)({edge: matrix[chosen] for edge, matrix in start.items()})
        recorded, final = descend(loop, parameters, batch_keys[chosen], schedule, meter)
        records.append(recorded)
        finals.append({edge: np.asarray(matrix) for edge, matrix in jax.vmap(learner.unpack)(final).items()})
    return _joined(records), _joined(finals)


def _joined(parts: list[dict[Any, np.ndarray]]) -> dict[Any, np.ndarray]:
    return parts[0] if len(parts) == 1 else {name: np.concatenate([p[name] for p in parts]) for name in parts[0]}


def _status(loss: np.ndarray) -> np.ndarray:
    """Diverged: not finite, or EXPLODED times the first loss. Converged: fell, and is still at the end.

    loss: (seeds, regular looks), so that what is recorded makes no difference. Still means that over the last tenth
    of the run the loss changed by less than SETTLED of all that it fell; a long plateau looks the same.
    """
    status = np.full(len(loss), STATUS.index("running"))
    first = np.maximum(loss[:, 0], np.finfo(float).eps)  # a perfect start leaves rounding, which may grow a little
    with np.errstate(invalid="ignore"):
        fallen = loss[:, 0] - loss[:, -1]
        late = loss[:, -max(loss.shape[1] // 10, 2) :]
        still = (late.max(axis=1) - late.min(axis=1) < SETTLED * fallen) & (fallen > SETTLED * loss[:, 0])
        exploded = ~np.isfinite(loss).all(axis=1) | (loss.max(axis=1) > EXPLODED * first)
    status[still & (loss.shape[1] >= LOOKS)] = STATUS.index("converged")
    status[exploded] = STATUS.index("diverged")
    return status


def _trajectory(
    network: Problem | ReLUNetwork,
    recorder: Recorder,
    records: Mapping[str, np.ndarray],
    weights: Mapping[str, Mapping[Edge, np.ndarray]],
    schedule: Schedule,
    rate: float,
    settings: Mapping[str, object],
) -> Trajectory:
    """Name the axes of everything; where the first weights are kept, so are the examples."""
    curve = records["curve"]
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {}
    for name, array in records.items():
        if name != "curve":
            variables[name] = (("seed", "time", *recorder.axes.get(name, ())), array)
    for kind, by_edge in weights.items():
        for edge, matrix in by_edge.items():
            axes = recorder.axes[f"weights[{edge_name(edge)}]"]
            variables[f"{kind}[{edge_name(edge)}]"] = (("seed", *axes), matrix)
    run = make_trajectory(
        rate * schedule.recorded,
        schedule.recorded,
        variables,
        _status(curve[:, schedule.regular]),
        edges=tuple(network.architecture.edges),
        problem=network.describe(),
        settings=settings,
    )
    return with_examples(run, network.task) if "first_weights" in weights else run
