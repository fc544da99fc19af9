"""P2 Figs 8 and 9: the clusters of gate patterns in ReLU networks, how many there are, and mixed selectivity."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import panels
from neuralrace.papers.claims import Claims, enumerated
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.jarvis2025 import _contextual as p2

SHOWN = (2, 3, 4)
ELBOW = 1.5  # the elbow is the least number of modules whose error is at most this many times the least
READINGS = {
    "any": "on for any item in exactly one context",
    "activity": "with more than 95% of their activity in one context",
    "majority": "on for most items in exactly one context",
}


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """most: numbers of modules up to this one are tried."""

    seeds: int = 5
    most: int = 6


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks, cluster their gates, and forecast and train the gated network of each number of clusters."""
    named = nr.tasks.contextual(3, "mixed")
    run = settings.relu(named.task, record=("gate_patterns", "outputs"))
    counts = range(1, settings.most + 1)
    found, problems = zip(*(p2.clusters(run, count) for count in counts), strict=True)
    trained = [settings.train(one, record="outputs", key=1).values("outputs[y]")[0] for one in problems]
    methods = nr.theory.Aligned(diagonal=False, small=1e-6), nr.theory.Flow()
    forecasts = [nr.predict(one, settings.initial, run.time, methods, draws=4, rtol=1e-4) for one in problems]
    last, strength = p2.final_patterns(run)
    data = p2.selectivity(named, last, strength)
    # the shares of neurons, of strength and of random neurons that are specific to a context, in three readings
    incoming = np.array([run.weights(seed)["x", "h1"] for seed in range(len(last))])
    random = np.random.default_rng(p2.THEORY_KEY).standard_normal((10_000, incoming.shape[-1]))
    specific, chance = (readings(named, weights) for weights in (incoming, random))
    shares = [[rows.mean(), strength[rows].sum() / strength.sum(), chance[k].mean()] for k, rows in specific.items()]
    data["specific"] = (("reading", "count"), np.array(shares))
    data["distinct"] = ("seed", np.array([len(np.unique(one, axis=0)) for one in last]))
    data["error"] = ("modules", np.array([nr.agreement(one, run).normalized_l1 for one in forecasts]))
    data["between"] = ("modules", np.array([np.mean((run.values("outputs[y]") - y) ** 2) for y in trained]))
    data["consistency"] = ("modules", np.array([one.consistency.min() for one in found]))
    data["context"] = ("example", named.groups["context"])
    for count in SHOWN:
        data[f"centroids_{count}"] = ((f"cluster_{count}", "example"), found[count - 1].gates)
    return data.assign_coords(modules=list(counts), reading=list(READINGS), count=["number", "strength", "chance"])


def readings(named: nr.tasks.NamedTask, incoming: np.ndarray) -> dict[str, np.ndarray]:
    """Reading -> whether each neuron is specific to a context; incoming: (..., neurons, inputs)."""
    received, context = incoming @ named.task.inputs["x"].T, named.groups["context"]
    return {
        "any": nr.analysis.groups_active(received > 0, context, more_than=0) == 1,
        "activity": nr.analysis.concentration(np.maximum(received, 0), context) > 0.95,
        "majority": nr.analysis.groups_active(received > 0, context) == 1,
    }


def elbow(errors: np.ndarray) -> int:
    """The least number of modules, counted from one, whose error is at most ELBOW times the least."""
    return int(np.argmax(errors <= ELBOW * errors.min())) + 1


