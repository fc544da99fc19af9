"""A training of your own as a trajectory: weights at some steps in, the record that every other training gives out."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.errors import (
    NeuralRaceError,
    ProblemError,
    RangeError,
    WeightError,
    require_kind,
    require_number,
    shortened,
)
from neuralrace.foreign import measure_pace, weights_by_edge

if TYPE_CHECKING:
    from neuralrace.problem import Problem

Variables = dict[str, tuple[tuple[str, ...], np.ndarray]]


def recorded(
    network: "Problem", steps: Sequence[int], weights: Sequence[Any], learning_rate: float | None
) -> tuple[np.ndarray, np.ndarray, Variables, dict[str, Any]]:
    """Times, steps, variables and settings of a trajectory.

    weights: one set for each step, or a list of such for each network; by edge, or by the names of a framework.
    """
    if not hasattr(network, "architecture"):
        raise ProblemError(f"network must be a ReLUNetwork on the examples; it was {shortened(network)}")
    moments = _checked_steps(steps)
    require_kind("weights", weights, Sequence, WeightError)
    sets = [weights] if weights and isinstance(weights[0], Mapping) else weights
    for one in sets:
        require_kind("the weights of each network", one, Sequence, WeightError)
    if not sets or any(len(one) != len(moments) for one in sets):
        found = ", ".join(str(len(one)) for one in sets) or "none"
        raise WeightError(f"one set of weights is required for each of the {len(moments)} steps; there are {found}")
    seen = [[_checked(network, step, one) for step, one in zip(moments, mine, strict=True)] for mine in sets]
    paces = [measure_pace(network, moments.tolist(), mine) for mine in seen]
    measured = float(np.median([pace.learning_rate for pace in paces]))
    rate = measured if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    if rate <= 0:
        raise WeightError(
            "weights that moved down the gradient of the squared error are required; these moved against it: check "
            "that examples, targets and the order of the inputs are those of the training"
        )
    rule = {"rule": "checkpoints", "cosine": min(pace.cosine for pace in paces), "measured_rate": measured}
    settings = {
        "learning_rate": rate,
        "steps": int(moments[-1]),
        "seeds": len(seen),
        "key": None,
        "stop_at": None,
        "loss": "squared",
        "rule": rule,
        "batch_size": None,
        "coupling": "joint",
        "initial": {"law": "given"},
    }
    return rate * moments, moments, _variables(network, seen), settings


def _variables(network: "Problem", seen: Sequence[Sequence[dict[Edge, np.ndarray]]]) -> Variables:
    """Losses, weights and gates over time, as training records them."""
    losses = np.array([[network.loss(one) for one in mine] for mine in seen])
    variables: Variables = {"loss": (("seed", "time"), losses)}
    for edge, (source, target) in network.architecture.edges.items():
        over_time = np.array([[one[edge] for one in mine] for mine in seen])
        axes = (f"{target}_unit", f"{source}_unit")
        variables[f"weights[{edge_name(edge)}]"] = (("seed", "time", *axes), over_time)
        variables[f"final_weights[{edge_name(edge)}]"] = (("seed", *axes), over_time[:, -1])
        variables[f"initial_weights[{edge_name(edge)}]"] = (("seed", *axes), over_time[:, 0])
    received = [[network.preactivations(one) for one in mine] for mine in seen]
    for node in received[0][0]:
        gates = np.array([[one[node] > 0 for one in mine] for mine in received])
        variables[f"gate_patterns[{node}]"] = (("seed", "time", "example", f"{node}_unit"), gates)
    return variables


def _checked_steps(steps: Sequence[int]) -> np.ndarray:
    given = np.asarray(steps)
    if given.ndim != 1 or len(given) < 2 or given.dtype.kind not in "iu":
        raise RangeError(f"steps must be at least two whole numbers; they were {steps!r}")
    if (np.diff(given) <= 0).any():
        place = int(np.argmax(np.diff(given) <= 0))
        raise RangeError(f"steps must increase; {given[place + 1]} comes after {given[place]}")
    if given[0] != 0:
        raise RangeError(
            f"the weights before training, at step 0, are required; the first are of step {given[0]}: save them once "
            "before the loop"
        )
    return given.astype(int)


def _checked(network: "Problem", step: int, weights: Any) -> dict[Edge, np.ndarray]:
    """The weights of one step by edge, or say at which step they do not fit."""
    try:
        if not isinstance(weights, Mapping):
            raise WeightError(f"weights must be arrays by name or by edge; {type(weights).__name__} came")
        found = weights_by_edge(weights, network.architecture, network.biases)
        network.loss(found)  # says which edge does not fit or is not finite
    except NeuralRaceError as error:
        raise WeightError(f"checkpoint of step {step}: {error}") from None
    return {edge: found[edge] for edge in network.architecture.edges}
