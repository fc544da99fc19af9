"""P1 Fig 3: XOR learned by a gated network with one pathway per example, and by ReLU networks."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.papers._curves import DISTANCE, NEAR, conserved, distance, follows
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.plotting import COLORS, draw_network, label_axes, loss_curves, new_panels
from neuralrace.theory import predict
from neuralrace.training import ReLUNetwork, train

FINER = 10  # how many times smaller the fine step is
PURE = 10  # how many times as much a unit responds to its own example as to any other


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper; each of the four pathways has a quarter of the ReLU network's units."""

    seeds: int = 10
    hidden: int = setting(128, least=4)
    learning_rate: float = 0.4
    std: float = 0.0002
    steps: int = 100


def compute(settings: Settings) -> xarray.Dataset:
    """Train both kinds of network from the same law of initial weights, and forecast from that law."""
    xor = tasks.xor()
    gated, relu = xor.problem("xor", hidden=settings.hidden // 4), ReLUNetwork(xor.task, hidden=(settings.hidden,))
    law = initial.gaussian(settings.std)
    trained, run = (
        train(network, law, settings.learning_rate, settings.steps, seeds=settings.seeds) for network in (gated, relu)
    )
    rate, steps = settings.learning_rate / FINER, settings.steps * FINER
    fine = train(relu, law, rate, steps, seeds=settings.seeds, every=FINER)
    # draws of its own, and iterated at the step size of training, which is large here; the flow leads it
    descent = predict(gated, law, run.time, key=1, learning_rate=settings.learning_rate, dynamics="descent")
    flow = predict(gated, law, run.time, key=1)
    data = xarray.Dataset(coords={"time": run.time})
    data["gated"] = (("seed", "time"), trained.loss)
    data["relu"] = (("seed", "time"), run.loss)
    data["theory"] = ("time", descent.loss)
    data["theory_flow"] = ("time", flow.loss)
    for name, finished in (("", run), ("fine_", fine)):
        weights = [finished.weights(seed) for seed in range(settings.seeds)]
        data[f"{name}incoming"] = (("seed", "unit", "input"), np.stack([w["x", "h1"] for w in weights]))
        data[f"{name}outgoing"] = (("seed", "unit"), np.stack([w["h1", "y"][0] for w in weights]))
    data["response"] = (("seed", "unit", "example"), np.maximum(data["incoming"].values @ relu.inputs.T, 0))
    return data


def cell_types(data: xarray.Dataset) -> tuple[np.ndarray, float]:
    """Per seed and example, the units that respond to it PURE times as much as to any other; and their share."""
    response = np.sort(data["response"].values, axis=-1)
    pure = response[..., -1] > PURE * response[..., -2]
    preferred = data["response"].values.argmax(axis=-1)
    counts = np.stack([(pure & (preferred == example)).sum(axis=1) for example in range(4)], axis=1)
    strength = np.linalg.norm(data["incoming"].values, axis=-1) * np.abs(data["outgoing"].values)
    return counts, float((strength * pure).sum() / strength.sum())


def imbalance(data: xarray.Dataset, name: str) -> float:
    """The largest | |w_in|^2 - w_out^2 | of a unit, over the largest |w_in|^2."""
    incoming = np.sum(data[f"{name}incoming"].values ** 2, axis=-1)
    return float(np.abs(incoming - data[f"{name}outgoing"].values ** 2).max() / incoming.max())


def claims(data: xarray.Dataset) -> Claims:
    """What the figure says."""
    claim = Claims()
    flow = {kind: distance(data, "theory_flow", kind) for kind in ("gated", "relu")}
    counts, share = cell_types(data)
    text = "Simulations of ReLU dynamics from small weights closely track analytical solutions in the gated network."
    claim.paper("P1 Fig 3c, appendix A.1", text)
    follows(claim, data, "theory", "relu")
    claim.paper("P1 Fig 3a", "Input-to-hidden weights from ReLU simulations reveal four functional cell types.")
    claim.at_least("units of each type in each network", counts, 1, form="g")
    what = f"strength in units that respond to one example {PURE} times as much as to any other"
    claim.at_least(what, 100 * share, 99, unit=" %")
    claim.finding("P1 eqs 21-23", "The gated network follows the forecast.", "c")
    follows(claim, data, "theory", "gated")
    text = "Both kinds of network follow the solution for gradient flow, eqs 21-23, at the step of training."
    claim.finding("P1 eqs 21-23, Fig 3c", text)
    claim.at_most(DISTANCE, flow, NEAR)
    claim.fails("at a rate of 0.4 the mode grows by 28 % in a step, and descent lags behind the flow")
    text = "Incoming and outgoing strength of a ReLU unit keep their difference."
    claim.check("algebra: the flow conserves |w_in|^2 - w_out^2", text)
    conserved(claim, (imbalance(data, ""), imbalance(data, "fine_")), FINER, "the largest |w_in|^2")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The task with where the ReLU network's incoming weights point, the gated network, and the learning curves."""
    figure, (weights, network, loss) = new_panels(3, height=3.8)
    _draw_weights(weights, data["incoming"].values[0])
    problem = tasks.xor().problem("xor", hidden=data.sizes["unit"] // 4)
    draw_network(network, problem.architecture, "b  the gated network: a pathway for each example")
    trained = {"ReLU networks": ("relu", data["relu"].values), "gated network": ("gated", data["gated"].values)}
    theory = {"theory, descent": data["theory"].values, "theory, flow": data["theory_flow"].values}
    title = "c  ReLU networks learn XOR as theory says of the gated one"
    loss_curves(loss, title, data["time"].values, trained, theory)
    return figure


def _draw_weights(axis: Axes, weights: np.ndarray) -> None:
    """The incoming weights of the units of one network, and in which directions the examples lie."""
    task = tasks.xor().task
    reach = 1.3 * np.abs(weights).max()
    for value, sign, color in ((1.0, "+", "untrained"), (-1.0, "_", "linear")):
        examples = reach * task.inputs["x"][np.sign(task.targets["y"][:, 0]) == value]
        label = f"examples of target {value:+.0f}, not to scale"
        axis.plot(*examples.T, sign, color=COLORS[color], markersize=12, markeredgewidth=3, label=label)
    axis.plot(*weights.T, ".", color=COLORS["relu"], markersize=5, label="units of one ReLU network")
    axis.axhline(0, color=COLORS["reference"], linewidth=0.6, zorder=0)
    axis.axvline(0, color=COLORS["reference"], linewidth=0.6, zorder=0)
    axis.set_aspect("equal", adjustable="datalim")
    label_axes(axis, "a  ReLU units come in four kinds", "weight from input 1", "weight from input 2")


EXPERIMENT = Experiment(
    name="saxe2022-fig3",
    full=Settings(),
    tiny=Settings(seeds=2, hidden=16, std=0.02, steps=40),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="The text gives no initial strength of the solution: ours follows from the law of the weights, with draws "
    "of its own, and is iterated at the step of training.",
    finding="ReLU networks learn XOR along the curve that theory gives for a gated network with one pathway per "
    "example, and their units come in the four kinds that it has.",
)
