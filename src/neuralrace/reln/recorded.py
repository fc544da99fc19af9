"""What the record of a ReLU network says about itself: the network, the law of its first weights, its gates."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.errors import GateError, ProblemError, RangeError, UnknownNameError, require_count
from neuralrace.initial import Initializer, from_data, key_from_data
from neuralrace.reln.chains import as_relu_run
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

PATTERNS = "gate_patterns"
ASK = "train with record='gate_patterns'"
ASK_WEIGHTS = "train with record=('gate_patterns', 'weights')"


def gate_samples(run: Trajectory, layer: str = "h1", every: int = 1) -> np.ndarray:
    """The gate pattern of every neuron at every `every`-th record of every seed, (seeds, records, neurons, N)."""
    try:
        recorded = run.values(f"{PATTERNS}[{layer}]")
    except UnknownNameError:
        raise GateError(f"the run must hold the gate patterns of layer {layer!r}; it does not: {ASK}") from None
    return recorded[:, :: require_count("every", every)].swapaxes(-1, -2)


def refuse_diverged(run: Trajectory) -> None:
    """Of networks that diverged there is nothing to read."""
    lost = int(np.sum(run.status == "diverged"))
    if lost:
        raise RangeError(
            f"networks that learned are required; {lost} of {len(run.status)} diverged: train with a smaller "
            "learning rate"
        )


def network_of(run: Trajectory) -> ReLUNetwork:
    """The network that was trained, with its examples."""
    run = as_relu_run(run)
    if not any(str(name).startswith(f"{PATTERNS}[") for name in run.data):
        raise GateError(f"the run must hold gate patterns of a ReLU network; it does not: {ASK}")
    assert isinstance(run.problem, ReLUNetwork)
    return run.problem


def law_of(run: Trajectory) -> Initializer | None:
    """The law that the first weights were drawn from; None where the run started from given weights."""
    return from_data(run.settings["initial"])


def is_full_batch_descent(run: Trajectory) -> bool:
    """Whether every step was one of plain gradient descent, of one size, on all examples."""
    settings = run.settings
    constant = settings["learning_rate"] is not None and settings["batch_size"] is None
    return bool(settings["rule"]["rule"] == "descent" and constant)


def can_repeat(run: Trajectory) -> bool:
    """Whether the record says all that is needed to train the same networks once more."""
    return law_of(run) is not None and is_full_batch_descent(run)


def again(run: Trajectory, steps: int, *, record: str | Sequence[str], **options: Any) -> Trajectory:
    """Train the same networks from the same first weights for some steps, to record something else of them."""
    settings, law = run.settings, law_of(run)
    if law is None or not can_repeat(run):
        raise ProblemError(
            "a run can be repeated from its record if it is full-batch gradient descent from a law of ours; this one "
            f"used the rule {settings['rule']['rule']!r} from initial weights {settings['initial']['name']!r}"
        )
    return train(
        network_of(run),
        law,
        settings["learning_rate"],
        steps,
        seeds=settings["seeds"],
        key=key_from_data(settings["key"]),
        record=record,
        loss=settings["loss"],
        **options,
    )


def with_weights(run: Trajectory) -> Trajectory:
    """The run with its weights at every record; where they were not recorded, the networks are trained once more."""
    if weight_records(run):
        return run
    if not can_repeat(run):
        raise ProblemError(
            "the weights over time are required and this run neither holds them nor can be repeated: train with "
            "record=('gate_patterns', 'weights')"
        )
    steps = run.data["step"].values
    repeated = again(run, int(steps[-1]), record=("gate_patterns", "weights"), at=steps.tolist(), progress=False)
    return replace(run, data=run.data.assign({name: repeated.data[name] for name in weight_records(repeated)}))


def weight_records(run: Trajectory) -> list[str]:
    """The names of the records of weights over time."""
    return [str(name) for name in run.data.data_vars if str(name).startswith("weights[")]


def weights_over_time(run: Trajectory) -> dict[Edge, np.ndarray] | None:
    """The weights at every record, (seeds, records, target, source) each; None where they were not recorded."""
    names = {edge: f"weights[{edge_name(edge)}]" for edge in run.edges}
    if not all(name in run.data for name in names.values()):
        return None
    return {edge: run.values(name) for edge, name in names.items()}
