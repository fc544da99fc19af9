"""Networks with two hidden layers on P2's hierarchies: ReLU networks, and the gated one that shares its first layer."""

from dataclasses import dataclass

import numpy as np
import xarray

from neuralrace import reln, tasks
from neuralrace.analysis import alignment, typical
from neuralrace.architecture import Architecture
from neuralrace.axes import Weights
from neuralrace.experiments.figures._contextual import ContextualSettings, linear_part
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.theory import predict
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

CONTEXTS = 3
MODULES = CONTEXTS + 1
LAYERS = ("h1", "h2")
KEYS = {"relu": 0, "gated": 1, "theory": 1000}  # streams of initial weights that have nothing in common
SAMPLES = 31  # records of the gates that are clustered, evenly over the run


@dataclass(frozen=True)
class Settings(ContextualSettings):
    """The paper has 100 seeds and 100 gated seeds. draws: of the forecast.

    shallow: networks with one hidden layer, with the parameters of P2 Fig 5.
    """

    seeds: int = 3
    gated_seeds: int = 3
    draws: int = 2
    hidden: int = 420
    std: float = 0.0006
    steps: int = 30000
    shallow_seeds: int = 3
    shallow_hidden: int = 700
    shallow_std: float = 0.005 / 700
    shallow_steps: int = 8000

    @property
    def shallow(self) -> ContextualSettings:
        """The parameters of the networks with one hidden layer."""
        parts = (self.shallow_std, self.shallow_steps, max(self.every // 4, 1))
        return ContextualSettings(self.shallow_seeds, self.shallow_hidden, self.width, self.paper_rate, *parts)


def shared_first_layer(named: NamedTask, hidden: int) -> Problem:
    """P2 Fig 6a: a first layer that is always on, then a common pathway and one per context, closed in it.

    The pathways have the neurons of the second layer in equal parts.
    """
    context = named.groups["context"]
    gates = {f"without{c}": (context != c).astype(float) for c in range(CONTEXTS)}
    pathways = ("common", *gates)
    nodes = {"x": named.task.inputs["x"].shape[1], "h1": hidden, **dict.fromkeys(pathways, hidden // MODULES)}
    nodes["y"] = named.task.targets["y"].shape[1]
    edges = [("x", "h1"), *(("h1", pathway) for pathway in pathways), *((pathway, "y") for pathway in pathways)]
    return Problem(Architecture(nodes, edges), named.task, Gates(nodes=gates))


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks with two hidden layers and with one, and gated networks; forecast the gated ones."""
    named = tasks.contextual(CONTEXTS, "hierarchy")
    shallow = settings.shallow.relu(named.task, key=KEYS["relu"])
    data = xarray.Dataset({"shallow": (("shallow_seed", "shallow_epoch"), shallow.loss)})
    data["shallow_epoch"] = shallow.data["step"].values
    return xarray.merge([data, _relu(settings, named), _gated(settings, named)])


def _relu(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Losses, gates and alignment of the ReLU networks, and the outputs of the typical one."""
    network = ReLUNetwork(named.task, hidden=(settings.hidden, settings.hidden))
    run = settings.train(network, seeds=settings.seeds, key=KEYS["relu"], record=("gate_patterns", "outputs"))
    data = _losses_and_outputs("relu", run, named.task).rename({"relu_seed": "seed"})
    for layer in LAYERS:
        strength = reln.neuron_strengths(run, layer)
        on = run.values(f"gate_patterns[{layer}]")  # (seeds, records, examples, neurons)
        kinds = {"all": np.all(on, axis=2), "none": np.all(~on, axis=2), "pairs": np.mean(on, axis=2)}
        for kind, chosen in kinds.items():
            data[f"{layer}_{kind}"] = (("seed", "epoch"), chosen.mean(axis=-1))
            part = np.einsum("srn,sn->sr", chosen, strength) / strength.sum(axis=1)[:, None]
            data[f"{layer}_{kind}_by_strength"] = (("seed", "epoch"), part)
    data["passed"] = ("seed", np.array([passed(network, run.weights(seed)) for seed in range(settings.seeds)]))
    data["context"] = ("example", named.groups["context"])
    return xarray.merge([data, _modules(run)])


def _losses_and_outputs(name: str, run: Trajectory, task: Task) -> xarray.Dataset:
    """The losses and alignments of all runs, and the outputs of the typical one."""
    outputs, axes = run.values("outputs[y]"), (f"{name}_seed", "epoch")
    data = xarray.Dataset({name: (axes, run.loss)}, {"epoch": run.data["step"].values})
    data[f"{name}_output"] = (("epoch", "example", "property"), outputs[typical(run.loss)])
    fit = linear_part(task)
    for kind, part in {"common": fit, "contextual": np.eye(len(fit)) - fit}.items():
        data[f"{name}_aligned_{kind}"] = (axes, alignment(part @ outputs, part @ task.targets["y"]))
    return data


def _modules(run: Trajectory) -> xarray.Dataset:
    """The modules of the second layer: of each run over all of its training, and of all runs at single moments."""
    every = max((len(run.time) - 1) // (SAMPLES - 1), 1)
    samples = reln.gate_samples(run, "h2", every)  # (seeds, records, neurons, examples)
    by_run = [_centroids(one) for one in samples]
    by_moment = [_centroids(samples[:, record]) for record in range(samples.shape[1])]
    data = xarray.Dataset(coords={"moment": run.data["step"].values[::every]})
    data["run_modules"] = (("seed", "module", "example"), np.array(by_run))
    data["moment_modules"] = (("moment", "module", "example"), np.array(by_moment))
    return data


def _centroids(samples: np.ndarray) -> np.ndarray:
    """The centres of four clusters of gate patterns, (4, N); zeros where there are fewer patterns than clusters."""
    packed = np.packbits(samples.reshape(-1, samples.shape[-1]), axis=1)
    patterns = len(np.unique(packed[packed.any(axis=1)], axis=0))
    found = reln.find_modules(samples, min(MODULES, patterns)).gates
    return np.vstack([found, np.zeros((MODULES - len(found), samples.shape[-1]))])


def _gated(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Losses, pathways and alignment of the gated networks, and their forecast from other draws of the same law."""
    problem, wanted = shared_first_layer(named, settings.hidden), ("outputs", "path_singular_values")
    run = settings.train(problem, seeds=settings.gated_seeds, key=KEYS["gated"], record=wanted)
    forecast = predict(problem, settings.law, run.time, key=KEYS["theory"], draws=settings.draws)
    paths = problem.architecture.paths()
    strengths = [np.linalg.norm(run.values(f"path_singular_values[{path}]"), axis=-1) for path in paths]
    data = _losses_and_outputs("gated", run, named.task)
    data["pathways"] = (("pathway", "gated_seed", "epoch"), np.array(strengths))
    data["theory"] = (("draw", "epoch"), forecast.losses)
    return data.assign_coords(pathway=[path.edges[-1][0] for path in paths])


def passed(network: ReLUNetwork, weights: Weights) -> float:
    """The share of what the first layer receives that its gates let through; one for a linear layer.

    Squared, and counted by the neurons' outgoing weights.
    """
    received = network.preactivations(weights)["h1"] * np.linalg.norm(weights["h1", "h2"], axis=0)
    return float(np.sum(received[received > 0] ** 2) / np.sum(received**2))