def claims(data: xarray.Dataset) -> Claims:
    """What the figures and the text say."""
    claim = Claims()
    always = {k: int((data[f"centroids_{k}"].values > 0.5).all(axis=1).sum()) for k in SHOWN}
    wanted, four = p2.text_patterns(data["context"].values), p2.as_set(data["centroids_4"].values)
    claim.paper("P2 Fig 8 and appendix B", "All of the clusterings find a common pathway.", "8")
    claim.within("clusters that are always on, for each number of clusters,", always, (1, 1))
    claim.paper("P2 Fig 8 and appendix B", "When using 4 clusters the exact gating pattern of section 4 emerges.", "8")
    claim.at_least("of its four patterns, found", len(four & wanted), len(wanted))
    claim.detail(f"least consistency {float(data['consistency'].sel(modules=4)):.2f}")
    for name, kind, source, metric in (
        ("between", "paper", "P2 Fig 9", "mean-squared error between the outputs of ReLU and gated networks"),
        ("error", "finding", "after P2 Fig 9", "normalized L1 between their losses"),
    ):
        found, text = data[name].values, f"The 4-cluster model is the appropriate choice for the elbow ({metric})."
        claim.said(kind, source, text, "9")
        claim.within(f"least number whose error is within {ELBOW} times the least", elbow(found), (4, 4))
        claim.detail(f"errors {enumerated(found)}")
    rows = dict(zip(READINGS.values(), 100 * data["specific"].values, strict=True))
    told = "; ".join(f"{words} {row[0]:.1f} %, by chance {row[2]:.1f} %" for words, row in rows.items())
    text = "By interpreting the corresponding ReLN, we find that there are no neurons which are context specific."
    claim.paper("P2 section 4", text, "A")
    modules = np.array(sorted(four))
    groups = nr.analysis.groups_active(modules, data["context"].values, more_than=0)
    claim.at_least("contexts in which each of four modules is on", groups, 2)
    number, _, by_chance = rows[READINGS["any"]]
    claim.at_most(f"share of neurons that are {READINGS['any']}", number, 5, " %")
    claim.at_most("this share over that of random neurons", number / by_chance, 0.75)
    claim.detail(told)
    share, strong, chance = (data[name].values[2:].sum() for name in ("share", "share_of_strength", "chance"))
    text = "Neurons are active in several contexts more often than chance has it."
    claim.finding("after P2 section 4 (mixed selectivity)", text, "A")
    what = "share of neurons on in two or three contexts, over that of random neurons,"
    claim.at_least(what, {"by number": share / chance, "by strength": strong / chance}, 1.5)
    claim.detail(f"{100 * share:.1f} % ({100 * strong:.1f} % of strength) against {100 * chance:.1f} %")
    source = "after P2 section 3 (as few unique gating patterns as possible)"
    claim.finding(source, "Few gate patterns are all that the network has.", "A")
    what = "distinct patterns among the neurons of each network at the end"
    claim.at_most(what, data["distinct"].values, 10, form=".0f")
    claim.fails("hundreds of patterns lie around the four modules, which are their centers and not all there is")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The centroids for two, three and four clusters, the elbow, and in how many contexts neurons are active."""
    figure, (*clusters, errors, neurons) = panels("8", "8", "8", "9", "A", height=3.4)
    wanted, colors = p2.text_patterns(data["context"].values), nr.plotting.COLORS
    for axis, count in zip(clusters, SHOWN, strict=True):
        values = data[f"centroids_{count}"].values
        title = f"{len(p2.as_set(values) & wanted)} of {count} clusters are modules of the text"
        nr.plotting.heat_map(axis, values, title, "context", "cluster", "share on", blocks=(1, 8))
    for name, kind, label in (("between", "relu", "between outputs"), ("error", "reconstruction", "between losses")):
        errors.semilogy(data["modules"].values, data[name].values, "o-", color=colors[kind], label=label)
    ends = [data["between"].values.min(), data["error"].values.max()]
    errors.plot([elbow(data["error"].values)] * 2, ends, ":", color=colors["reference"], label="elbow")
    errors.set_xticks(data["modules"].values)
    title = "four modules are the elbow of the error"
    nr.plotting.label_axes(errors, title, "modules", "distance of the gated network")
    p2.draw_selectivity(neurons, data, "most neurons are on in two contexts")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-fig8",
    full=Settings(),
    tiny=Settings.tiny(steps=100, most=4),
    compute=compute,
    claims=claims,
    draw=draw,
    differs=f"{p2.DIFFERS} From 1e-7 (--set std=1e-7) three of the four clusters are those of the text, and the elbow "
    "by outputs is at three.",
    finding="Four clusters of gates are the four modules of the text and the elbow of the error; about one neuron in a "
    "hundred is on in a single context, and more are by wider readings, though always fewer than by chance.",
)
