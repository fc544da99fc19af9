"""P2 Figs 8 and 9: the clusters of gate patterns in ReLU networks, how many there are, and mixed selectivity."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, enumerated, panels
from neuralrace.papers.jarvis2025 import _contextual as p2

SHOWN = (2, 3, 4)
ELBOW = 1.5  # the elbow is the least number of modules whose error is at most this many times the least


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """most: numbers of modules up to this one are tried."""

    seeds: int = 5
    most: int = 6


full, tiny = Settings(), Settings.tiny(steps=100, most=4)


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks, cluster their gates, and train the gated network of each number of clusters."""
    named = nr.tasks.contextual(3, "mixed")
    run = settings.relu(named.task, record=("gate_patterns", "outputs"))
    counts = range(1, settings.most + 1)
    samples = nr.reln.gate_samples(run, every=max(1, (len(run.time) - 1) // 80))
    found, between = [nr.reln.find_modules(samples, count) for count in counts], []
    for modules in found:
        members = modules.members[:, -1]
        widths = [max(1, round(float(np.sum(members == one, axis=1).mean()))) for one in range(len(modules))]
        problem = nr.reln.gated_problem(named.task, modules.patterns, widths)
        outputs = settings.train(problem, record="outputs", key=1).values("outputs[y]")[0]
        between.append(np.mean((run.values("outputs[y]") - outputs) ** 2))
    data, last = p2.selectivity(named, run), nr.reln.gate_samples(run)[:, -1].astype(bool)
    # the shares of neurons and of random neurons that are on for any item in exactly one context
    context, inputs = named.groups["context"], named.task.inputs["x"]
    random = np.random.default_rng(p2.THEORY_KEY).standard_normal((10_000, inputs.shape[1])) @ inputs.T > 0
    shares = [np.mean(nr.analysis.groups_active(on, context, more_than=0) == 1) for on in (last, random)]
    data["specific"] = ("count", np.array(shares))
    data["between"] = ("modules", np.array(between))
    data["consistency"] = ("modules", np.array([one.consistency.min() for one in found]))
    data["context"] = ("example", context)
    for count in SHOWN:
        data[f"centroids_{count}"] = ((f"cluster_{count}", "example"), found[count - 1].gates)
    return data.assign_coords(modules=list(counts), count=["number", "chance"])


def elbow(errors: np.ndarray) -> int:
    """The least number of modules, counted from one, whose error is at most ELBOW times the least."""
    return int(np.argmax(errors <= ELBOW * errors.min())) + 1


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims(retired=(4, 6))
    always = {k: int((data[f"centroids_{k}"].values > 0.5).all(axis=1).sum()) for k in SHOWN}
    wanted, four = p2.text_patterns(data["context"].values), p2.as_set(data["centroids_4"].values)
    claim.paper("P2 Fig 8 and appendix B", "All of the clusterings find a common pathway.", "8")
    claim.within("clusters that are always on, for each number of clusters,", always, (1, 1))
    claim.paper("P2 Fig 8 and appendix B", "When using 4 clusters the exact gating pattern of section 4 emerges.", "8")
    claim.at_least("of its four patterns, found", len(four & wanted), len(wanted))
    claim.detail(f"least consistency {float(data['consistency'].sel(modules=4)):.2f}")
    metric, errors = "mean-squared error between the outputs of ReLU and gated networks", data["between"].values
    claim.paper("P2 Fig 9", f"The 4-cluster model is the appropriate choice for the elbow ({metric}).", "9")
    claim.within(f"least number whose error is within {ELBOW} times the least", elbow(errors), (4, 4))
    claim.detail(f"errors {enumerated(errors)}")
    text = "By interpreting the corresponding ReLN, we find that there are no neurons which are context specific."
    claim.paper("P2 section 4", text, "A")
    modules = np.array(sorted(four))
    groups = nr.analysis.groups_active(modules, data["context"].values, more_than=0)
    claim.at_least("contexts in which each of four modules is on", groups, 2)
    number, by_chance = 100 * data["specific"].values
    claim.at_most("share of neurons that are on for any item in exactly one context", number, 5, " %")
    claim.at_most("this share over that of random neurons", number / by_chance, 0.75)
    claim.detail(f"by chance {by_chance:.1f} %")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The centroids for two, three and four clusters, the elbow, and in how many contexts neurons are active."""
    figure, (*clusters, errors, neurons) = panels("8", "8", "8", "9", "A", height=3.4)
    wanted, colors = p2.text_patterns(data["context"].values), nr.plotting.COLORS
    for axis, count in zip(clusters, SHOWN, strict=True):
        values = data[f"centroids_{count}"].values
        title = f"{len(p2.as_set(values) & wanted)} of {count} clusters are modules of the text"
        nr.plotting.heat_map(axis, values, title, "context", "cluster", "share on", blocks=(1, 8))
    between = data["between"].values
    errors.semilogy(data["modules"].values, between, "o-", color=colors["relu"], label="between outputs")
    errors.plot([elbow(between)] * 2, [between.min(), between.max()], ":", color=colors["reference"], label="elbow")
    errors.set_xticks(data["modules"].values)
    title = "four modules are the elbow of the error"
    nr.plotting.label_axes(errors, title, "modules", "distance of the gated network")
    p2.draw_selectivity(neurons, data, "most neurons are on in two contexts")
    return figure
