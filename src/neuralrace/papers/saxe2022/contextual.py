"""P1 appendix A.2: contextual classification, which a linear network can half solve and a gated one solves."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, follows, panels

LIMITS = {"linear": [[0.5, 0.5]], "context": [[1.0, 0.0], [0.0, 1.0]]}  # P1 A.2: W_tot of each pathway


@dataclass(frozen=True)
class Settings:
    """Small random weights on the exact moments of the population."""

    seeds: int = 10
    hidden: int = 16
    learning_rate: float = 0.2
    std: float = 0.01
    steps: int = 600


full, tiny = Settings(), Settings(seeds=2, hidden=4, std=0.1, steps=80)


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast both gatings."""
    named, initial = nr.tasks.contextual_classification(), nr.initial.gaussian(settings.std)
    data = xarray.Dataset()
    for gating in LIMITS:
        problem = named.problem(gating, hidden=settings.hidden)
        run = nr.train(problem, initial, settings.learning_rate, settings.steps, seeds=settings.seeds)
        data = data.assign_coords(time=run.time)
        data[gating] = (("seed", "time"), run.loss)
        data[f"theory_{gating}"] = ("time", nr.predict(problem, initial, run.time, key=1).loss)
        paths = problem.architecture.paths()
        totals = [[path.product(run.weights(seed))[0] for path in paths] for seed in range(settings.seeds)]
        data[f"total_{gating}"] = (("seed", f"pathway_{gating}", "input"), np.array(totals))
    return data


def claims(data: xarray.Dataset) -> Claims:
    claim, source = Claims(), "P1 appendix A.2"
    left = 1e-6  # part of the weights that remains to be learned at the end; its square, of the loss
    gaps = {gating: np.abs(data[f"total_{gating}"].values - np.array(LIMITS[gating])).max() for gating in LIMITS}
    last = {gating: float(data[gating].isel(time=-1).mean()) for gating in LIMITS}
    claim.paper(
        f"{source}, below eq. 25",
        "Without gates the total weights converge to the linear least squares solution [1/2 1/2], the best that a "
        "linear network can attain.",
    )
    claim.at_most("largest distance of a weight", gaps["linear"], left)
    text = "With a pathway for each context the total weights converge to [1 0] and [0 1]."
    claim.paper(f"{source}, below eq. 29", text)
    claim.at_most("largest distance of a weight", gaps["context"], left)
    claim.paper(source, "These weights exactly solve the nonlinear task.")
    claim.at_most("mean loss", abs(last["context"]), left**2)
    claim.check(f"{source}, its moments", "The linear network ends at the loss of the least squares, 1/12.")
    claim.at_most("distance from 1/12", abs(last["linear"] - 1 / 12), left**2)
    claim.finding("P1 eq. 21", "Both networks learn as forecast.")
    follows(claim, data, *((f"theory_{gating}", gating) for gating in LIMITS))
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Both learning curves."""
    figure, (loss,) = panels("A.2", width=4.6)
    linear, gated = data["linear"].values, data["context"].values
    trained = {"linear network": ("linear", linear), "gated by context": ("gated", gated)}
    theory = {"theory": np.stack([data["theory_linear"].values, data["theory_context"].values])}
    nr.plotting.loss_curves(loss, "Gates solve what a linear network cannot", data["time"].values, trained, theory)
    loss.set_ylim(bottom=0)
    return figure
