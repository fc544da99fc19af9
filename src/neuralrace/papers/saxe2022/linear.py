"""P2 Fig 7: canary, salmon, rose and oak in a two-layer linear network: modes learned one after the other."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.papers._curves import follows
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.plotting import TIME, heat_map, label_axes, loss_curves, mode_lines, new_panels
from neuralrace.theory import predict
from neuralrace.training import train


@dataclass(frozen=True)
class Settings:
    """Small random weights."""

    seeds: int = 10
    hidden: int = 32
    learning_rate: float = 0.1
    std: float = 0.001
    steps: int = 700


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast the network, mode by mode."""
    named, law = tasks.semantic(), initial.gaussian(settings.std)
    problem = named.problem("linear", hidden=settings.hidden)
    rate, seeds = settings.learning_rate, settings.seeds
    run = train(problem, law, rate, settings.steps, seeds=seeds, record="path_singular_values")
    forecast = predict(problem, law, run.time, key=1)
    (path,) = problem.architecture.paths()
    correlation = problem.statistics().input_output(path)
    left, values, right = np.linalg.svd(correlation, full_matrices=False)
    modes = np.abs(forecast.modes.path(path))
    items, properties = named.labels["x"], named.labels["y"]
    data = xarray.Dataset(coords={"time": run.time, "item": list(items), "property": list(properties)})
    data["loss"] = (("seed", "time"), run.loss)
    data["theory"] = ("time", forecast.loss)
    data["targets"] = (("item", "property"), named.task.targets["y"])
    data["left"], data["right"] = (("property", "mode"), left), (("mode", "item"), right)
    data["singular_values"] = ("mode", values)
    data["strengths"] = (("seed", "time", "mode"), run.values(f"path_singular_values[{path}]"))
    data["theory_strengths"] = (("time", "mode"), np.sort(modes[: len(values)].T, axis=1)[:, ::-1])
    return data


def claims(data: xarray.Dataset) -> Claims:
    """What the figure shows."""
    claim = Claims()
    time, measured = data["time"].values, data["strengths"].values.mean(axis=0)
    times = time[np.argmax(measured >= 0.5 * measured[-1], axis=0)]
    final = data.sizes["item"] * data["singular_values"].values  # S/D with D = 1/4 for one-hot items
    claim.paper(
        "P2 appendix A.1 and Fig 7c",
        "There is near exact agreement between the closed-form predicted dynamics and the actual dynamics of "
        "training the network.",
    )
    follows(claim, data, "theory", "loss")
    claim.paper("P2 appendix A.1, eq. 7 and Fig 7c", "Each mode increases to lambda/delta.")
    claim.at_most("largest relative distance at the end", np.abs(measured[-1] / final - 1).max(), 1e-6)
    claim.detail("what is left to learn")
    claim.finding("P2 eq. 7: each at a rate of 2 lambda", "Modes are learned in the order of their values.", "c")
    claim.rising("time to half strength", times, "the number of the mode")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The data, the input modes, the loss and the strengths of the modes."""
    figure, (targets, modes, loss, strengths) = new_panels(4, columns=2, width=4.4)
    time, items = data["time"].values, data["item"].values.tolist()
    names = (items, data["property"].values.tolist())
    title = "a  animals share some properties, plants others"
    heat_map(targets, data["targets"].values, title, "property", "item", "target", names=names)
    title = "b  the second mode tells animals from plants, the others tell items"
    heat_map(modes, data["right"].values, title, "item", "mode", "entry of the vector", names=(None, items))
    title, trained = "c  the loss falls in steps, as forecast", {"training": ("linear", data["loss"].values)}
    loss_curves(loss, title, time, trained, {"theory": data["theory"].values})
    trained = {"training": ("linear", data["strengths"].values)}
    mode_lines(strengths, time, trained, {"theory": data["theory_strengths"].values})
    label_axes(strengths, "c  strong modes first", TIME, r"singular value of $W_2 W_1$")
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-linear",
    full=Settings(),
    tiny=Settings(seeds=2, hidden=8, std=0.05, steps=200),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="The figure gives no parameters: width, weights and step are ours.",
    finding="A linear network learns the distinctions of its data one after the other, strongest first, on the "
    "closed-form curve.",
)
