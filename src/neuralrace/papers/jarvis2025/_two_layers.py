"""Networks with two hidden layers on P2's hierarchies: ReLU networks, and the gated one that shares its first layer."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray

from neuralrace import reln, tasks
from neuralrace.analysis import alignment, typical
from neuralrace.architecture import Architecture
from neuralrace.arrays import float64
from neuralrace.axes import Weights
from neuralrace.gates import Gates
from neuralrace.papers.jarvis2025._contextual import ContextualSettings, linear_part
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.theory import predict
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

CONTEXTS = 3
MODULES = CONTEXTS + 1
LAYERS = ("h1", "h2")
KEYS = {"relu": 0, "gated": 1, "published": 2, "theory": 1000}  # streams of initial weights that have nothing in common
Matrices = list[jax.Array]
SAMPLES = 31  # records of the gates that are clustered, evenly over the run


@dataclass(frozen=True)
class Settings(ContextualSettings):
    """The paper has 100 seeds and 100 gated seeds. draws: of the forecast.

    switched: epochs at which the published gated network switches its pathways on, the common and the contextual ones.
    stds: its initial weights, of both layers and of the read-outs of the two kinds of pathways. shallow: networks with
    one hidden layer, with the parameters of P2 Fig 5.
    """

    seeds: int = 3
    gated_seeds: int = 3
    draws: int = 2
    hidden: int = 420
    std: float = 0.0006
    steps: int = 30000
    switched: tuple[int, int] = (500, 12000)
    stds: tuple[float, ...] = (5.75e-4, 5.5e-4, 5.5e-4, 4e-3)
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
    """Train ReLU networks with two hidden layers and with one, and gated ones in two ways; forecast one of these."""
    named = tasks.contextual(CONTEXTS, "hierarchy")
    shallow = settings.shallow.relu(named.task, key=KEYS["relu"])
    data = xarray.Dataset({"shallow": (("shallow_seed", "shallow_epoch"), shallow.loss)})
    data["shallow_epoch"] = shallow.data["step"].values
    parts = [data, _relu(settings, named), _gated(settings, named), _published(settings, named)]
    return xarray.merge(parts)


def _relu(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Losses, gates and alignment of the ReLU networks, and the outputs of the typical one."""
    network = ReLUNetwork(named.task, hidden=(settings.hidden, settings.hidden))
    run = settings.train(network, seeds=settings.seeds, key=KEYS["relu"], record=("gate_patterns", "outputs"))
    data = _outputs("relu", settings.epochs, run.loss, run.values("outputs[y]"), named.task)
    data = data.rename({"relu_seed": "seed"})
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


def _outputs(name: str, epochs: np.ndarray, losses: np.ndarray, outputs: np.ndarray, task: Task) -> xarray.Dataset:
    """The losses and alignments of all runs, and the outputs of the typical one."""
    axes = (f"{name}_seed", "epoch")
    data = xarray.Dataset({name: (axes, losses)}, {"epoch": epochs})
    data[f"{name}_output"] = (("epoch", "example", "property"), outputs[typical(losses)])
    fit = linear_part(task)
    for kind, part in {"common": fit, "contextual": np.eye(len(fit)) - fit}.items():
        data[f"{name}_aligned_{kind}"] = (axes, alignment(part @ outputs, part @ task.targets["y"]))
    return data


@float64
def _published(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Gated networks trained as in the published code: pathways are switched on by hand at two epochs.

    The common pathway has four parts in seven of the second layer and each contextual one has one part. Up to the first
    epoch nothing is trained, then the common pathway on its own loss, and from the second epoch on also the others, on
    what it leaves; the shared first layer descends both losses.
    """
    inputs, targets = named.task.inputs["x"].T, named.task.targets["y"].T
    part, context = settings.hidden // (MODULES + CONTEXTS), named.groups["context"]
    common, rate = MODULES * part, settings.paper_rate
    gates = np.repeat([context != c for c in range(CONTEXTS)], part, axis=0)
    neurons = common + len(gates)
    shapes = [(neurons, len(inputs)), (neurons, neurons), (len(targets), common), (len(targets), len(gates))]

    def outputs(weights: Matrices) -> tuple[jax.Array, jax.Array]:
        first, second, read_common, read_contextual = weights
        received = second @ (first @ inputs)
        return read_common @ received[:common], read_contextual @ (gates * received[common:])

    def descended(weights: Matrices, on: jax.Array) -> jax.Array:
        alone, others = outputs(weights)
        left = targets - jax.lax.stop_gradient(alone)
        return 0.5 * (jnp.sum((alone - targets) ** 2) + on * jnp.sum((others - left) ** 2))

    def step(epoch: jax.Array, weights: Matrices) -> Matrices:
        gradient = jax.grad(descended)(weights, epoch >= settings.switched[1])
        speed = jnp.where(epoch >= settings.switched[0], rate, 0.0)
        return [w - speed * g for w, g in zip(weights, gradient, strict=True)]

    def record(weights: Matrices, epoch: jax.Array) -> tuple[Matrices, tuple[jax.Array, jax.Array]]:
        first, second, read_common, read_contextual = weights
        maps = [
            read_common @ second[:common],
            *(
                read_contextual[:, part * c : part * (c + 1)] @ second[common + part * c : common + part * (c + 1)]
                for c in range(CONTEXTS)
            ),
        ]
        alone, others = outputs(weights)
        after: Matrices = jax.lax.fori_loop(epoch, epoch + settings.every, step, weights)
        return after, (alone + others, jnp.array([jnp.linalg.norm(m @ first) for m in maps]))

    @jax.jit
    def follow(weights: Matrices) -> tuple[jax.Array, jax.Array]:
        return jax.lax.scan(record, weights, jnp.asarray(settings.epochs))[1]

    found = []
    for seed in range(settings.gated_seeds):
        random = np.random.default_rng([KEYS["published"], seed])
        drawn = [std * random.standard_normal(shape) for std, shape in zip(settings.stds, shapes, strict=True)]
        found.append([np.asarray(one) for one in follow(drawn)])
    seen, strengths = (np.array(one) for one in zip(*found, strict=True))  # (seeds, T, ...)
    losses = 0.5 * np.sum((seen - targets) ** 2, axis=(2, 3)) / len(context)
    data = _outputs("published", settings.epochs, losses, seen.swapaxes(2, 3), named.task)
    data["published_pathways"] = (("pathway", "published_seed", "epoch"), strengths.transpose(2, 0, 1))
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
    """The centers of four clusters of gate patterns, (4, N); zeros where there are fewer patterns than clusters."""
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
    data = _outputs("gated", settings.epochs, run.loss, run.values("outputs[y]"), named.task)
    data["gated_pathways"] = (("pathway", "gated_seed", "epoch"), np.array(strengths))
    data["theory"] = (("draw", "epoch"), forecast.losses)
    return data.assign_coords(pathway=[path.edges[-1][0] for path in paths])


def passed(network: ReLUNetwork, weights: Weights) -> float:
    """The share of what the first layer receives that its gates let through; one for a linear layer.

    Squared, and counted by the neurons' outgoing weights.
    """
    received = network.preactivations(weights)["h1"] * np.linalg.norm(weights["h1", "h2"], axis=0)
    return float(np.sum(received[received > 0] ** 2) / np.sum(received**2))
