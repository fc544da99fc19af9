"""P1 appendix A.2: contextual classification, which a linear network can half solve and a gated one solves."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.papers._curves import follows
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.plotting import loss_curves, new_panels
from neuralrace.theory import predict
from neuralrace.training import train

LIMITS = {"linear": [[0.5, 0.5]], "context": [[1.0, 0.0], [0.0, 1.0]]}  # P1 A.2: W_tot of each pathway
FLOORS = {"linear": 1 / 12, "context": 0.0}  # half of <y^2> less what the best weights explain
LEFT = 1e-6  # of the weights, what is left to learn at the end; its square, of the loss
SOURCE = "P1 appendix A.2"


@dataclass(frozen=True)
class Settings:
    """Small random weights on the exact moments of the population."""

    seeds: int = 10
    hidden: int = 16
    learning_rate: float = 0.2
    std: float = 0.01
    steps: int = 600


def compute(settings: Settings) -> xarray.Dataset:
    """Train and forecast both gatings."""
    named, law = tasks.contextual_classification(), initial.gaussian(settings.std)
    data = xarray.Dataset()
    for gating in LIMITS:
        problem = named.problem(gating, hidden=settings.hidden)
        run = train(problem, law, settings.learning_rate, settings.steps, seeds=settings.seeds)
        data = data.assign_coords(time=run.time)
        data[gating] = (("seed", "time"), run.loss)
        data[f"theory_{gating}"] = ("time", predict(problem, law, run.time, key=1).loss)
        final = [run.weights(seed) for seed in range(settings.seeds)]
        totals = [[weights[h, "y"] @ weights["x", h] for h in problem.architecture.hidden] for weights in final]
        data[f"total_{gating}"] = (("seed", f"pathway_{gating}", "input"), np.array(totals)[:, :, 0])
    return data


def claims(data: xarray.Dataset) -> Claims:
    """What the appendix derives."""
    claim = Claims()
    gaps = {gating: np.abs(data[f"total_{gating}"].values - np.array(LIMITS[gating])).max() for gating in LIMITS}
    over = {gating: abs(float(data[gating].isel(time=-1).mean()) - FLOORS[gating]) for gating in LIMITS}
    claim.paper(
        f"{SOURCE}, below eq. 25",
        "Without gates the total weights converge to the linear least squares solution [1/2 1/2], the best that a "
        "linear network can attain.",
    )
    claim.at_most("largest distance of a weight", gaps["linear"], LEFT)
    text = "With a pathway for each context the total weights converge to [1 0] and [0 1]."
    claim.paper(f"{SOURCE}, below eq. 29", text)
    claim.at_most("largest distance of a weight", gaps["context"], LEFT)
    claim.paper(SOURCE, "These weights exactly solve the nonlinear task.")
    claim.at_most("mean loss", over["context"], LEFT**2)
    claim.check(f"{SOURCE}, its moments", "The linear network ends at the loss of the least squares, 1/12.")
    claim.at_most("distance from 1/12", over["linear"], LEFT**2)
    claim.finding("P1 eq. 21", "The linear network learns as forecast.")
    follows(claim, data, "theory_linear", "linear")
    claim.finding("P1 eq. 21", "The gated network learns as forecast.")
    follows(claim, data, "theory_context", "context")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Both learning curves."""
    figure, (loss,) = new_panels(1, width=4.6)
    trained = {"linear network": ("linear", data["linear"].values)}
    trained["gated by context"] = ("gated", data["context"].values)
    theory = {"theory": np.stack([data["theory_linear"].values, data["theory_context"].values])}
    loss_curves(loss, "Gates solve what a linear network cannot", data["time"].values, trained, theory)
    loss.set_ylim(bottom=0)
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-contextual",
    full=Settings(),
    tiny=Settings(seeds=2, hidden=4, std=0.1, steps=80),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="The appendix trains no network: width, weights and step are ours.",
    finding="Without gates training ends at the best linear map, with half of the loss left; with a pathway for "
    "each context it solves the task, and both learn as forecast.",
)
