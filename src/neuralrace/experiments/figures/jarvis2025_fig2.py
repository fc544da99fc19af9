"""P2 Fig 2: between XOR and a linear margin, ReLU networks learn like the faster of two gatings."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.analysis import Line, agreement
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import COLOURS, label_axes, loss_axis, new_figure, theory_line, training_band
from neuralrace.theory import predict
from neuralrace.theory.exact import crossover_margin
from neuralrace.training import ReLUNetwork, train

CRITERION = 0.2
GATINGS = ("xor", "linear")


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper: initial variance 4e-8 / hidden; the loss is a mean there as here."""

    seeds: int = 10
    hidden: int = 128
    learning_rate: float = 0.4
    variance: float = 4e-8
    steps: int = 250
    margins: tuple[float, ...] = (0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0)
    shown: tuple[float, ...] = (0.3, 0.8, 1.5)
    draws: int = 2


def compute(settings: Settings) -> xarray.Dataset:
    """For each margin: ReLU networks trained, and both gatings forecast, iterated at the step size of training."""
    law = initial.gaussian(float(np.sqrt(settings.variance / settings.hidden)))
    rate, time = settings.learning_rate, settings.learning_rate * np.arange(settings.steps + 1)
    relu, forecasts = [], []
    for margin in settings.margins:
        named = tasks.xor(margin)
        network = ReLUNetwork(named.task, hidden=(settings.hidden,))
        relu.append(train(network, law, rate, settings.steps, seeds=settings.seeds).loss)
        curves = []
        for gating, paths in zip(GATINGS, (4, 2), strict=True):
            problem = named.problem(gating, hidden=settings.hidden // paths)
            forecast = predict(
                problem, law, time, key=1, draws=settings.draws, learning_rate=rate, dynamics="descent", method="flow"
            )
            curves.append(forecast.loss)
        forecasts.append(curves)
    return xarray.Dataset(
        {
            "relu": (("margin", "seed", "time"), np.array(relu)),
            "theory": (("margin", "gating", "time"), np.array(forecasts)),
            "crossover": ((), float(crossover_margin())),
            "shown": ("panel", np.array(settings.shown)),
        },
        coords={"margin": np.array(settings.margins), "gating": list(GATINGS), "time": time},
    )


def time_to(time: np.ndarray, loss: np.ndarray) -> float:
    """When a loss first comes down to the criterion, by interpolation; infinite if it does not."""
    below = np.flatnonzero(loss <= CRITERION)
    if not len(below):
        return float("inf")
    last = max(int(below[0]), 1)
    return float(np.interp(CRITERION, loss[[last, last - 1]], time[[last, last - 1]]))


def learning_times(data: xarray.Dataset) -> tuple[np.ndarray, np.ndarray]:
    """(margins, gatings) of the theory and (margins, seeds) of the ReLU networks."""
    time = data["time"].values
    theory = np.array([[time_to(time, curve) for curve in row] for row in data["theory"].values])
    relu = np.array([[time_to(time, curve) for curve in row] for row in data["relu"].values])
    return theory, relu


def switch(margins: np.ndarray, lead: np.ndarray) -> float:
    """The margin at which the linear gating takes the lead, between two margins by interpolation; NaN if nowhere."""
    known = np.isfinite(lead)
    places = np.flatnonzero((lead[known][:-1] < 0) & (lead[known][1:] >= 0))
    if not len(places):
        return float("nan")
    chosen = slice(int(places[0]), int(places[0]) + 2)
    return float(np.interp(0.0, lead[known][chosen], margins[known][chosen]))


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    margins, crossover = data["margin"].values, float(data["crossover"])
    theory, relu = learning_times(data)
    with np.errstate(invalid="ignore"):
        fastest, lead = theory.min(axis=1), theory[:, 1] - theory[:, 0]
        apart = np.abs(relu.mean(axis=1) / fastest - 1)
    measured = switch(margins, -lead)
    gaps = []
    for index, row in enumerate(data["theory"].values):
        curve = row[int(np.argmin(theory[index]))]
        line = Line(data["time"].values, data["relu"].values[index])
        gaps.append(agreement(Line(line.time, curve), line).normalised_l1)
    return [
        Claim(
            "Which gating is faster changes at Delta = sqrt(2/3).",
            "P2 section 3 and Fig 2d",
            "paper",
            f"the times to loss {CRITERION} of the two forecasts cross within 0.1 of {np.sqrt(2 / 3):.3f}; the growth "
            "rates cross there exactly",
            f"times cross at {measured:.3f}, rates at {crossover:.6f}",
            abs(measured - np.sqrt(2 / 3)) <= 0.1 and abs(crossover - np.sqrt(2 / 3)) < 1e-6,
        ),
        Claim(
            "The ReLU network learns in the time of the faster gating.",
            "P2 Fig 2d",
            "paper",
            f"mean time to loss {CRITERION} within 10 % of the faster forecast at every margin",
            ", ".join(f"{margin:g}: {100 * gap:.1f} %" for margin, gap in zip(margins, apart, strict=True)),
            bool(apart.max() <= 0.1),
        ),
        Claim(
            "The whole loss curve of the ReLU network is that of the faster gating.",
            "P2 Fig 2e",
            "paper",
            "normalised L1 at most 0.05 at every margin",
            ", ".join(f"{margin:g}: {gap:.3f}" for margin, gap in zip(margins, gaps, strict=True)),
            bool(max(gaps) <= 0.05),
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Learning time against the margin, and the loss curves at a few margins."""
    shown = data["shown"].values
    figure, axes = new_figure(1 + len(shown), width=3.9)
    theory, relu = learning_times(data)
    margins = data["margin"].values
    for index, (gating, kind) in enumerate(zip(GATINGS, ("gated", "linear"), strict=True)):
        axes[0, 0].plot(margins, theory[:, index], color=COLOURS[kind], label=f"theory, {gating} gating")
    finite = np.where(np.isfinite(relu), relu, np.nan)
    axes[0, 0].plot(margins, finite.mean(axis=1), "o", color=COLOURS["relu"], markersize=4, label="ReLU networks")
    times = theory[np.isfinite(theory)]
    ends = [times.min(), times.max()] if times.size else [0.0, 1.0]
    axes[0, 0].plot([float(data["crossover"])] * 2, ends, ":", color=COLOURS["reference"], label="rates equal")
    label_axes(axes[0, 0], f"d  time to loss {CRITERION}", "half margin Delta", "time t (learning rate x step)")
    time = data["time"].values
    for axis, margin in zip(axes[0, 1:], shown, strict=True):
        chosen = data.sel(margin=margin, method="nearest")
        training_band(axis, time, chosen["relu"].values, "relu", "ReLU networks")
        for index, gating in enumerate(GATINGS):
            theory_line(axis, time, chosen["theory"].values[index], f"theory, {gating}", dotted=bool(index))
        loss_axis(axis, f"e  Delta = {float(chosen['margin']):g}")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-fig2",
    title="From XOR to a linear margin: which gating a ReLU network learns by",
    source="P2 Fig 2",
    full=Settings(),
    tiny=Settings(seeds=2, hidden=8, variance=4e-3, steps=30, margins=(0.5, 1.5), shown=(0.5,), draws=1),
    compute=compute,
    claims=claims,
    draw=draw,
)
