"""P2 Figs 8 and 9: the clusters of gate patterns in ReLU networks, how many there are, and mixed selectivity."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis.selectivity import chance_by_groups, share_by_groups
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import COLOURS, heat_map, label_axes, new_figure
from neuralrace.training import ReLUNetwork, train

SHOWN = (2, 3, 4)


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper, whose loss is a sum over the 24 examples: its rate is multiplied by their number."""

    seeds: int = 5
    hidden: int = 700
    paper_rate: float = 0.001
    std: float = 0.005 / 700
    steps: int = 8000
    every: int = 100
    most: int = 6


def compute(settings: Settings) -> xarray.Dataset:
    """Train ReLU networks, cluster their gates, and forecast the gated network of each number of clusters."""
    named = tasks.contextual(3, "mixed")
    law, network = initial.gaussian(settings.std), ReLUNetwork(named.task, hidden=(settings.hidden,))
    rate = settings.paper_rate * len(named.task)
    run = train(network, law, rate, settings.steps, seeds=settings.seeds, record="gate_patterns", every=settings.every)
    found = reln.discover(run, most=settings.most, draws=1)
    samples, context = reln.gate_samples(run), named.groups["context"]
    strength = reln.neuron_strengths(run, "h1")
    data = xarray.Dataset(coords={"modules": [row.modules for row in found.table], "active": np.arange(4)})
    data["error"] = ("modules", np.array([row.normalised_l1 for row in found.table]))
    data["consistency"] = ("modules", np.array([row.consistency for row in found.table]))
    data["chosen"] = ((), len(found.patterns))
    data["share"] = ("active", share_by_groups(samples[:, -1], context))
    data["share_of_strength"] = ("active", share_by_groups(samples[:, -1], context, strength))
    data["chance"] = ("active", chance_by_groups(named.task.inputs["x"], context))
    data["distinct"] = ("seed", np.array([len(np.unique(final, axis=0)) for final in samples[:, -1]]))
    data["context"] = ("example", context)
    for count in SHOWN:
        modules = reln.find_modules(samples, count)
        data[f"centroids_{count}"] = ((f"cluster_{count}", "example"), modules.centroids)
    return data


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figures and the text say."""
    error, chosen = data["error"].values, int(data["chosen"])
    share, strong, chance = (data[name].values for name in ("share", "share_of_strength", "chance"))
    open_always = [int((data[f"centroids_{k}"].values > 0.5).all(axis=1).sum()) for k in SHOWN]
    contexts = data["context"].values
    wanted = {tuple(np.ones(len(contexts), dtype=bool)), *(tuple(contexts != c) for c in range(3))}
    four = {tuple(row) for row in data["centroids_4"].values > 0.5}
    return [
        Claim(
            "Every number of clusters finds the common pathway.",
            "P2 Fig 8",
            "paper",
            "exactly one cluster that is always on, for two, three and four clusters",
            ", ".join(f"{k}: {count}" for k, count in zip(SHOWN, open_always, strict=True)),
            open_always == [1, 1, 1],
        ),
        Claim(
            "Four clusters are the gating of the text: always on, and on in two contexts each.",
            "P2 Fig 8",
            "paper",
            "the four patterns are these",
            f"{len(four & wanted)} of 4 found",
            four == wanted,
        ),
        Claim(
            "The elbow of the error is at four modules.",
            "P2 Fig 9",
            "paper",
            "four is the least number whose error is within 1.5 times the least",
            f"{chosen}; errors " + ", ".join(f"{value:.3f}" for value in error),
            chosen == 4,
        ),
        Claim(
            "No neuron is specific to a context.",
            "P2 section 4",
            "paper",
            "no neuron is on, for most items, in one context only at the end",
            f"{100 * share[1]:.1f} % of neurons, with {100 * strong[1]:.1f} % of all strength",
            bool(share[1] == 0),
            "refuted: a part of the neurons is on in a single context",
        ),
        Claim(
            "Neurons are active in several contexts more often than chance has it.",
            "P2 section 4 (mixed selectivity)",
            "paper",
            "the share of neurons on in two or three contexts is above that of random neurons",
            f"{100 * share[2:].sum():.1f} % ({100 * strong[2:].sum():.1f} % of strength) against "
            f"{100 * chance[2:].sum():.1f} %",
            bool(share[2:].sum() > chance[2:].sum() and strong[2:].sum() > chance[2:].sum()),
        ),
        Claim(
            "Few gate patterns are all that the network has.",
            "P2 section 4 (four modules)",
            "paper",
            "at most ten distinct patterns among the neurons of a network at the end",
            ", ".join(str(int(count)) for count in data["distinct"].values),
            bool(data["distinct"].max() <= 10),
            "refuted: hundreds of patterns lie around the four modules, which are their centres and not all there is",
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """The centroids for two, three and four clusters, the elbow, and in how many contexts neurons are active."""
    figure, axes = new_figure(5, width=3.6)
    for axis, count in zip(axes[0], SHOWN, strict=False):
        values = data[f"centroids_{count}"].values
        title = f"8  {count} clusters"
        heat_map(axis, values, title, horizontal="context", vertical="cluster", value="share on", blocks=(1, 8))
    axes[0, 3].semilogy(data["modules"].values, data["error"].values, "o-", color=COLOURS["gated"])
    ends = [data["error"].values.min(), data["error"].values.max()]
    axes[0, 3].plot([int(data["chosen"])] * 2, ends, ":", color=COLOURS["reference"], label="taken")
    label_axes(axes[0, 3], "9  error of the gated network", "modules", "normalised L1")
    for index, (name, kind) in enumerate((("share", "relu"), ("share_of_strength", "gated"), ("chance", "reference"))):
        label = {"share": "neurons", "share_of_strength": "by strength", "chance": "random neurons"}[name]
        axes[0, 4].bar(
            data["active"].values + 0.27 * (index - 1), data[name].values, 0.27, color=COLOURS[kind], label=label
        )
    label_axes(axes[0, 4], "selectivity at the end", "contexts in which a neuron is on", "share")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-fig8",
    title="Modules by clustering gates, their number, and mixed selectivity",
    source="P2 Figs 8 and 9, Algorithm 1",
    full=Settings(),
    tiny=Settings(seeds=1, hidden=40, paper_rate=0.002, std=0.01, steps=100, every=20, most=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
