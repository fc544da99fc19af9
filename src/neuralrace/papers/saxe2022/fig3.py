"""P1 Fig 3: XOR learned by a gated network with one pathway per example, and by ReLU networks."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, conserved, follows, panels, setting

FINER = 10  # how many times smaller the fine step is


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper; each of the four pathways has a quarter of the ReLU network's units."""

    seeds: int = 10
    hidden: int = setting(128, least=4)
    learning_rate: float = 0.4
    std: float = 0.0002
    steps: int = 100


full, tiny = Settings(), Settings(seeds=2, hidden=16, std=0.02, steps=40)


def compute(settings: Settings) -> xarray.Dataset:
    """Train both kinds of network from the same initializer, and forecast from that initializer."""
    xor, rate, steps, seeds = nr.tasks.xor(), settings.learning_rate, settings.steps, settings.seeds
    gated, relu = xor.problem("xor", hidden=settings.hidden // 4), nr.ReLUNetwork(xor.task, hidden=(settings.hidden,))
    initial = nr.initial.gaussian(settings.std)
    trained, run = (nr.train(network, initial, rate, steps, seeds=seeds) for network in (gated, relu))
    fine = nr.train(relu, initial, rate / FINER, steps * FINER, seeds=seeds, every=FINER)
    # draws of its own, and iterated at the step size of training, which is large here; the flow leads it
    descent = nr.predict(gated, initial, run.time, key=1, learning_rate=rate, dynamics="descent")
    data = xarray.Dataset(coords={"time": run.time})
    data["gated"], data["relu"] = (("seed", "time"), trained.loss), (("seed", "time"), run.loss)
    data["theory"] = ("time", descent.loss)
    data["theory_flow"] = ("time", nr.predict(gated, initial, run.time, key=1).loss)
    for name, finished in (("", run), ("fine_", fine)):
        weights = [finished.weights(seed) for seed in range(seeds)]
        data[f"{name}incoming"] = (("seed", "unit", "input"), np.stack([w["x", "h1"] for w in weights]))
        data[f"{name}outgoing"] = (("seed", "unit"), np.stack([w["h1", "y"][0] for w in weights]))
    data["response"] = (("seed", "unit", "example"), np.maximum(data["incoming"].values @ relu.task.inputs["x"].T, 0))
    return data


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims()
    text = "Simulations of ReLU dynamics from small weights closely track analytical solutions in the gated network."
    claim.paper("P1 Fig 3c, appendix A.1", text, "c")
    follows(claim, data, ("theory", "relu"))
    response, incoming = data["response"].values, data["incoming"].values
    ordered = np.sort(response, axis=-1)
    pure, preferred = ordered[..., -1] > 10 * ordered[..., -2], response.argmax(axis=-1)
    counts = np.stack([(pure & (preferred == example)).sum(axis=1) for example in range(4)], axis=1)
    strength = np.linalg.norm(incoming, axis=-1) * np.abs(data["outgoing"].values)
    claim.paper("P1 Fig 3a", "Input-to-hidden weights from ReLU simulations reveal four functional cell types.", "a")
    claim.at_least("units of each type in each network", counts, 1, form="g")
    what = "strength in units that respond to one example 10 times as much as to any other"
    claim.at_least(what, 100 * float((strength * pure).sum() / strength.sum()), 99, unit=" %")
    text = "Both kinds of network follow the solution for gradient flow, eqs 21-23, at the step of training."
    claim.finding("P1 eqs 21-23, Fig 3c", text, "c")
    follows(claim, data, ("theory_flow", "gated"), ("theory_flow", "relu"))
    claim.fails("at a rate of 0.4 the mode grows by 28 % in a step, and descent lags behind the flow")
    text = "Incoming and outgoing strength of a ReLU unit keep their difference."
    claim.check("algebra: the flow conserves |w_in|^2 - w_out^2", text)
    drifts = []
    for name in ("", "fine_"):
        squares = np.sum(data[f"{name}incoming"].values ** 2, axis=-1)
        drifts.append(float(np.abs(squares - data[f"{name}outgoing"].values ** 2).max() / squares.max()))
    conserved(claim, drifts, FINER, "the largest |w_in|^2")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The task with where the ReLU network's incoming weights point, the gated network, and the learning curves."""
    figure, (weights, network, loss) = panels("a", "b", "c", height=3.8)
    xor, colors, incoming = nr.tasks.xor(), nr.plotting.COLORS, data["incoming"].values[0]
    for value, sign, color in ((1.0, "+", "untrained"), (-1.0, "_", "linear")):
        examples = 1.3 * np.abs(incoming).max() * xor.task.inputs["x"][np.sign(xor.task.targets["y"][:, 0]) == value]
        label = f"examples of target {value:+.0f}, not to scale"
        weights.plot(*examples.T, sign, color=colors[color], markersize=12, markeredgewidth=3, label=label)
    weights.plot(*incoming.T, ".", color=colors["relu"], markersize=5, label="units of one ReLU network")
    weights.axhline(0, color=colors["reference"], linewidth=0.6, zorder=0)
    weights.axvline(0, color=colors["reference"], linewidth=0.6, zorder=0)
    weights.set_aspect("equal", adjustable="datalim")
    nr.plotting.label_axes(weights, "ReLU units come in four kinds", "weight from input 1", "weight from input 2")
    architecture = xor.problem("xor", hidden=data.sizes["unit"] // 4).architecture
    nr.plotting.draw_network(network, architecture, "the gated network: a pathway for each example")
    trained = {"ReLU networks": ("relu", data["relu"].values), "gated network": ("gated", data["gated"].values)}
    theory = {"theory, descent": data["theory"].values, "theory, flow": data["theory_flow"].values}
    title = "ReLU networks learn XOR as theory says of the gated one"
    nr.plotting.loss_curves(loss, title, data["time"].values, trained, theory)
    return figure
