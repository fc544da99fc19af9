"""P2 Fig 6: two hidden layers, in ReLU networks and in the gated network that shares its first layer."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.architecture import Architecture
from neuralrace.axes import Weights
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.gates import Gates
from neuralrace.plotting import COLOURS, heat_map, label_axes, new_figure, theory_line
from neuralrace.problem import Problem
from neuralrace.tasks import NamedTask
from neuralrace.theory import predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

CONTEXTS = 3
MODULES = CONTEXTS + 1
KEYS = {"relu": 0, "gated": 1, "theory": 1000}  # streams of initial weights that have nothing in common
SAMPLES = 31  # records of the gates that are clustered, evenly over the run
FLAT = 0.05 / 1000  # on a plateau the loss falls by at most 5 % in 1000 epochs,
LASTS = 1000  # for so many epochs
FALLEN = (0.75, 0.42, 0.22)  # of the first loss: between the plateaus of the gated network
ALIGNED = {"common": 500, "contextual": 12000}  # epochs at which the published network switches its pathways on
LAYER_COLOURS = {"h1": "linear", "h2": "untrained"}
PATHWAY_COLOURS = ("reference", "gated", "linear", "untrained")


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper, whose loss is a sum over the 24 examples: its rate is multiplied by their number.

    The paper has 100 seeds and 100 gated seeds. draws: of the forecast. shallow: networks with one hidden layer, with
    the parameters of P2 Fig 5.
    """

    seeds: int = 3
    gated_seeds: int = 3
    draws: int = 2
    hidden: int = 420
    paper_rate: float = 0.001
    std: float = 0.0006
    steps: int = 30000
    every: int = 100
    shallow_seeds: int = 3
    shallow_hidden: int = 700
    shallow_std: float = 0.005 / 700
    shallow_steps: int = 8000


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
    rate = settings.paper_rate * len(named.task)
    shallow = train(
        ReLUNetwork(named.task, hidden=(settings.shallow_hidden,)),
        initial.gaussian(settings.shallow_std),
        rate,
        settings.shallow_steps,
        seeds=settings.shallow_seeds,
        key=KEYS["relu"],
        every=max(settings.every // 4, 1),
    )
    data = xarray.Dataset({"shallow": (("shallow_seed", "shallow_epoch"), shallow.loss)})
    data["shallow_epoch"] = shallow.data["step"].values
    return xarray.merge([data, _relu(settings, named, rate), _gated(settings, named, rate)])


def _relu(settings: Settings, named: NamedTask, rate: float) -> xarray.Dataset:
    """Losses and gates of the ReLU networks, and the outputs of the typical one."""
    network = ReLUNetwork(named.task, hidden=(settings.hidden, settings.hidden))
    run = train(
        network,
        initial.gaussian(settings.std),
        rate,
        settings.steps,
        seeds=settings.seeds,
        key=KEYS["relu"],
        record=("gate_patterns", "outputs"),
        every=settings.every,
    )
    data = xarray.Dataset({"relu": (("seed", "epoch"), run.loss)}, {"epoch": run.data["step"].values})
    data["relu_output"] = (("epoch", "example", "property"), run.values("outputs[y]")[typical(run.loss)])
    for layer in LAYER_COLOURS:
        strength = reln.neuron_strengths(run, layer)
        on = run.values(f"gate_patterns[{layer}]")  # (seeds, records, examples, neurons)
        kinds = {"all": np.all(on, axis=2), "none": np.all(~on, axis=2), "pairs": np.mean(on, axis=2)}
        for kind, chosen in kinds.items():
            data[f"{layer}_{kind}"] = (("seed", "epoch"), chosen.mean(axis=-1))
            data[f"{layer}_{kind}_by_strength"] = (("seed", "epoch"), _weighted(chosen, strength))
    data["passed"] = ("seed", np.array([passed(network, run.weights(seed)) for seed in range(settings.seeds)]))
    data["context"] = ("example", named.groups["context"])
    return xarray.merge([data, _modules(run)])


def _modules(run: Trajectory) -> xarray.Dataset:
    """The modules of the second layer: of each run over all of its training, and of all runs at single moments."""
    every = max((len(run.time) - 1) // (SAMPLES - 1), 1)
    samples = reln.gate_samples(run, "h2", every)  # (seeds, records, neurons, examples)
    by_run = [_centroids(one) for one in samples]
    by_moment = [_centroids(samples[:, record]) for record in range(samples.shape[1])]
    return xarray.Dataset(
        {
            "run_modules": (("seed", "module", "example"), np.array(by_run)),
            "moment_modules": (("moment", "module", "example"), np.array(by_moment)),
        },
        coords={"moment": run.data["step"].values[::every]},
    )


def _centroids(samples: np.ndarray) -> np.ndarray:
    """The centres of four clusters of gate patterns, (4, N); zeros where there are fewer patterns than clusters."""
    packed = np.packbits(samples.reshape(-1, samples.shape[-1]), axis=1)
    patterns = len(np.unique(packed[packed.any(axis=1)], axis=0))
    found = reln.find_modules(samples, min(MODULES, patterns)).centroids
    return np.vstack([found, np.zeros((MODULES - len(found), samples.shape[-1]))])


def _gated(settings: Settings, named: NamedTask, rate: float) -> xarray.Dataset:
    """Losses and pathways of the gated networks, and their forecast from other draws of the same law."""
    problem, law = shared_first_layer(named, settings.hidden), initial.gaussian(settings.std)
    run = train(
        problem,
        law,
        rate,
        settings.steps,
        seeds=settings.gated_seeds,
        key=KEYS["gated"],
        record=("outputs", "path_singular_values"),
        every=settings.every,
    )
    forecast = predict(problem, law, run.time, key=KEYS["theory"], draws=settings.draws)
    paths = problem.architecture.paths()
    strengths = [np.linalg.norm(run.values(f"path_singular_values[{path}]"), axis=-1) for path in paths]
    return xarray.Dataset(
        {
            "gated": (("gated_seed", "epoch"), run.loss),
            "gated_output": (("epoch", "example", "property"), run.values("outputs[y]")[typical(run.loss)]),
            "pathways": (("pathway", "gated_seed", "epoch"), np.array(strengths)),
            "theory": (("draw", "epoch"), forecast.losses),
        },
        coords={"epoch": run.data["step"].values, "pathway": [path.edges[-1][0] for path in paths]},
    )


def _weighted(chosen: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The part of a network's strength that is with the chosen neurons; (seeds, records)."""
    return np.einsum("srn,sn->sr", chosen, strength) / strength.sum(axis=1)[:, None]


def passed(network: ReLUNetwork, weights: Weights) -> float:
    """The share of what the first layer receives that its gates let through; one for a linear layer.

    Squared, and counted by the neurons' outgoing weights.
    """
    received = network.preactivations(weights)["h1"] * np.linalg.norm(weights["h1", "h2"], axis=0)
    return float(np.sum(received[received > 0] ** 2) / np.sum(received**2))


def typical(losses: np.ndarray) -> int:
    """The run with the least L2 distance to the mean run, over all records (the rule of P2 Fig 6)."""
    return int(np.argmin(np.sum((losses - losses.mean(axis=0)) ** 2, axis=1)))


def typical_loss(data: xarray.Dataset, name: str) -> np.ndarray:
    """The loss of the typical run."""
    losses = data[name].values
    return losses[typical(losses)]


class Plateau(NamedTuple):
    """A stretch in which the loss hardly falls. place: the record at which it falls least."""

    place: int
    epoch: float
    loss: float


def plateaus(epoch: np.ndarray, loss: np.ndarray) -> list[Plateau]:
    """The plateaus of a curve, that of the start left out."""
    slope = np.abs(np.diff(np.log(loss)) / np.diff(epoch))
    found = []
    for flat, group in itertools.groupby(range(len(slope)), lambda i: slope[i] < FLAT):
        places = list(group)
        if flat and epoch[places[-1] + 1] - epoch[places[0]] >= LASTS:
            place = min(places, key=lambda i: float(slope[i]))
            found.append(Plateau(place, float(epoch[place]), float(loss[place])))
    return [plateau for plateau in found if plateau.loss < 0.99 * loss[0]]


def times_to(epoch: np.ndarray, losses: np.ndarray, level: float) -> np.ndarray:
    """When each run first comes down to a loss, by interpolation; NaN if never. losses: (runs, T)."""
    found = np.full(len(losses), np.nan)
    for run, loss in enumerate(losses):
        below = np.flatnonzero(loss <= level)
        if len(below) and below[0] > 0:
            i = int(below[0])
            share = (loss[i - 1] - level) / (loss[i - 1] - loss[i])
            found[run] = epoch[i - 1] + share * (epoch[i] - epoch[i - 1])
    return found


def drop_times(data: xarray.Dataset, name: str, epochs: str = "epoch") -> np.ndarray:
    """The epochs at which every run comes down to each of FALLEN, (runs, levels)."""
    losses, epoch = data[name].values, data[epochs].values
    return np.array([times_to(epoch, losses, level * float(losses[:, 0].mean())) for level in FALLEN]).T


def half_times(data: xarray.Dataset) -> np.ndarray:
    """The epoch at which each pathway first has half of the strength that it ends with; (pathways, runs)."""
    strength, epoch = data["pathways"].values, data["epoch"].values
    return np.array([[times_to(epoch, -run[None], -0.5 * run[-1])[0] for run in pathway] for pathway in strength])


def modules_found(data: xarray.Dataset, name: str) -> np.ndarray:
    """How many of the patterns of Fig 6a are among each set of modules."""
    context = data["context"].values
    wanted = {tuple(np.ones(len(context), dtype=bool)), *(tuple(context != c) for c in range(CONTEXTS))}
    return np.array([len(wanted & {tuple(row) for row in modules > 0.5}) for modules in data[name].values])


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure and its section say."""
    return [
        *_first_layer_claims(data),
        *_module_claims(data),
        *_loss_claims(data),
        *_spread_claims(data),
        *_pathway_claims(data),
        _forecast_claim(data),
    ]


def _listed(values: Iterable[float], form: str = ".3g") -> str:
    return ", ".join(format(float(value), form) for value in values)


def _first_layer_claims(data: xarray.Dataset) -> list[Claim]:
    later = np.flatnonzero(data["epoch"].values >= ALIGNED["common"])
    places = later[np.linspace(0, len(later) - 1, 5).astype(int)] if len(later) else np.array([-1])
    kinds = ("all", "none", "all_by_strength", "pairs_by_strength")
    every, silent, strong, pairs = (100 * data[f"h1_{kind}"].values.mean(axis=0)[places] for kind in kinds)
    moments = f"at epochs {_listed(data['epoch'].values[places], '.0f')}:"
    through = data["passed"].values
    return [
        Claim(
            "The first layer does not gate: all its neurons are on for all examples.",
            "P2 section 6",
            "paper",
            "at least 95 % of the neurons on for all examples at every moment shown, from epoch 500 on",
            f"{moments} {_listed(every)} %; on for no example {_listed(silent)} %",
            bool(every.min() >= 95),
            "refuted: 74 % at the most, between the first drop of the loss and the second, and below 1 % at the end",
        ),
        Claim(
            "Counted by strength the first layer does not gate.",
            "P2 section 6, by strength: ours",
            "ours",
            "neurons that are on for all examples have at least 95 % of the layer's strength at the end (norm of "
            "incoming times norm of outgoing weights), at every moment shown, from epoch 500 on",
            f"{moments} {_listed(strong)} %; by strength on for {_listed(pairs)} % of the examples",
            bool(strong.min() >= 95),
            "does not hold: 96 % between the first drop of the loss and the second, about 1 % at the end",
        ),
        Claim(
            "The first layer is used as a linear one.",
            "P2 section 6, by what passes: ours",
            "ours",
            "at the end the gates let through at least 95 % of what the layer receives (squared, counted by outgoing "
            "weights) in every run: neurons are off where they would receive little",
            f"{100 * through.min():.3g} to {100 * through.max():.3g} % in {len(through)} runs",
            bool(through.min() >= 0.95),
        ),
    ]


def _module_claims(data: xarray.Dataset) -> list[Claim]:
    runs, moments = modules_found(data, "run_modules"), modules_found(data, "moment_modules")
    when = data["moment"].values[moments == MODULES]
    return [
        Claim(
            "The modules of the second layer are one that is always open and three that are open in two contexts each.",
            "P2 section 6 and Fig 6a",
            "paper",
            "in most runs the four clusters of all gate patterns of the training have exactly these patterns",
            f"all four in {np.mean(runs == MODULES):.0%} of {len(runs)} runs; {np.median(runs):.0f} in the median run",
            bool(np.mean(runs == MODULES) > 0.5),
            "refuted: only the common module lasts; the others come to gate by halves of the items and by contexts",
        ),
        Claim(
            "For a time the modules of the second layer are these.",
            "P2 section 6: ours",
            "ours",
            "at some moment the four clusters of the gate patterns of all runs have exactly these patterns",
            f"at epochs {_listed(when, '.0f') or 'none'}; at most {moments.max()} of 4",
            bool(len(when)),
        ),
    ]


def _loss_claims(data: xarray.Dataset) -> list[Claim]:
    raw, epoch = apart(data, "gated", "relu"), data["epoch"].values
    relu, gated = (plateaus(epoch, typical_loss(data, name)) for name in ("relu", "gated"))
    levels = [np.array([plateau.loss for plateau in found]) for found in (relu, gated)]
    same = len(relu) == len(gated) > 0 and np.all(np.abs(levels[1] / levels[0] - 1) <= 0.1)
    drops = [drop_times(data, name).mean(axis=0) for name in ("relu", "gated")]
    since = [found[1:] - found[0] for found in drops]
    pairs = [(one, other) for other in gated for one in relu if abs(one.loss / other.loss - 1) <= 0.1]
    outputs = [_correlation(data, one.place, other.place) for one, other in pairs]
    return [
        Claim(
            "The typical ReLU network and the typical gated network have the same loss.",
            "P2 Fig 6b",
            "paper",
            "normalised L1 at most 0.05 and log10 gap at most 0.15, from the same law of initial weights, all pathways "
            "trained together from the start",
            _written(raw),
            _close(raw),
            "refuted: normalised L1 about 0.12; the gated network has no plateau where it is linear in the contexts, "
            "and falls behind at the end",
        ),
        Claim(
            "The plateaus of the loss are at the same levels.",
            "P2 section 6",
            "paper",
            "as many plateaus in both typical runs, levels within 10 %",
            f"ReLU {_listed(levels[0]) or 'none'}; gated {_listed(levels[1]) or 'none'}",
            bool(same),
            "refuted: the ReLU network has one more, the first at 2.75; the other three agree",
        ),
        Claim(
            "After the first drop of the loss the others follow at the same distance.",
            "P2 section 6 (relative timing)",
            "paper",
            f"epochs from {FALLEN[0]} of the first loss to {FALLEN[1]} and to {FALLEN[2]} within 10 %, mean over runs",
            f"first at {drops[0][0]:.0f} and {drops[1][0]:.0f}; then ReLU {_listed(since[0], '.0f')}, gated "
            f"{_listed(since[1], '.0f')}",
            bool(np.all(np.abs(since[1] / since[0] - 1) <= 0.1)),
            "refuted: the gated network starts sooner and then takes 10 and 16 to 18 % longer",
        ),
        Claim(
            "At the plateaus that both have the outputs agree.",
            "P2 section 6",
            "paper",
            "correlation over examples and properties at least 0.95, at all plateaus whose levels are within 10 %",
            _listed(outputs, ".3f") or "no plateau in common",
            min(outputs, default=0.0) >= 0.95,
        ),
    ]


def apart(data: xarray.Dataset, one: str, other: str) -> Agreement:
    """The distance between the typical runs of two kinds."""
    epoch = data["epoch"].values
    return agreement(Line(epoch, typical_loss(data, one)), Line(epoch, typical_loss(data, other)))


def _close(found: Agreement) -> bool:
    return found.normalised_l1 <= 0.05 and found.log10_gap <= 0.15


def _written(found: Agreement) -> str:
    return f"normalised L1 {found.normalised_l1:.3f}, log10 gap {found.log10_gap:.3f}"


def _correlation(data: xarray.Dataset, relu: int, gated: int) -> float:
    pair = data["relu_output"].values[relu].ravel(), data["gated_output"].values[gated].ravel()
    return float(np.corrcoef(*pair)[0, 1])


def _spread_claims(data: xarray.Dataset) -> list[Claim]:
    names = {"relu": "epoch", "gated": "epoch", "shallow": "shallow_epoch"}
    times = {name: drop_times(data, name, epochs) for name, epochs in names.items()}
    spread = {name: found.std(axis=0, ddof=1 if len(found) > 1 else 0) for name, found in times.items()}
    relative = {name: spread[name] / found.mean(axis=0) for name, found in times.items()}
    more = {name: _pooled(relative[name] / relative["shallow"]) for name in ("relu", "gated")}
    ratio = _pooled(spread["gated"] / spread["relu"])
    levels = f"the epochs to come down to {_listed(FALLEN)} of the first loss"
    return [
        Claim(
            "With two hidden layers the loss varies from run to run, with one it does not.",
            "P2 section 6",
            "paper",
            f"over runs {levels} have at least 3 times the relative spread of networks with one hidden layer, in the "
            "geometric mean over the levels, ReLU and gated networks alike",
            f"{more['relu']:.2g} and {more['gated']:.2g} times; standard deviation over mean: ReLU "
            f"{_listed(relative['relu'])}; gated {_listed(relative['gated'])}; one hidden layer "
            f"{_listed(relative['shallow'])}",
            min(more.values()) >= 3,
        ),
        Claim(
            "ReLU and gated networks vary alike.",
            "P2 section 6 and Fig 6",
            "paper",
            f"over runs the standard deviations of {levels} are within a factor 2, in the geometric mean over levels",
            f"ratio {ratio:.2g} with {len(data['relu'])} and {len(data['gated'])} runs; ReLU "
            f"{_listed(spread['relu'], '.0f')}; gated {_listed(spread['gated'], '.0f')}",
            0.5 <= ratio <= 2,
        ),
    ]


def _pooled(ratios: np.ndarray) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def _pathway_claims(data: xarray.Dataset) -> list[Claim]:
    times = half_times(data)
    common, contextual = np.median(times[0]), np.median(times[1:])
    expected = (ALIGNED["common"], common), (ALIGNED["contextual"], contextual)
    first = next(iter(plateaus(data["epoch"].values, typical_loss(data, "gated"))), None)
    reached = (data["pathways"][:, :, first.place if first else -1] / data["pathways"][:, :, -1]).values.mean(axis=1)
    later = np.mean(times[1:] > times[0])
    return [
        Claim(
            "The pathways become active in stages: the common one, then the contextual ones.",
            "P2 section 6",
            "paper",
            "at the first plateau of the loss contextual pathways have less than a tenth of their last strength, and "
            "in every run each comes to half of it later than the common one",
            f"{_listed(100 * reached[1:], '.0f')} %, the common one {100 * reached[0]:.0f} %; {100 * later:.0f} % of "
            "them come to half of it later",
            bool(reached[1:].max() < 0.1 and later == 1),
            "refuted: trained together from the same law all pathways grow at every drop of the loss, at the first to "
            "48 or 49 % of their last strength",
        ),
        Claim(
            "The common pathway aligns around epoch 500, the contextual ones around epoch 12000.",
            "P2 section 6 (switched on by hand there)",
            "paper",
            "the median epochs of half strength are within a factor 2 of these, all trained together from the start",
            f"{common:.0f} and {contextual:.0f}",
            all(epoch / 2 <= found <= 2 * epoch for epoch, found in expected),
            "refuted: nothing is learned before about epoch 4400, when all pathways begin together",
        ),
    ]


def _forecast_claim(data: xarray.Dataset) -> Claim:
    found = apart(data, "theory", "gated")
    theory, gated = data["theory"].values, data["gated"].values
    meet = (theory.min(axis=0) <= 1.01 * gated.max(axis=0)) & (gated.min(axis=0) <= 1.01 * theory.max(axis=0))
    return Claim(
        "The theory forecasts the gated networks from the law of their initial weights.",
        "ours: P1 eqs 3-4",
        "ours",
        "normalised L1 at most 0.05 and log10 gap at most 0.15 between typical forecast and typical run, drawn apart",
        f"{_written(found)}; the range of {len(theory)} forecasts meets that of {len(gated)} runs, to 1 %, at "
        f"{100 * meet.mean():.0f} % of all moments",
        _close(found),
    )


def draw(data: xarray.Dataset) -> Figure:
    """Losses, gates and pathways over time; modules, over a run and at the moment nearest to Fig 6a; outputs."""
    figure, axes = new_figure(3, rows=2, width=4.6)
    epoch = data["epoch"].values
    for name, label in (("relu", "ReLU"), ("gated", "gated")):
        _runs(axes[0, 0], data, name, data[name].values, COLOURS[name], label)
    axes[0, 0].plot(epoch, data["theory"].values.T, color=COLOURS["theory"], linewidth=0.6, alpha=0.3)
    theory_line(axes[0, 0], epoch, typical_loss(data, "theory"), "theory, gated")
    label_axes(axes[0, 0], "b  every run, the typical ones bold", "epoch", "loss")
    for layer, colour in LAYER_COLOURS.items():
        for kind, style, what in (("all", "-", "neurons"), ("all_by_strength", "--", "strength")):
            share = data[f"{layer}_{kind}"].values.mean(axis=0)
            axes[0, 1].plot(epoch, share, style, color=COLOURS[colour], label=f"layer {layer[1]}, {what}")
    label_axes(axes[0, 1], "ReLU networks: on for all examples", "epoch", "share")
    for place, (name, values) in enumerate(zip(data["pathway"].values, data["pathways"].values, strict=True)):
        label = "common" if name == "common" else f"all but context {place}"
        _runs(axes[0, 2], data, "gated", values, COLOURS[PATHWAY_COLOURS[place]], label)
    label_axes(axes[0, 2], "gated networks: pathways", "epoch", "strength (Frobenius norm)")
    _draw_modules(data, axes[1])
    return figure


def _runs(axis: Axes, data: xarray.Dataset, kind: str, values: np.ndarray, colour: str, label: str) -> None:
    """Every run faint, the typical one bold; values are (runs, T)."""
    epoch, bold = data["epoch"].values, typical(data[kind].values)
    axis.plot(epoch, values.T, color=colour, linewidth=0.6, alpha=0.3)
    axis.plot(epoch, values[bold], color=colour, linewidth=1.8, label=label)


def _draw_modules(data: xarray.Dataset, axes: Iterable[Axes]) -> None:
    whole, single, outputs = axes
    nearest = int(np.argmax(modules_found(data, "moment_modules")))
    moment, block = int(data["moment"][nearest]), len(data["context"]) // CONTEXTS
    shown = {
        whole: (data["run_modules"].values[typical(data["relu"].values)], "modules of layer 2, typical run"),
        single: (data["moment_modules"].values[nearest], f"modules of layer 2, all runs, epoch {moment}"),
    }
    for axis, (values, title) in shown.items():
        heat_map(axis, values, title, horizontal="context", vertical="module", value="share on", blocks=(1, block))
    found = plateaus(data["epoch"].values, typical_loss(data, "gated"))
    place = found[len(found) // 2].place if found else -1
    error = (data["relu_output"] - data["gated_output"]).values[place]
    title = f"ReLU minus gated output, epoch {int(data['epoch'][place])}"
    heat_map(outputs, error.T, title, horizontal="context", vertical="block", value="difference", blocks=(15, block))


EXPERIMENT = Experiment(
    name="jarvis2025-fig6",
    title="Two hidden layers: gates, spread and the shared first layer",
    source="P2 section 6 and Fig 6",
    full=Settings(),
    tiny=Settings(
        seeds=2,
        gated_seeds=2,
        hidden=16,
        paper_rate=0.002,
        std=0.2,
        steps=200,
        every=20,
        shallow_seeds=2,
        shallow_hidden=20,
        shallow_std=0.05,
        shallow_steps=100,
    ),
    compute=compute,
    claims=claims,
    draw=draw,
)
