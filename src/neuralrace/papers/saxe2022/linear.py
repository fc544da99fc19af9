"""P2 Fig 7: canary, salmon, rose and oak in a two-layer linear network: modes learned one after the other."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, follows, panels


@dataclass(frozen=True)
class Settings:
    """Small random weights."""

    seeds: int = 10
    hidden: int = 32
    learning_rate: float = 0.1
    std: float = 0.001
    steps: int = 700


full, tiny = Settings(), Settings(seeds=2, hidden=8, std=0.05, steps=200)


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast the network, mode by mode."""
    named, initial = nr.tasks.semantic(), nr.initial.gaussian(settings.std)
    problem, rate = named.problem("linear", hidden=settings.hidden), settings.learning_rate
    run = nr.train(problem, initial, rate, settings.steps, seeds=settings.seeds, record="path_singular_values")
    forecast = nr.predict(problem, initial, run.time, key=1)
    (path,) = problem.architecture.paths()
    _, values, right = np.linalg.svd(problem.statistics().input_output(path), full_matrices=False)
    modes = np.abs(forecast.modes.path(path))[: len(values)]
    labels = {"item": list(named.task.names["x"]), "property": list(named.task.names["y"])}
    data = xarray.Dataset(coords={"time": run.time} | labels)
    data["loss"], data["theory"] = (("seed", "time"), run.loss), ("time", forecast.loss)
    data["targets"] = (("item", "property"), named.task.targets["y"])
    data["right"], data["singular_values"] = (("mode", "item"), right), ("mode", values)
    data["strengths"] = (("seed", "time", "mode"), run.values(f"path_singular_values[{path}]"))
    data["theory_strengths"] = (("time", "mode"), np.sort(modes.T, axis=1)[:, ::-1])
    return data


def claims(data: xarray.Dataset) -> Claims:
    claim, last = Claims(), data["strengths"].values.mean(axis=0)[-1]
    final = data.sizes["item"] * data["singular_values"].values  # S/D with D = 1/4 for one-hot items
    claim.paper(
        "P2 appendix A.1 and Fig 7c",
        "There is near exact agreement between the closed-form predicted dynamics and the actual dynamics of "
        "training the network.",
        "c",
    )
    follows(claim, data, ("theory", "loss"))
    claim.paper("P2 appendix A.1, eq. 7 and Fig 7c", "Each mode increases to lambda/delta.", "c")
    claim.at_most("largest relative distance at the end", np.abs(last / final - 1).max(), 1e-6)
    claim.detail("the part not yet learned")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The data, the input modes, the loss and the strengths of the modes."""
    figure, (targets, modes, loss, strengths) = panels("a", "b", "c", "c", columns=2, width=4.4)
    time, items = data["time"].values, data["item"].values.tolist()
    names, words = (items, data["property"].values.tolist()), ("property", "item", "target")
    title = "animals share some properties, plants others"
    nr.plotting.heat_map(targets, data["targets"].values, title, *words, names=names)
    title, words = "the second mode tells animals from plants, the others items", ("item", "mode", "entry")
    nr.plotting.heat_map(modes, data["right"].values, title, *words, names=(None, items))
    trained, theory = {"training": ("linear", data["loss"].values)}, {"theory": data["theory"].values}
    nr.plotting.loss_curves(loss, "the loss falls in steps, as forecast", time, trained, theory)
    trained = {"training": ("linear", data["strengths"].values)}
    nr.plotting.mode_lines(strengths, time, trained, {"theory": data["theory_strengths"].values})
    nr.plotting.label_axes(strengths, "strong modes first", nr.plotting.TIME, r"singular value of $W_2 W_1$")
    return figure
