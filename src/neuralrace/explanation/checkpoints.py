"""Networks that somebody else trained: their checkpoints as a run, and the law that their first weights look like."""

import os

import numpy as np

from neuralrace import initial
from neuralrace.errors import WeightError
from neuralrace.foreign import layers_of, read_folder
from neuralrace.initial import Initialiser
from neuralrace.problem import side_by_side
from neuralrace.reln.recorded import network_of
from neuralrace.task import Task
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

ALONG = 0.9  # the cosine of a training that went down the gradient, at least


def run_of_folder(task: Task, folder: str | os.PathLike[str], learning_rate: float | None = None) -> Trajectory:
    """Read the checkpoints of a folder as a run on some examples; widths and biases are those of the first file."""
    saved = read_folder(folder)
    steps = saved[0].steps
    for one in saved[1:]:
        if one.steps != steps:
            missing = sorted(set(steps) ^ set(one.steps))
            raise WeightError(f"all networks must be saved at the same steps; step {missing[0]} is not there for all")
    sizes = side_by_side(task.inputs).shape[1], side_by_side(task.targets).shape[1]
    layers = layers_of(saved[0].arrays[0], *sizes)
    if len(layers) < 2:
        raise WeightError("a network with a hidden layer is required; the checkpoints have one linear layer")
    hidden = [len(layer.matrix) for layer in layers[:-1]]
    network = ReLUNetwork(task, hidden, biases=layers[0].bias is not None)
    return Trajectory.from_checkpoints(network, steps, [one.arrays for one in saved], learning_rate=learning_rate)


def from_elsewhere(run: Trajectory) -> bool:
    """Whether a run was made from checkpoints."""
    return bool(run.settings["settings"]["rule"]["rule"] == "checkpoints")


def along_gradient(run: Trajectory) -> float:
    """The cosine between how the weights moved and the gradient; 1 for a training of ours."""
    return float(run.settings["settings"]["rule"].get("cosine", 1.0))


def law_like(run: Trajectory) -> Initialiser:
    """Independent normal weights of the sizes that the first ones have, edge by edge; nothing later is looked at."""
    network = network_of(run)
    sizes = {}
    for edge in network.architecture.edges:
        first = np.array([run.first_weights(seed)[edge] for seed in range(len(run.loss))])
        sizes[edge] = float(np.sqrt(np.mean(first**2)))
    return initial.gaussian(sizes)
