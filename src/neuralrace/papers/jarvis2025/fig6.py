"""P2 Fig 6: two hidden layers, in ReLU networks and in the gated network that shares its first layer."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, apart, enumerated, panels
from neuralrace.papers.jarvis2025 import _contextual as p2

CONTEXTS, MODULES = 3, 4
FALLEN = (0.75, 0.42, 0.22)  # of the first loss: between the plateaus of the gated network
ALIGNED = {"common": 500, "contextual": 12000}  # epochs at which the published network switches its pathways on
PUBLISHED = "as published (pathways are switched on by hand at these epochs)"
KINDS = {"relu": ("relu", "ReLU"), "published": ("linear", "gated as published")}  # name -> its color and label


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """The paper has 100 seeds and 100 gated seeds.

    switched: epochs at which the published gated network switches its pathways on, the common and the contextual ones.
    stds: its initial weights, of both layers and of the read-outs of the two kinds of pathways. shallow_steps: of
    networks with one hidden layer, with the parameters of P2 Fig 5.
    """

    seeds: int = 3
    gated_seeds: int = 3
    hidden: int = 420
    std: float = 0.0006
    steps: int = 30000
    switched: tuple[int, int] = (500, 12000)
    stds: tuple[float, ...] = (5.75e-4, 5.5e-4, 5.5e-4, 4e-3)
    shallow_steps: int = 8000


full, tiny = Settings(), Settings.tiny(seeds=2, gated_seeds=2, hidden=16, std=0.2, steps=200, shallow_steps=100)


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks with two hidden layers and with one, and gated ones as published.

    h1_all, h2_all: the share of neurons that are on for all examples. passed: the share of what the first layer
    receives that its gates let through, squared and counted by the neurons' outgoing weights; one for a linear layer.
    modules: those of the second layer, of each run over all of its training.
    """
    named = nr.tasks.contextual(CONTEXTS, "hierarchy")
    shallow = p2.ContextualSettings(settings.seeds, steps=settings.shallow_steps, every=25).relu(named.task)
    network = nr.ReLUNetwork(named.task, hidden=(settings.hidden, settings.hidden))
    run = settings.train(network, seeds=settings.seeds, record=("gate_patterns", "outputs"))
    data = xarray.Dataset({"context": ("example", named.groups["context"])}, {"epoch": run.data["step"].values})
    data["relu"] = (("seed", "epoch"), run.loss)
    data["relu_output"] = (("epoch", "example", "property"), run.values("outputs[y]")[nr.analysis.typical(run.loss)])
    data["shallow"] = (("seed", "shallow_epoch"), shallow.loss)
    for layer in ("h1", "h2"):
        on = run.values(f"gate_patterns[{layer}]")  # (seeds, records, examples, neurons)
        data[f"{layer}_all"] = (("seed", "epoch"), on.all(axis=2).mean(axis=-1))
    passed = []
    for seed in range(settings.seeds):
        weights = run.weights(seed)
        received = network.preactivations(weights)["h1"] * np.linalg.norm(weights["h1", "h2"], axis=0)
        passed.append(np.sum(received[received > 0] ** 2) / np.sum(received**2))
    data["passed"] = ("seed", np.array(passed))
    modules = np.zeros((settings.seeds, MODULES, len(named.task)))
    for seed, samples in enumerate(nr.reln.gate_samples(run, "h2", max((len(run.time) - 1) // 30, 1))):
        found = nr.reln.find_modules(samples, MODULES).gates
        modules[seed, : len(found)] = found  # the others are zero, where there are fewer patterns than clusters
    data["modules"] = (("seed", "module", "example"), modules)
    data = data.assign_coords(shallow_epoch=shallow.data["step"].values)
    return data.merge(published(settings, named))


@nr.float64
def published(settings: Settings, named: nr.tasks.NamedTask) -> xarray.Dataset:
    """Gated networks trained as in the published code: pathways are switched on by hand at two epochs.

    The common pathway has four parts in seven of the second layer and each contextual one has one part. Up to the first
    epoch nothing is trained, then the common pathway on its own loss, and from the second epoch on also the others, on
    what it leaves; the shared first layer descends both losses.
    """
    inputs, targets, context = named.task.inputs["x"].T, named.task.targets["y"].T, named.groups["context"]
    part = settings.hidden // (MODULES + CONTEXTS)
    common, neurons = MODULES * part, (MODULES + CONTEXTS) * part
    pathways = [slice(*ends) for ends in itertools.pairwise([0, *range(common, neurons + 1, part)])]
    gates = np.repeat([context != c for c in range(CONTEXTS)], part, axis=0)
    shapes = [(neurons, len(inputs)), (neurons, neurons), (len(targets), common), (len(targets), len(gates))]

    def outputs(weights: list[jax.Array]) -> tuple[jax.Array, jax.Array]:
        first, second, read_common, read_contextual = weights
        received = second @ (first @ inputs)
        return read_common @ received[:common], read_contextual @ (gates * received[common:])

    def descended(weights: list[jax.Array], on: jax.Array) -> jax.Array:
        alone, others = outputs(weights)
        left = targets - jax.lax.stop_gradient(alone)
        return 0.5 * (jnp.sum((alone - targets) ** 2) + on * jnp.sum((others - left) ** 2))

    def step(epoch: jax.Array, weights: list[jax.Array]) -> list[jax.Array]:
        gradient = jax.grad(descended)(weights, epoch >= settings.switched[1])
        speed = jnp.where(epoch >= settings.switched[0], settings.paper_rate, 0.0)
        return [w - speed * g for w, g in zip(weights, gradient, strict=True)]

    def record(weights: list[jax.Array], epoch: jax.Array) -> tuple[list[jax.Array], tuple[jax.Array, jax.Array]]:
        first, second, *read = weights
        sizes = [jnp.linalg.norm(jnp.hstack(read)[:, rows] @ second[rows] @ first) for rows in pathways]
        after: list[jax.Array] = jax.lax.fori_loop(epoch, epoch + settings.every, step, weights)
        alone, others = outputs(weights)
        return after, (alone + others, jnp.array(sizes))

    epochs = jnp.arange(0, settings.steps + 1, settings.every)
    follow = jax.jit(lambda weights: jax.lax.scan(record, weights, epochs)[1])
    found = []
    for seed in range(settings.gated_seeds):
        random = np.random.default_rng([2, seed])  # a stream that training does not use
        drawn = [std * random.standard_normal(shape) for std, shape in zip(settings.stds, shapes, strict=True)]
        found.append([np.asarray(one) for one in follow(drawn)])
    seen, strengths = (np.array(one) for one in zip(*found, strict=True))  # (seeds, T, ...)
    losses = 0.5 * np.sum((seen - targets) ** 2, axis=(2, 3)) / len(context)
    axes, seen, fit = ("gated_seed", "epoch"), seen.swapaxes(2, 3), p2.linear_part(named.task)
    data = xarray.Dataset({"published": (axes, losses)})
    data["published_output"] = (("epoch", "example", "property"), seen[nr.analysis.typical(losses)])
    for kind, projection in {"common": fit, "contextual": np.eye(len(fit)) - fit}.items():
        data[f"aligned_{kind}"] = (axes, nr.analysis.alignment(projection @ seen, projection @ targets.T))
    data["pathways"] = (("pathway", *axes), strengths.transpose(2, 0, 1))
    return data


def typical_loss(data: xarray.Dataset, name: str) -> np.ndarray:
    """The loss of the typical run."""
    return np.asarray(data[name].values[nr.analysis.typical(data[name].values)])


def typical_plateaus(data: xarray.Dataset, name: str) -> list[nr.analysis.Plateau]:
    """The plateaus of the typical run, during which the loss falls by at most 5 % in 1000 epochs."""
    return nr.analysis.plateaus(data["epoch"].values, typical_loss(data, name), slope=0.05 / 1000, lasts=1000)


def modules_found(data: xarray.Dataset) -> np.ndarray:
    """How many of the patterns of Fig 6a are among the modules of each run."""
    wanted = p2.text_patterns(data["context"].values)
    return np.array([len(wanted & p2.as_set(modules)) for modules in data["modules"].values])


def level_gaps(one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """How far the level of each plateau of two networks is from the nearest level of the other network, in per cent."""
    return {
        f"{name} {level:.3g}": float(100 * np.min(np.abs(level / there - 1), initial=np.inf))
        for name, here, there in (("ReLU", one, other), ("gated", other, one))
        for level in here
    }


def claims(data: xarray.Dataset) -> Claims:
    claim, epoch = Claims(retired=(2, 5, 10)), data["epoch"].values
    later = np.flatnonzero(epoch >= ALIGNED["common"])
    places = later[np.linspace(0, len(later) - 1, 5).astype(int)] if len(later) else np.array([-1])
    text = "All neurons of the first layer are active for all datapoints."
    claim.paper("P2 section 6, of single neurons", text, "A")
    what = f"share of neurons that are, at epochs {enumerated(epoch[places], '.0f')},"
    claim.at_least(what, 100 * data["h1_all"].values.mean(axis=0)[places], 95, " %")
    claim.fails("74 % at the most, between the first drop of the loss and the second, and below 1 % at the end")
    text = "The ReLU network does not use the first layer for gating; it is then used as a linear layer."
    claim.paper("P2 section 6, by what its gates let through at the end", text, "A")
    what = "share of what the layer receives, squared and counted by outgoing weights, in each run,"
    claim.at_least(what, 100 * data["passed"].values, 95, " %")
    claim.paper(
        "P2 section 6 and Fig 6a",
        "The second layer has a common pathway and contextual pathways that are active in two out of the three "
        "contexts.",
        "a",
    )
    runs = modules_found(data)
    what = f"runs in which four clusters of all gate patterns of the training are these, of {len(runs)},"
    claim.at_least(what, 100 * np.mean(runs == MODULES), 51, " %")
    claim.detail(f"of the four patterns {np.median(runs):.0f} in the median run")
    claim.fails("only the common module lasts; the others come to gate by halves of the items and by contexts")
    loss_claims(claim, data)
    strength = data["pathways"].values
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
    when = {of: np.median(nr.analysis.time_to(epoch, -data[f"aligned_{of}"].values, -0.5)) for of in ALIGNED}
    over = {kind: found / ALIGNED[kind] for kind, found in when.items()}
    claim.within("outputs aligned by half, median run, over these epochs,", over, (0.5, 2))
    claim.detail(f"at {enumerated(when, '.0f')}")
    claim.fails("of the contextual ones; the common one is switched on at epoch 500, and half aligned near 2900")
    return claim


def loss_claims(claim: Claims, data: xarray.Dataset) -> None:
    """Losses, their plateaus and drops, and how runs vary."""
    plateaus_of = {name: typical_plateaus(data, name) for name in KINDS}
    levels = {name: np.array([plateau.loss for plateau in found]) for name, found in plateaus_of.items()}
    times = {}  # the epochs at which every run comes down to each of FALLEN; NaN where it does not
    for name, epochs in {"relu": "epoch", "published": "epoch", "shallow": "shallow_epoch"}.items():
        losses = data[name].values
        every, wanted = np.repeat(losses[:, None], len(FALLEN), axis=1), np.array(FALLEN) * losses[:, 0].mean()
        found = nr.analysis.time_to(data[epochs].values, every, wanted)
        times[name] = np.where(np.isfinite(found), found, np.nan)
    spread = {name: found.std(axis=0, ddof=1 if len(found) > 1 else 0) for name, found in times.items()}
    mean = {name: found.mean(axis=0) for name, found in times.items()}
    text = "We see close agreement between the ReLU network and GDLN stereotypical trajectories."
    claim.paper(f"P2 section 6 and Fig 6b, {PUBLISHED}", text, "b")
    typical = (typical_loss(data, name) for name in ("published", "relu"))
    p2.same_losses(claim, apart(data["epoch"].values, *typical))
    claim.paper(f"P2 section 6, {PUBLISHED}", "The positions of the plateaus in loss are all consistent.", "b")
    what = "distance of the level of each plateau from the nearest of the other network"
    claim.at_most(what, level_gaps(levels["relu"], levels["published"]), 10, " %")
    claim.fails("three of four agree, to 0.1 %; the ReLU network's at 2.12 and the gated one's at 0.41 do not")
    text = "The relative timing of the drops in loss is consistent following the alignment."
    claim.paper(f"P2 section 6, {PUBLISHED}", text, "b")
    what = f"epochs from {FALLEN[0]} of the first loss to {FALLEN[1]} and {FALLEN[2]}, mean over runs, differ by"
    since = {name: one[1:] - one[0] for name, one in mean.items()}
    claim.at_most(what, 100 * np.abs(since["published"] / since["relu"] - 1), 10, " %")
    shown = "; ".join(f"{label} {enumerated(mean[name], '.0f')}" for name, (_, label) in KINDS.items())
    claim.detail(f"all three at {shown}")
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
    what = f"the epochs to come down to {enumerated(FALLEN)} of the first loss"
    claim.paper(
        "P2 section 6",
        "There is now variance in the trajectories of both networks, which was not the case for the "
        "single-hidden-layer architectures.",
        "b",
    )
    relative = {name: spread[name] / mean[name] for name in times}
    pooled = {n: np.exp(np.mean(np.log(relative[n] / relative["shallow"]))) for n in KINDS}
    claim.at_least(f"relative spread of {what}, over that with one hidden layer, in the geometric mean,", pooled, 3)
    shown = "; ".join(f"{name} {enumerated(relative[name])} in {len(times[name])} runs" for name in times)
    claim.detail(f"standard deviation over mean: {shown}")
    claim.paper("P2 section 6 and Fig 6", "We also see the same variance profiles across the various runs.", "b")
    ratio = np.exp(np.mean(np.log(spread["published"] / spread["relu"])))
    claim.within(f"standard deviations of {what}, gated over ReLU, in the geometric mean,", ratio, (0.5, 2))
    claim.detail(f"ReLU {enumerated(spread['relu'], '.0f')}; gated {enumerated(spread['published'], '.0f')}")


def draw(data: xarray.Dataset) -> Figure:
    """Modules over a run, losses, gates and pathways over time, typical runs bold, and outputs."""
    figure, (modules, loss, gates, pathways, outputs) = panels("a", "b", "A", "B", "C", height=3.9)
    epoch, colors, label_axes = data["epoch"].values, nr.plotting.COLORS, nr.plotting.label_axes
    bold = {name: nr.analysis.typical(data[name].values) for name in KINDS}
    block, found = len(data["context"]) // CONTEXTS, modules_found(data)[bold["relu"]]
    title = f"{found} of {MODULES} modules are those of the text: layer 2, a whole run"
    values = data["modules"].values[bold["relu"]]
    nr.plotting.heat_map(modules, values, title, "context", "module", "share on", blocks=(1, block))
    curves = [(loss, name, data[name].values, colors[color], label) for name, (color, label) in KINDS.items()]
    for place, color in enumerate(("reference", "gated", "linear", "untrained")):
        label = f"all but context {place}" if place else "common"
        curves.append((pathways, "published", data["pathways"].values[place], colors[color], label))
    for axis, name, runs, color, label in curves:
        axis.plot(epoch, runs.T, color=color, linewidth=0.6, alpha=0.3)
        axis.plot(epoch, runs[bold[name]], color=color, linewidth=1.8, label=label)
    label_axes(loss, "every run, typical ones bold", "epoch", "loss")
    gap = np.log10(typical_loss(data, "published") / typical_loss(data, "relu"))
    nr.plotting.difference_strip(loss, epoch, [("linear", gap)], p2.LOG10)
    title = "as published the pathways are switched on one after the other"
    label_axes(pathways, title, "epoch", "strength (Frobenius norm)")
    for layer, kind in (("h1", "linear"), ("h2", "untrained")):
        gates.plot(epoch, data[f"{layer}_all"].values.mean(axis=0), color=colors[kind], label=f"layer {layer[1]}")
    label_axes(gates, "the first layer gates after all: few neurons are on for all examples", "epoch", "share")
    plateaus = typical_plateaus(data, "published")
    place = plateaus[len(plateaus) // 2].place if plateaus else -1
    error = (data["relu_output"] - data["published_output"]).values[place]
    title = f"outputs agree at a plateau: ReLU less gated, epoch {int(epoch[place])}"
    nr.plotting.heat_map(outputs, error.T, title, "context", "block", "difference", blocks=(15, block))
    return figure
