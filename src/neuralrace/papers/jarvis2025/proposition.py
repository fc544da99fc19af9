"""P2 Lemma 4.1 and Proposition 4.2 step by step, each measured on the mixed task and on networks trained on it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, apart, enumerated, panels
from neuralrace.papers.jarvis2025 import _contextual as p2

CONTEXTS = 3
TEXT, SINGLE, ALL = "2+3", "1+3", "1+2+3"  # gatings by the numbers of contexts in which their pathways are open
PROTOCOL = {TEXT: p2.GATING, SINGLE: "common + single", ALL: p2.EVERY_MODULE}
SAME = 1e-3  # of the first loss, or of the largest output: smaller differences do not count


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """subsets: random sets of features, properties or examples to leave out."""

    subsets: int = 2000


full, tiny = Settings(), Settings.tiny(subsets=10)


def compute(settings: Settings) -> xarray.Dataset:
    """The task's own singular values, trained ReLU networks, and gatings trained as published.

    union_gap: between the outputs of a network and those of modules that are on for one example each.
    """
    named = nr.tasks.contextual(CONTEXTS, "mixed")
    task = named.task
    run = settings.relu(task, record=("weights", "gate_patterns"))
    samples = nr.reln.gate_samples(run)
    modules = nr.reln.find_modules(samples, CONTEXTS + 1)
    member = modules.members == int(np.argmax(modules.patterns.sum(axis=1)))
    active = np.maximum(run.values("weights[x->h1]") @ task.inputs["x"].T, 0) * member[..., None]
    outputs = np.einsum("syph,syhn->sypn", run.values("weights[h1->y]"), active)
    outputs = outputs.reshape(*outputs.shape[:2], -1)
    largest = np.maximum(np.abs(outputs).max(axis=2), np.finfo(float).tiny)
    data = removals(settings, task).assign_coords(time=run.time)
    data["relu"] = (("seed", "time"), run.loss)
    data["relu_least"] = ("time", (outputs.min(axis=2) / largest).mean(axis=0))
    # a module for an example holds the neurons that are on for it: those on for several are in several modules
    network, weights, count = nr.ReLUNetwork(task, hidden=(settings.hidden,)), run.weights(0), len(task)
    on = network.preactivations(weights)["h1"] > 0
    problem = nr.reln.gated_problem(task, np.eye(count), settings.hidden)
    split: dict[Any, np.ndarray] = {("x", f"m{i}"): weights["x", "h1"] * on[i][:, None] for i in range(count)}
    split |= {(f"m{i}", "y"): weights["h1", "y"] for i in range(count)}
    whole = network.forward(weights)["y"]
    data["union_gap"] = ((), float(np.abs(problem.forward(split)["y"] - whole).max() / np.abs(whole).max()))
    # the gatings of the text trained as published, and the sizes of the maps of all pathways
    record = "path_singular_values"
    runs = {name: settings.protocol(named, words, 2.0, record=record) for name, words in PROTOCOL.items()}
    appendix = settings.appendix_h.protocol(named, PROTOCOL[ALL], record=record)
    data["protocol"] = (("trained", "time"), np.array([one.loss[0] for _, one in runs.values()]))
    for name, pair in (("protocol_size", runs[ALL]), ("appendix_size", appendix)):
        values = p2.trained_values(*pair)
        data[name] = (("time", "pathway"), np.array([np.linalg.norm(v, axis=-1) for v in values.values()]).T)
    return data.assign_coords(trained=list(runs), pathway=list(values))


def removals(settings: Settings, task: nr.Task) -> xarray.Dataset:
    """The first singular value without one or more features and properties, or examples, relative to the whole."""
    inputs, targets = task.inputs["x"], task.targets["y"]
    (count, features), columns = inputs.shape, inputs.shape[1] + targets.shape[1]
    generator, sets = np.random.default_rng(p2.THEORY_KEY), []
    for _ in range(settings.subsets):  # each leaves out at least one
        sets.append([generator.permutation(size) < generator.integers(size) for size in (columns, count)])
    kept, rows = (
        np.vstack([~np.eye(size, dtype=bool), [one[place] for one in sets]])
        for place, size in enumerate((columns, count))
    )
    correlation = targets.T @ inputs
    parts = {
        "features": correlation * kept[:, features:, None] * kept[:, None, :features],
        "examples": np.einsum("sn,np,nf->spf", rows, targets, inputs, optimize=True),
    }
    data = xarray.Dataset({"least": ("side", np.array([inputs.min(), targets.min()]))})
    for name, matrices in parts.items():
        found = np.linalg.norm(matrices, 2, axis=(1, 2)) / np.linalg.norm(correlation, 2)
        data[f"without_{name}"] = (f"without_{name}_set", found)
    return data


def claims(data: xarray.Dataset) -> Claims:
    claim, time = Claims(retired=(2, 10)), data["time"].values
    claim.check(
        "P2 informal Lemma 4.1, read so that a neuron may be in several modules: true of any network on any data",
        "Any gating of a trained ReLU network can be implemented by modules that gate by context or are only "
        "active for a single datapoint.",
    )
    what = "gap between the outputs of a network and of 24 modules for single datapoints, of the largest output,"
    claim.at_most(what, float(data["union_gap"]), 1e-12)
    text = "If an output label or input feature is removed, the first singular value can only decrease."
    claim.check("P2 Proposition 4.2 (interlacing)", text, "A")
    claim.at_most("largest ratio to the whole", data["without_features"].max(), 1 + 1e-12, form=".12g")
    text = "If a datapoint is removed, the first singular value decreases."
    claim.check("P2 Proposition 4.2 (Perron-Frobenius)", text, "A")
    claim.at_most("largest ratio to the whole", data["without_examples"].max(), 1 - 1e-12, form=".12g")
    claim.paper(
        "P2 Proposition 4.2 (appendix E), of what its proof multiplies",
        "The labels that the common pathway learns are element-wise positive for all datapoints, and so are all "
        "input features.",
        "B",
    )
    claim.at_least("the least input and the least label", data["least"].values, 0)
    least = data["relu_least"].values
    text = "The output of the common pathway of ReLU networks is element-wise positive."
    claim.finding("after P2 Proposition 4.2, which says it of the labels", text, "B")
    claim.at_least("the least output over the largest, at the worst record,", least.min(), -SAME)
    claim.detail(f"below at {100 * np.mean(least < -SAME):.0f} % of records, {least[-1]:.2f} at the end")
    claim.fails(
        "-0.4 of the largest at the end; what adds up from item and context is below zero where both lack a property"
    )
    runs = data["protocol"]
    two, one = (runs.sel(trained=name).values for name in (TEXT, SINGLE))
    text = "Beside a common pathway, the architecture with pathways active in two contexts learns faster than in one."
    claim.paper("P2 Proposition 4.2 (exhaustion) and Fig 4a, as published", text, "D")
    claim.at_most("share of times at which it is behind", 100 * np.mean(two > one + SAME * one[0]), 0, " %")
    areas = [float(np.trapezoid(curve, time)) for curve in (two, one)]
    claim.at_most("area under its loss, relative to the other's,", areas[0] / areas[1], 1)
    appendix, published = (data[f"{name}_size"].values[-1] for name in ("appendix", "protocol"))
    text = "If all possible modules are trained simultaneously, the pathways active for a single context stay inactive."
    claim.paper("P2 appendix E, from the initial weights of appendix H", text, "C")
    ratios = [size[1 + CONTEXTS :].max() / size[1 : 1 + CONTEXTS].min() for size in (appendix, published)]
    what = "largest single-context map over the smallest two-context map, at the end,"
    claim.at_most(what, ratios[0], 0.1, form=".3f")
    claim.detail(f"two contexts {enumerated(appendix[1 : 1 + CONTEXTS])}; one {enumerated(appendix[1 + CONTEXTS :])}")
    claim.detail(f"as published {ratios[1]:.2f}")
    gaps = {
        str(name): apart(time, curve, data["relu"].values).normalized_l1
        for name, curve in zip(runs["trained"].values, runs.values, strict=True)
    }
    claim.paper(
        "P2 Fig 4a (caption: GDLN Single), as published",
        "The network with pathways for individual contexts is unable to imitate the loss trajectory of the ReLU "
        "network.",
        "D",
    )
    what = "normalized L1 from the ReLU networks, relative to the network of the text,"
    claim.at_least(what, gaps[SINGLE] / gaps[TEXT], 2)
    claim.detail(enumerated(gaps, ".3f"))
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Singular values of the residual, the least output, and the pathways and losses as published."""
    figure, (removed, least, sizes, race) = panels("A", "B", "C", "D", columns=2, height=3.8)
    time, colors, label_axes = data["time"].values, nr.plotting.COLORS, nr.plotting.label_axes
    for name, kind, label in (("features", "gated", "features and properties"), ("examples", "relu", "examples")):
        values = data[f"without_{name}"].values
        removed.hist(values, bins=40, color=colors[kind], alpha=0.6, label=f"without some {label}")
    title = "whatever is taken away, the first singular value falls"
    label_axes(removed, title, "first singular value / the whole's", "random sets")
    curve = data["relu_least"].values[None]
    nr.plotting.training_band(least, time, curve, "relu", "always-on module, ReLU networks")
    least.axhline(0, color=colors["reference"], linewidth=0.6)
    label_axes(least, "the common output is not positive", nr.plotting.TIME, "least / largest output")
    groups = (("reference", "common", 0), ("gated", "two contexts", 1), ("linear", "one context", 1 + CONTEXTS))
    for kind, label, first in groups:
        values = data["appendix_size"].values[:, first : first + (CONTEXTS if first else 1)]
        nr.plotting.mode_lines(sizes, time, {label: (kind, values)}, {})
    title = "pathways open in one context stay nearly inactive, from appendix H's weights"
    label_axes(sizes, title, nr.plotting.TIME, "size of the map")
    trained = {"ReLU networks": ("relu", data["relu"].values)}
    for name, kind, label in ((TEXT, "gated", "two contexts"), (SINGLE, "linear", "one context")):
        trained[f"gated, common and {label}"] = (kind, data["protocol"].sel(trained=name).values)
    title = "with pathways open in two contexts, as published, the loss is nearest to the ReLU networks'"
    nr.plotting.loss_curves(race, title, time, trained)
    race.set_yscale("log")
    return figure
