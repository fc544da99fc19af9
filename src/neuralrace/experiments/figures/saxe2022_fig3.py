"""P1 Fig 3: XOR learned by a gated network with one pathway per example, and by ReLU networks."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.experiments.experiment import Claim, Experiment
from neuralrace.plotting import loss_axis, new_figure, training_band
from neuralrace.training import ReLUNetwork, train


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper; the standard deviation is the one that was run."""

    seeds: int = 10
    hidden: int = 128
    learning_rate: float = 0.4
    std: float = 0.0002
    steps: int = 200


def compute(settings: Settings) -> xarray.Dataset:
    """Train both kinds of network from the same law of initial weights."""
    xor = tasks.xor()
    law = initial.gaussian(settings.std)
    curves = {}
    for kind, network in (
        ("gated", xor.problem("xor", hidden=settings.hidden)),
        ("relu", ReLUNetwork(xor.task, hidden=(settings.hidden,))),
    ):
        run = train(network, law, settings.learning_rate, settings.steps, seeds=settings.seeds)
        curves[kind] = (("seed", "time"), run.loss)
    return xarray.Dataset(curves, coords={"time": run.time})


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    final = {kind: float(data[kind].isel(time=-1).max()) for kind in ("gated", "relu")}
    return [
        Claim(
            f"A {name} network learns XOR, which no linear network can.",
            "P1 section 3 and Fig 3",
            "every seed ends below 1e-6 (the best linear network stays at 0.5)",
            f"largest final loss {final[kind]:.2g}",
            final[kind] < 1e-6,
        )
        for kind, name in (("gated", "gated linear"), ("relu", "ReLU"))
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Both learning curves on one axis."""
    figure, axes = new_figure(width=5.2)
    axis = axes[0, 0]
    for kind, label in (("gated", "gated network, 4 pathways"), ("relu", "ReLU network")):
        training_band(axis, data["time"].values, data[kind].values, kind, label)
    loss_axis(axis, "XOR: mean and range over seeds")
    return figure


def summary(data: xarray.Dataset) -> str:
    """Both mean curves at a few times, as text."""
    chosen = np.unique(np.linspace(0, data.sizes["time"] - 1, 11).astype(int))
    lines = ["     time   gated loss    ReLU loss"]
    for index in chosen:
        moment = data.isel(time=index)
        gated, relu = float(moment["gated"].mean()), float(moment["relu"].mean())
        lines.append(f"{float(moment['time']):9.2f}   {gated:10.3e}   {relu:10.3e}")
    return "\n".join(lines)


EXPERIMENT = Experiment(
    name="saxe2022-fig3",
    title="XOR in a gated network and in ReLU networks",
    source="P1 Fig 3",
    full=Settings(),
    tiny=Settings(seeds=2, hidden=8, std=0.02, steps=60),
    compute=compute,
    claims=claims,
    draw=draw,
    summary=summary,
)
