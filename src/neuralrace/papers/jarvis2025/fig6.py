"""P2 Fig 6: two hidden layers, in ReLU networks and in the gated network that shares its first layer."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import panels
from neuralrace.papers.claims import Claims, enumerated
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.jarvis2025 import _contextual as p2

CONTEXTS, MODULES = 3, 4
KEYS = {"relu": 0, "gated": 1, "published": 2, "theory": 1000}  # streams of initial weights that have nothing in common
SAMPLES = 31  # records of the gates that are clustered, evenly over the run
PLATEAU = {"slope": 0.05 / 1000, "lasts": 1000}  # during these epochs the loss falls by at most 5 % in 1000
FALLEN = (0.75, 0.42, 0.22)  # of the first loss: between the plateaus of the gated network
ALIGNED = {"common": 500, "contextual": 12000}  # epochs at which the published network switches its pathways on
ON = 95  # per cent: as good as all
PUBLISHED = "as published (pathways are switched on by hand at these epochs)"
START = "with all pathways trained from the start and from one scale"
KINDS = {"relu": "ReLU", "published": "gated as published", "gated": "gated, trained from the start"}
ROWS = {"relu": "relu", "published": "linear", "gated": "gated"}  # kind -> its color


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
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
    def shallow(self) -> p2.ContextualSettings:
        """The parameters of the networks with one hidden layer."""
        parts = (self.shallow_std, self.shallow_steps, max(self.every // 4, 1))
        return p2.ContextualSettings(self.shallow_seeds, self.shallow_hidden, self.width, self.paper_rate, *parts)


def shared_first_layer(named: nr.tasks.NamedTask, hidden: int) -> nr.Problem:
    """P2 Fig 6a: a first layer that is always on, then a common pathway and one per context, closed in it.

    The pathways have the neurons of the second layer in equal parts.
    """
    context = named.groups["context"]
    gates = {f"without{c}": (context != c).astype(float) for c in range(CONTEXTS)}
    pathways = ("common", *gates)
    nodes = {"x": named.task.inputs["x"].shape[1], "h1": hidden, **dict.fromkeys(pathways, hidden // MODULES)}
    nodes["y"] = named.task.targets["y"].shape[1]
    edges = [("x", "h1"), *(("h1", pathway) for pathway in pathways), *((pathway, "y") for pathway in pathways)]
    return nr.Problem(nr.Architecture(nodes, edges), named.task, nr.Gates(nodes=gates))


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks with two hidden layers and with one, and gated ones in two ways; forecast one of these.

    passed: the share of what the first layer receives that its gates let through, squared and counted by the neurons'
    outgoing weights; one for a linear layer. run_modules, moment_modules: the modules of the second layer, of each run
    over all of its training, and of all runs at single moments.
    """
    named = nr.tasks.contextual(CONTEXTS, "hierarchy")
    shallow = settings.shallow.relu(named.task, key=KEYS["relu"])
    network = nr.ReLUNetwork(named.task, hidden=(settings.hidden, settings.hidden))
    wanted = ("gate_patterns", "outputs")
    run = settings.train(network, seeds=settings.seeds, key=KEYS["relu"], record=wanted)
    data = outputs("relu", settings.epochs, run.loss, run.values("outputs[y]"), named.task)
    data = data.rename({"relu_seed": "seed"}).assign(context=("example", named.groups["context"]))
    data["shallow"] = (("shallow_seed", "shallow_epoch"), shallow.loss)
    for layer in ("h1", "h2"):
        strength = nr.reln.neuron_strengths(run, layer)
        on = run.values(f"gate_patterns[{layer}]")  # (seeds, records, examples, neurons)
        kinds = {"all": np.all(on, axis=2), "none": np.all(~on, axis=2), "pairs": np.mean(on, axis=2)}
        for kind, chosen in kinds.items():
            data[f"{layer}_{kind}"] = (("seed", "epoch"), chosen.mean(axis=-1))
            part = np.einsum("srn,sn->sr", chosen, strength) / strength.sum(axis=1)[:, None]
            data[f"{layer}_{kind}_by_strength"] = (("seed", "epoch"), part)
    passed = []
    for seed in range(settings.seeds):
        weights = run.weights(seed)
        received = network.preactivations(weights)["h1"] * np.linalg.norm(weights["h1", "h2"], axis=0)
        passed.append(np.sum(received[received > 0] ** 2) / np.sum(received**2))
    data["passed"] = ("seed", np.array(passed))
    every = max((len(run.time) - 1) // (SAMPLES - 1), 1)
    samples = nr.reln.gate_samples(run, "h2", every)  # (seeds, records, neurons, examples)
    data["run_modules"] = (("seed", "module", "example"), np.array([centers(one) for one in samples]))
    by_moment = [centers(samples[:, record]) for record in range(samples.shape[1])]
    data["moment_modules"] = (("moment", "module", "example"), np.array(by_moment))
    data = data.assign_coords(moment=run.data["step"].values[::every], shallow_epoch=shallow.data["step"].values)
    problem, wanted = shared_first_layer(named, settings.hidden), ("outputs", "path_singular_values")
    run = settings.train(problem, seeds=settings.gated_seeds, key=KEYS["gated"], record=wanted)
    forecast = nr.predict(problem, settings.initial, run.time, key=KEYS["theory"], draws=settings.draws)
    paths = problem.architecture.paths()
    strengths = [np.linalg.norm(run.values(f"path_singular_values[{path}]"), axis=-1) for path in paths]
    gated = outputs("gated", settings.epochs, run.loss, run.values("outputs[y]"), named.task)
    gated["gated_pathways"] = (("pathway", "gated_seed", "epoch"), np.array(strengths))
    gated["theory"] = (("draw", "epoch"), forecast.losses)
    gated = gated.assign_coords(pathway=[path.edges[-1][0] for path in paths])
    return xarray.merge([data, gated, published(settings, named)])


def outputs(name: str, epochs: np.ndarray, losses: np.ndarray, found: np.ndarray, task: nr.Task) -> xarray.Dataset:
    """The losses and alignments of all runs, and the outputs of the typical one."""
    axes, fit = (f"{name}_seed", "epoch"), p2.linear_part(task)
    data = xarray.Dataset({name: (axes, losses)}, {"epoch": epochs})
    data[f"{name}_output"] = (("epoch", "example", "property"), found[nr.analysis.typical(losses)])
    for kind, part in {"common": fit, "contextual": np.eye(len(fit)) - fit}.items():
        data[f"{name}_aligned_{kind}"] = (axes, nr.analysis.alignment(part @ found, part @ task.targets["y"]))
    return data


def centers(samples: np.ndarray) -> np.ndarray:
    """The centers of four clusters of gate patterns, (4, N); zeros where there are fewer patterns than clusters."""
    found = nr.reln.find_modules(samples, MODULES).gates
    return np.vstack([found, np.zeros((MODULES - len(found), samples.shape[-1]))])


@nr.float64
def published(settings: Settings, named: nr.tasks.NamedTask) -> xarray.Dataset:
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

    def forward(weights: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, second, read_common, read_contextual = weights
        received = second @ (first @ inputs)
        return read_common @ received[:common], read_contextual @ (gates * received[common:])

    def descended(weights: list[jax.Array], on: jax.Array) -> jax.Array:
        alone, others = forward(weights)
        left = targets - jax.lax.stop_gradient(alone)
        return 0.5 * (jnp.sum((alone - targets) ** 2) + on * jnp.sum((others - left) ** 2))

    def step(epoch: jax.Array, weights: list[jax.Array]) -> list[jax.Array]:
        gradient = jax.grad(descended)(weights, epoch >= settings.switched[1])
        speed = jnp.where(epoch >= settings.switched[0], rate, 0.0)
        return [w - speed * g for w, g in zip(weights, gradient, strict=True)]

    def record(weights: list[jax.Array], epoch: jax.Array) -> tuple[list[jax.Array], tuple[jax.Array, jax.Array]]:
        first, second, read_common, read_contextual = weights
        rows = [slice(common + part * c, common + part * (c + 1)) for c in range(CONTEXTS)]
        maps = [read_common @ second[:common]]
        maps += [read_contextual[:, part * c : part * (c + 1)] @ second[one] for c, one in enumerate(rows)]
        alone, others = forward(weights)
        after: list[jax.Array] = jax.lax.fori_loop(epoch, epoch + settings.every, step, weights)
        return after, (alone + others, jnp.array([jnp.linalg.norm(m @ first) for m in maps]))

    follow = jax.jit(lambda weights: jax.lax.scan(record, weights, jnp.asarray(settings.epochs))[1])
    found = []
    for seed in range(settings.gated_seeds):
        random = np.random.default_rng([KEYS["published"], seed])
        drawn = [std * random.standard_normal(shape) for std, shape in zip(settings.stds, shapes, strict=True)]
        found.append([np.asarray(one) for one in follow(drawn)])
    seen, strengths = (np.array(one) for one in zip(*found, strict=True))  # (seeds, T, ...)
    losses = 0.5 * np.sum((seen - targets) ** 2, axis=(2, 3)) / len(context)
    data = outputs("published", settings.epochs, losses, seen.swapaxes(2, 3), named.task)
    data["published_pathways"] = (("pathway", "published_seed", "epoch"), strengths.transpose(2, 0, 1))
    return data


def typical_loss(data: xarray.Dataset, name: str) -> np.ndarray:
    """The loss of the typical run."""
    return np.asarray(data[name].values[nr.analysis.typical(data[name].values)])


def typical_plateaus(data: xarray.Dataset, name: str) -> list[nr.analysis.Plateau]:
    """The plateaus of the typical run."""
    return nr.analysis.plateaus(data["epoch"].values, typical_loss(data, name), **PLATEAU)


def drop_times(data: xarray.Dataset, name: str, epochs: str = "epoch") -> np.ndarray:
    """The epochs at which every run comes down to each of FALLEN, (runs, levels); NaN where it does not."""
    losses = data[name].values
    levels = np.array(FALLEN) * losses[:, 0].mean()
    found = nr.analysis.time_to(data[epochs].values, np.repeat(losses[:, None], len(FALLEN), axis=1), levels)
    return np.where(np.isfinite(found), found, np.nan)


def modules_found(data: xarray.Dataset, name: str) -> np.ndarray:
    """How many of the patterns of Fig 6a are among each set of modules."""
    wanted = p2.text_patterns(data["context"].values)
    return np.array([len(wanted & p2.as_set(modules)) for modules in data[name].values])


def level_gaps(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """How far the level of each plateau of two networks is from the nearest level of the other network, in per cent."""
    return {
        f"{name} {level:.3g}": float(100 * np.min(np.abs(level / there - 1), initial=np.inf))
        for name, here, there in (("ReLU", one, other), ("gated", other, one))
        for level in here
    }


def between(data: xarray.Dataset, one: str, other: str) -> nr.analysis.Agreement:
    """The distance between the typical runs of two kinds."""
    return p2.apart(data["epoch"].values, typical_loss(data, one), typical_loss(data, other))


def claims(data: xarray.Dataset) -> Claims:
    """What the figure and its section say."""
    claim = Claims()
    layer_claims(claim, data)
    loss_claims(claim, data)
    pathway_claims(claim, data)
    theory, gated = data["theory"].values, data["gated"].values
    meet = (theory.min(axis=0) <= 1.01 * gated.max(axis=0)) & (gated.min(axis=0) <= 1.01 * theory.max(axis=0))
    text = "The theory forecasts the gated networks from their initializer, drawn apart."
    claim.finding("after P1 eqs 3-4, typical forecast and typical run", text, "b")
    p2.same_losses(claim, between(data, "theory", "gated"))
    what = f"moments at which the range of {len(theory)} forecasts meets that of {len(gated)} runs, to 1 %,"
    claim.at_least(what, 100 * meet.mean(), 90, " %")
    return claim


def layer_claims(claim: Claims, data: xarray.Dataset) -> None:
    """What the neurons of both layers gate by."""
    later = np.flatnonzero(data["epoch"].values >= ALIGNED["common"])
    places = later[np.linspace(0, len(later) - 1, 5).astype(int)] if len(later) else np.array([-1])
    kinds = ("all", "none", "all_by_strength", "pairs_by_strength")
    every, silent, strong, pairs = (100 * data[f"h1_{kind}"].values.mean(axis=0)[places] for kind in kinds)
    moments = f"at epochs {enumerated(data['epoch'].values[places], '.0f')}"
    text = "All neurons of the first layer are active for all datapoints."
    claim.paper("P2 section 6, of single neurons", text, "A")
    claim.at_least(f"share of neurons that are, {moments},", every, ON, " %")
    claim.detail(f"on for none {enumerated(silent)} %")
    claim.fails("74 % at the most, between the first drop of the loss and the second, and below 1 % at the end")
    text = "Counted by strength they are."
    claim.finding("after P2 section 6: norm of incoming times norm of outgoing weights at the end", text, "A")
    claim.at_least(f"share of strength in neurons that are active for all datapoints, {moments},", strong, ON, " %")
    claim.detail(f"by strength on for {enumerated(pairs)} % of the datapoints")
    claim.fails("96 % between the first drop of the loss and the second, about 1 % at the end")
    text = "The ReLU network does not use the first layer for gating; it is then used as a linear layer."
    claim.paper("P2 section 6, by what its gates let through at the end", text, "A")
    what = "share of what the layer receives, squared and counted by outgoing weights, in each run,"
    claim.at_least(what, 100 * data["passed"].values, ON, " %")
    runs, found = modules_found(data, "run_modules"), modules_found(data, "moment_modules")
    when = data["moment"].values[found == MODULES]
    claim.paper(
        "P2 section 6 and Fig 6a",
        "The second layer has a common pathway and contextual pathways that are active in two out of the three "
        "contexts.",
        "a",
    )
    what = f"runs in which four clusters of all gate patterns of the training are these, of {len(runs)},"
    claim.at_least(what, 100 * np.mean(runs == MODULES), 51, " %")
    claim.detail(f"of the four patterns {np.median(runs):.0f} in the median run")
    claim.fails("only the common module lasts; the others come to gate by halves of the items and by contexts")
    claim.finding("after P2 section 6", "For a time the modules of the second layer are these.", "a")
    claim.at_least("moments at which four clusters of the gate patterns of all runs are these", len(when), 1)
    claim.detail(f"epochs {enumerated(when, '.0f')}")


def loss_claims(claim: Claims, data: xarray.Dataset) -> None:
    """Losses, their plateaus and drops, and how runs vary."""
    plateaus_of = {name: typical_plateaus(data, name) for name in KINDS}
    levels = {name: np.array([plateau.loss for plateau in found]) for name, found in plateaus_of.items()}
    drops = {name: drop_times(data, name) for name in KINDS}
    since = {name: found.mean(axis=0)[1:] - found.mean(axis=0)[0] for name, found in drops.items()}
    late = {name: 100 * np.abs(since[name] / since["relu"] - 1) for name in ("published", "gated")}
    text = "We see close agreement between the ReLU network and GDLN stereotypical trajectories."
    claim.paper(f"P2 section 6 and Fig 6b, {PUBLISHED}", text, "b")
    p2.same_losses(claim, between(data, "published", "relu"))
    claim.detail(f"{START} {p2.numbers(between(data, 'gated', 'relu'))}")
    claim.paper(f"P2 section 6, {PUBLISHED}", "The positions of the plateaus in loss are all consistent.", "b")
    what = "distance of the level of each plateau from the nearest of the other network"
    claim.at_most(what, level_gaps(levels["relu"], levels["published"]), 10, " %")
    claim.detail(f"{START} the gated network has {enumerated(levels['gated'])}")
    claim.fails("three of four agree, to 0.1 %; the ReLU network's at 2.12 and the gated one's at 0.41 do not")
    text = "The relative timing of the drops in loss is consistent following the alignment."
    claim.paper(f"P2 section 6, {PUBLISHED}", text, "b")
    what = f"epochs from {FALLEN[0]} of the first loss to {FALLEN[1]} and {FALLEN[2]}, mean over runs, differ by"
    claim.at_most(what, late["published"], 10, " %")
    shown = "; ".join(f"{KINDS[name]} {enumerated(found.mean(axis=0), '.0f')}" for name, found in drops.items())
    claim.detail(f"all three at {shown}; {START} by {enumerated(late['gated'])} %")
    text = "At plateaus in the loss trajectories we see exact agreement between the outputs."
    claim.paper(f"P2 section 6, {PUBLISHED}, at the plateaus that both have", text, "C")
    relu, gated = data["relu_output"].values, data["published_output"].values
    correlated = [
        float(np.corrcoef(relu[one.place].ravel(), gated[other.place].ravel())[0, 1])
        for other in plateaus_of["published"]
        for one in plateaus_of["relu"]
        if abs(one.loss / other.loss - 1) <= 0.1
    ]
    claim.at_least("correlation over examples and properties", correlated, 0.99, form=".3f")
    claim.finding("after P2 section 6 and Fig 6b", f"The trajectories agree {START}.", "b")
    p2.same_losses(claim, between(data, "gated", "relu"))
    claim.fails(
        "normalized L1 about 0.12; the gated network has no plateau where it is linear in the "
        "contexts, and falls behind at the end"
    )
    names = {"relu": "epoch", "published": "epoch", "shallow": "shallow_epoch"}
    times = {name: drop_times(data, name, epochs) for name, epochs in names.items()}
    spread = {name: found.std(axis=0, ddof=1 if len(found) > 1 else 0) for name, found in times.items()}
    relative = {name: spread[name] / found.mean(axis=0) for name, found in times.items()}
    what = f"the epochs to come down to {enumerated(FALLEN)} of the first loss"
    claim.paper(
        "P2 section 6",
        "There is now variance in the trajectories of both networks, which was not the case for the "
        "single-hidden-layer architectures.",
        "b",
    )
    pooled = {n: np.exp(np.mean(np.log(relative[n] / relative["shallow"]))) for n in ("relu", "published")}
    claim.at_least(f"relative spread of {what}, over that with one hidden layer, in the geometric mean,", pooled, 3)
    shown = "; ".join(f"{name} {enumerated(relative[name])} in {len(times[name])} runs" for name in names)
    claim.detail(f"standard deviation over mean: {shown}")
    claim.paper("P2 section 6 and Fig 6", "We also see the same variance profiles across the various runs.", "b")
    ratio = np.exp(np.mean(np.log(spread["published"] / spread["relu"])))
    claim.within(f"standard deviations of {what}, gated over ReLU, in the geometric mean,", ratio, (0.5, 2))
    claim.detail(f"ReLU {enumerated(spread['relu'], '.0f')}; gated {enumerated(spread['published'], '.0f')}")


def pathway_claims(claim: Claims, data: xarray.Dataset) -> None:
    """When the pathways of the gated network, as published, become active."""
    epoch, strength = data["epoch"].values, data["published_pathways"].values
    half = nr.analysis.time_to(epoch, -strength, -0.5 * strength[..., -1])
    first = next(iter(typical_plateaus(data, "published")), None)
    percent = 100 * (strength[:, :, first.place if first else -1] / strength[:, :, -1]).mean(axis=1)
    text = "Pathways within the GDLN become active in stages: the common pathway, then the contextual ones."
    claim.paper(f"P2 section 6, {PUBLISHED}", text, "B")
    what = "of their last strength contextual pathways have at the first plateau"
    claim.at_most(what, percent[1:], 10, " %", form=".0f")
    claim.at_least("of them come to half of it later than the common one", 100 * np.mean(half[1:] > half[0]), 100, " %")
    claim.detail(f"the common one {percent[0]:.0f} %")
    text = "The common pathway aligns around epoch 500, while the contextual pathways only appear at epoch 12000."
    claim.paper(f"P2 section 6, {PUBLISHED}", text, "B")
    parts = {kind: data[f"published_aligned_{kind}"].values for kind in ALIGNED}
    when, fully = (
        {kind: np.median(nr.analysis.time_to(epoch, -part, -level)) for kind, part in parts.items()}
        for level in (0.5, 0.9)
    )
    over = {kind: found / ALIGNED[kind] for kind, found in when.items()}
    claim.within("outputs aligned by half, median run, over these epochs,", over, (0.5, 2))
    claim.detail(f"at {enumerated(when, '.0f')}; to nine tenths at {enumerated(fully, '.0f')}")
    claim.fails("of the contextual ones; the common one is switched on at epoch 500, and half aligned near 2900")


def draw(data: xarray.Dataset) -> Figure:
    """Losses, gates and pathways over time; modules, over a run and at the moment nearest to Fig 6a; outputs."""
    letters = ("a", "b", "A", "B", "B", "a", "a", "C")
    figure, (network, loss, gates, by_hand, together, *modules, outputs) = panels(*letters, height=3.9)
    epoch, colors, label_axes = data["epoch"].values, nr.plotting.COLORS, nr.plotting.label_axes
    architecture = shared_first_layer(nr.tasks.contextual(CONTEXTS, "hierarchy"), Settings().hidden).architecture
    nr.plotting.draw_network(network, architecture, "the gated network: a first layer that all pathways share")
    draw_losses(loss, data)
    for layer, color in (("h1", "linear"), ("h2", "untrained")):
        for kind, width, what in (("all", 1.8, "neurons"), ("all_by_strength", 0.8, "strength")):
            share = data[f"{layer}_{kind}"].values.mean(axis=0)
            gates.plot(epoch, share, color=colors[color], linewidth=width, label=f"layer {layer[1]}, {what}")
    label_axes(gates, "the first layer gates after all: few neurons are on for all examples", "epoch", "share")
    for axis, kind, title in (
        (by_hand, "published", "as published the pathways are switched on one after the other"),
        (together, "gated", "trained from the start all gated pathways grow together"),
    ):
        for place, color in enumerate(("reference", "gated", "linear", "untrained")):
            label = f"all but context {place}" if place else "common"
            every_run(axis, data, kind, data[f"{kind}_pathways"].values[place], colors[color], label)
        label_axes(axis, title, "epoch", "strength (Frobenius norm)")
    by_run, by_moment = (modules_found(data, name) for name in ("run_modules", "moment_modules"))
    bold, nearest = nr.analysis.typical(data["relu"].values), int(np.argmax(by_moment))
    block, moment = len(data["context"]) // CONTEXTS, int(data["moment"][nearest])
    for axis, values, found, where in (
        (modules[0], data["run_modules"].values[bold], by_run[bold], "a whole run"),
        (modules[1], data["moment_modules"].values[nearest], by_moment[nearest], f"all runs at epoch {moment}"),
    ):
        title = f"{found} of {MODULES} modules are those of the text: layer 2, {where}"
        nr.plotting.heat_map(axis, values, title, "context", "module", "share on", blocks=(1, block))
    plateaus = typical_plateaus(data, "published")
    place = plateaus[len(plateaus) // 2].place if plateaus else -1
    error = (data["relu_output"] - data["published_output"]).values[place]
    title = f"outputs agree at a plateau: ReLU less gated, epoch {int(data['epoch'][place])}"
    nr.plotting.heat_map(outputs, error.T, title, "context", "block", "difference", blocks=(15, block))
    return figure


def draw_losses(axis: Axes, data: xarray.Dataset) -> None:
    """Every run, typical ones bold; below, how far typical gated ones are from ReLU, and theory from its runs."""
    epoch, curves = data["epoch"].values, {name: typical_loss(data, name) for name in (*KINDS, "theory")}
    for name, color in ROWS.items():
        every_run(axis, data, name, data[name].values, nr.plotting.COLORS[color], KINDS[name])
    for one in data["theory"].values:
        nr.plotting.theory_line(axis, epoch, one, None, faint=True)
    nr.plotting.theory_line(axis, epoch, curves["theory"], "theory of these; below, from them")
    nr.plotting.label_axes(axis, "every run, typical ones bold", "epoch", "loss")
    pairs: Any = (("linear", "published", "relu"), ("gated", "gated", "relu"), ("theory", "theory", "gated"))
    gaps = [(kind, np.log10(curves[one] / curves[other])) for kind, one, other in pairs]
    nr.plotting.difference_strip(axis, epoch, gaps, p2.LOG10)


def every_run(axis: Axes, data: xarray.Dataset, kind: str, values: np.ndarray, color: str, label: str) -> None:
    """Every run faint, the typical one bold; values are (runs, T)."""
    epoch, bold = data["epoch"].values, nr.analysis.typical(data[kind].values)
    axis.plot(epoch, values.T, color=color, linewidth=0.6, alpha=0.3)
    axis.plot(epoch, values[bold], color=color, linewidth=1.8, label=label)


EXPERIMENT = Experiment(
    name="jarvis2025-fig6",
    full=Settings(),
    tiny=Settings.tiny(
        **dict.fromkeys(("seeds", "gated_seeds", "shallow_seeds"), 2),
        **{"hidden": 16, "std": 0.2, "steps": 200, "shallow_hidden": 20, "shallow_std": 0.05, "shallow_steps": 100},
    ),
    compute=compute,
    claims=claims,
    draw=draw,
    differs=f"{p2.DIFFERS} With two hidden layers the published code has 420 neurons in each and 0.0006 for the ReLU "
    "network; of the gated one the common pathway has 240 neurons and each contextual one 60, the read-out of these "
    "starts at 0.004 and all else near 0.0006, nothing is trained before epoch 500 and the contextual pathways not "
    "before 12000. Seeds are 3, not 100. With appendix H's values (700 neurons, 1e-7, 8,000 epochs) a network with two "
    "hidden layers does not leave its first loss.",
    finding="As published, with pathways switched on by hand, the gated network follows the ReLU network from drop to "
    "drop, and outputs agree at the plateaus that both have; of the modules only the common one lasts, and trained "
    "from the start all pathways grow together.",
)
