"""P2 Fig 3, Definition 3.1, appendix H: the data set, the gated network that a ReLU network is, and its least width."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, enumerated, panels
from neuralrace.papers.jarvis2025 import _contextual as p2

CONTEXTS, ITEMS, PROPERTIES = 3, 8, 15


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """moments: epochs at which a ReLU network is read as a gated one."""

    seeds: int = 2
    moments: tuple[int, ...] = (0, 500, 1000, 2000, 4000, 8000)


full, tiny = Settings(), Settings.tiny(width=12, moments=(0, 60))


def compute(settings: Settings) -> xarray.Dataset:
    """The data set and its linear part, a ReLU network read through its gates, and gated networks of two widths.

    gap: between outputs of the ReLU network and of the gated network that its gates make of it, relative to the
    largest. nodes: how many modules the gated network has. wide, rank: losses by P2's protocol with its neurons in each
    pathway, and with as many as the rank that it has to learn.
    """
    named = nr.tasks.contextual(CONTEXTS, "mixed")
    inputs, targets = named.task.inputs["x"], named.task.targets["y"]
    data = xarray.Dataset({"inputs": (("example", "feature"), inputs), "context": ("example", named.groups["context"])})
    data["targets"] = (("example", "property"), targets)
    data["left"] = (("example", "property"), p2.left_over(named.task))
    moments = [m for m in settings.moments if m <= settings.steps]
    network = nr.ReLUNetwork(named.task, hidden=(settings.hidden,))
    run = settings.train(network, record=("weights", "outputs"), at=moments)
    gaps, nodes = np.zeros(len(moments)), np.zeros(len(moments), dtype=int)
    for place in range(len(moments)):
        gated, whole = nr.reln.equivalent(network, run.weights(0, place)), run.values("outputs[y]")[0, place]
        gaps[place] = np.abs(gated.problem.forward(gated.weights)["y"] - whole).max() / np.abs(whole).max()
        nodes[place] = len(gated.members)
    data["gap"], data["nodes"] = ("moment", gaps), ("moment", nodes)
    rank = int(np.linalg.matrix_rank(targets.T @ inputs))
    for name, width in (("wide", settings.width), ("rank", rank)):
        problem = named.problem(f"{p2.GATING}, items only", hidden=width)
        run = settings.train(problem, coupling="residual", seeds=settings.seeds)
        data[name] = (("seed", "epoch"), run.loss)
    data["neurons"] = ((), rank)
    return data.assign_coords(moment=moments, epoch=run.data["step"].values)


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims()
    targets, left, context = data["targets"].values, data["left"].values, data["context"].values
    blocks = targets.reshape(len(targets), -1, PROPERTIES)
    common = blocks[:, 0].reshape(CONTEXTS, -1, PROPERTIES)
    elsewhere = [blocks[context != c, c + 1] for c in range(CONTEXTS)]
    text = "The first block of labels is the same in every context, each other is active in one of them alone."
    claim.check("P2 section 4 and Fig 3", text, "3")
    claim.at_most("largest difference of the first block between contexts", np.abs(common - common[0]).max(), 0)
    claim.at_most("largest label of a context's own block elsewhere", np.abs(elsewhere).max(), 0)
    claim.check("P2 section 4", "This requires contextual control and a nonlinear network mapping to learn.", "A")
    what = "of the targets' square, no linear map learns"
    claim.at_least(what, 100 * np.sum(left**2) / np.sum(targets**2), 1, unit=" %")
    claim.check(
        "P2 Proposition 4.2 (appendix E)",
        "Once the common pathway has finished learning there is no correlation between the context features and "
        "the residual.",
        "A",
    )
    claim.at_most("largest entry of their correlation", np.abs(data["inputs"].values[:, ITEMS:].T @ left).max(), 1e-12)
    moments, nodes = (", ".join(str(int(value)) for value in data[name].values) for name in ("moment", "nodes"))
    text = "It is always possible to obtain a ReLN for a given ReLU network and task: the GDLN gated by its activity."
    claim.check("P2 Definition 3.1 and section 3", text, "C")
    claim.at_most("gap between outputs, of the largest,", data["gap"].values, 1e-12)
    claim.detail(f"at epochs {moments}; {nodes} patterns")
    wide, narrow = (data[name].values[:, -1] / data[name].values[:, 0] for name in ("wide", "rank"))
    text = "We only require as many hidden neurons as the rank of the input-output correlation: that many suffice."
    claim.paper("P2 appendix H", text, "B")
    claim.at_most("last loss, of the first,", narrow, 0.01)
    claim.detail(f"{int(data['neurons'])} neurons; with more {enumerated(wide)}")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The data set, the gated network of the text, what no linear map learns, two widths, and gate patterns."""
    figure, (inputs, targets, network, left, widths, patterns) = panels("3", "3", "3", "A", "B", "C")
    missed = np.sum(data["left"].values ** 2) / np.sum(data["targets"].values ** 2)
    for axis, name, title, rows in (
        (inputs, "inputs", "inputs: every item in every context", ITEMS),
        (targets, "targets", "targets: one block for all contexts, one for each", PROPERTIES),
        (left, "left", f"{100 * missed:.0f} % of the targets no linear map learns", PROPERTIES),
    ):
        nr.plotting.heat_map(axis, data[name].values.T, title, "context", "block", "value", blocks=(rows, ITEMS))
    problem = nr.tasks.contextual(CONTEXTS, "mixed").problem(p2.GATING, hidden=Settings().width)
    nr.plotting.draw_network(network, problem.architecture, "the gated network of the text has four pathways")
    trained = {"100 neurons per pathway": ("gated", data["wide"].values)}
    trained["as many as the rank"] = ("linear", data["rank"].values)
    title = "as many neurons as the rank learn the same, later"
    nr.plotting.loss_curves(widths, title, data["epoch"].values, trained, horizontal="epoch")
    widths.set_yscale("log")
    patterns.plot(data["moment"].values, data["nodes"].values, "o-", color=nr.plotting.COLORS["relu"])
    patterns.set_ylim(bottom=0)
    title = "as a gated network a ReLU network has hundreds of modules"
    nr.plotting.label_axes(patterns, title, "epoch", "gate patterns of its neurons")
    return figure
