"""A reconstruction in two stretches: one pathway while the neurons gate alike, then the modules, from early weights."""

from dataclasses import dataclass, field

import numpy as np

from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.axes import Edge, Weights
from neuralrace.problem import BIAS
from neuralrace.reln.chains import as_relu_run
from neuralrace.reln.discovery import Discovery
from neuralrace.reln.modules import RTOL, gated_problem
from neuralrace.reln.recorded import again, gate_samples
from neuralrace.task import Task
from neuralrace.theory import predict
from neuralrace.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Staged:
    """A run told in two stretches. time: (T,). loss: (seeds, T). handover: the step at which the second starts."""

    time: np.ndarray = field(repr=False)
    loss: np.ndarray = field(repr=False)
    handover: int
    agreement: Agreement


def handover_record(run: Trajectory, layer: str = "h1") -> int:
    """The last record until which more than half of all neurons are on for every example, in the mean over seeds.

    Counted from when they first are; record 0 if they never are.
    """
    together = gate_samples(run, layer).all(axis=-1).mean(axis=(0, 2)) > 0.5
    if not together.any():
        return 0
    first = int(np.argmax(together))
    apart = np.flatnonzero(~together[first:])
    return first + int(apart[0]) - 1 if len(apart) else len(together) - 1


def staged_reconstruction(run: Trajectory, found: Discovery, *, progress: bool = True) -> Staged:
    """Describe every network of one hidden layer in two stretches, with no constant set by hand.

    Up to the handover all neurons form one pathway that is always open, from the network's own first weights. From
    there each neuron is in the module that it has at the end of the run, from its own weights at the handover, for
    which the network is trained that far once more: so the pathways' strengths are those of the early weights. Both
    read the run, so this is no forecast.
    """
    run = as_relu_run(run)
    record, members = handover_record(run), found.members
    step = int(run.data["step"].values[record])
    early = again(run, step, record="loss", at=[step], progress=progress)
    together = np.zeros_like(members)
    losses = []
    for seed in range(len(run.loss)):
        parts = []
        if record:
            parts.append(_stretch(found.task, None, together, seed, run.initial_weights(seed), run.time[:record]))
        times = run.time[record:] - run.time[record]
        parts.append(_stretch(found.task, found.patterns, members, seed, early.weights(seed), times))
        losses.append(np.concatenate(parts))
    loss = np.array(losses)
    return Staged(run.time, loss, step, agreement(Line(run.time, loss), run))


def _stretch(
    task: Task, patterns: np.ndarray | None, members: np.ndarray, seed: int, weights: Weights, times: np.ndarray
) -> np.ndarray:
    """The loss of the gated network whose pathways are made of one ReLU network's own neurons.

    A pathway is as wide for every seed, with neurons without weights in it, which stay so: one program serves all.
    """
    gates = np.ones((1, len(task))) if patterns is None else patterns
    used = [module for module in range(len(gates)) if np.any(members == module)]
    widths = [int(np.sum(members == module, axis=1).max()) for module in used]
    sources = ["x", BIAS] if (BIAS, "h1") in weights else ["x"]
    problem = gated_problem(task, gates[used], widths, BIAS in sources)
    start: dict[Edge, np.ndarray] = {(BIAS, "y"): weights[BIAS, "y"]} if BIAS in sources else {}
    for place, (module, width) in enumerate(zip(used, widths, strict=True)):
        inside = members[seed] == module
        empty = width - int(inside.sum())
        for source in sources:
            start[source, f"m{place}"] = np.pad(weights[source, "h1"][inside], ((0, empty), (0, 0)))
        start[f"m{place}", "y"] = np.pad(weights["h1", "y"][:, inside], ((0, 0), (0, empty)))
    return predict(problem, start, times, method="flow", rtol=RTOL).loss
