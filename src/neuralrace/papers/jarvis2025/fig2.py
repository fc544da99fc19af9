"""P2 Fig 2: between XOR and a linear margin, ReLU networks learn like the faster of two gatings, and decide like it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure
from scipy.optimize import brentq

import neuralrace as nr
from neuralrace.papers._common import Claims, apart, panels, setting
from neuralrace.papers.jarvis2025 import _contextual as p2

CRITERION = 0.2  # the loss to which learning is timed
CROSSOVER = float(np.sqrt(2 / 3))
NEAR = 0.1  # of the crossover: as the margins lie to each other there
GATINGS = {"xor": 4, "linear": 2}  # and their pathways


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper: initial variance 4e-8 / hidden; the loss is a mean there as here."""

    seeds: int = 10
    hidden: int = setting(128, least=4)
    learning_rate: float = 0.4
    variance: float = 4e-8
    steps: int = 250
    margins: tuple[float, ...] = setting((0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0), least=0)


full, tiny = Settings(), Settings(seeds=2, hidden=8, variance=4e-3, steps=30, margins=(0.5, 1.5))


def compute(settings: Settings) -> xarray.Dataset:
    """For each margin: ReLU networks trained, and both gatings forecast, iterated at the step size of training."""
    initial = nr.initial.gaussian(float(np.sqrt(settings.variance / settings.hidden)))
    rate, parts = settings.learning_rate, []
    for margin in settings.margins:
        named, data = nr.tasks.xor(margin), xarray.Dataset()
        network = nr.ReLUNetwork(named.task, hidden=(settings.hidden,))
        run = nr.train(network, initial, rate, settings.steps, seeds=settings.seeds)
        way: dict[str, Any] = {"key": 1, "draws": 2, "method": "flow", "learning_rate": rate}
        problems = [named.problem(gating, hidden=settings.hidden // paths) for gating, paths in GATINGS.items()]
        theory = [nr.predict(one, initial, run.time, dynamics="descent", **way).loss for one in problems]
        data["relu"], data["theory"] = (("seed", "time"), run.loss), (("gating", "time"), np.array(theory))
        inputs, targets = named.task.inputs["x"], named.task.targets["y"]
        data["share"] = ("seed", [xor_share(run.weights(seed), inputs, targets) for seed in range(settings.seeds)])
        parts.append(data)
    found = xarray.concat(parts, "margin").assign_coords(margin=list(settings.margins), gating=list(GATINGS))
    found["crossover"] = brentq(lambda margin: growth_rate(margin, "xor") - growth_rate(margin, "linear"), 0.05, 10.0)
    return found.assign_coords(time=run.time)


def growth_rate(margin: float, gating: str) -> float:
    """The largest singular value that a pathway sees: from small weights its strength grows at twice this rate."""
    statistics = nr.tasks.xor(margin).problem(gating).statistics()
    return max(float(np.linalg.norm(statistics.input_output(path), 2)) for path in statistics.open_paths)


def xor_share(weights: Mapping[Any, np.ndarray], inputs: np.ndarray, targets: np.ndarray) -> float:
    """How much of the decision comes from the first two features: 1 for the XOR gating, 0 for the linear one.

    The remaining part of the answers if the third feature is taken away, over what the XOR gating would have left: its
    neurons lie along the examples, so that is 2 of 2 + Delta^2.
    """
    without = inputs * [1.0, 1.0, 0.0]
    answers = (np.maximum(rows @ weights["x", "h1"].T, 0) @ weights["h1", "y"].T for rows in (without, inputs))
    left, whole = (float(np.sum(targets * answer)) for answer in answers)
    return left / whole * float(np.sum(inputs[0] ** 2) / np.sum(without[0] ** 2))


def claims(data: xarray.Dataset) -> Claims:
    claim, margins, time = Claims(), data["margin"].values, data["time"].values
    theory, relu = (nr.analysis.time_to(time, data[name].values, CRITERION) for name in ("theory", "relu"))
    with np.errstate(invalid="ignore"):
        lead = theory[:, 1] - theory[:, 0]
        late = 100 * np.abs(relu.mean(axis=1) / theory.min(axis=1) - 1)
    faster = [rows[int(np.argmin(times))] for rows, times in zip(data["theory"].values, theory, strict=True)]
    gaps = [apart(time, curve, runs).normalized_l1 for curve, runs in zip(faster, data["relu"].values, strict=True)]
    text = "Which gating structure is fastest changes at Delta = sqrt(2/3)."
    claim.paper("P2 Fig 2d (caption) and section 3", text, "d")
    what = f"the times to loss {CRITERION} of the two forecasts cross at"
    claim.within(
        what, nr.analysis.time_to(margins, lead, 0.0), (CROSSOVER - NEAR / 2, CROSSOVER + NEAR / 2), form=".3f"
    )
    text = "The growth rates of the two gatings are equal at Delta = sqrt(2/3)."
    claim.check("P2 appendix C, eqs 24-26", text, "B, d")
    claim.at_most("distance of the crossing from there", abs(float(data["crossover"]) - CROSSOVER), 1e-6)
    text = "The ReLU network behaves like the faster of the two gated networks: in the time that it takes."
    claim.paper("P2 Fig 2d (caption)", text, "d")
    what = f"distance of the mean time to loss {CRITERION} from the time of the faster forecast, by margin,"
    claim.at_most(what, dict(zip(margins, late, strict=True)), 5, unit=" %", form=".1f")
    text = "The full trajectories of the simulation match the faster of the gated networks."
    claim.paper("P2 Fig 2e (caption)", text, "e")
    claim.at_most("normalized L1, by margin,", dict(zip(margins, gaps, strict=True)), p2.L1, form=".3f")
    share = data["share"].values
    small, large = margins <= CROSSOVER - NEAR, margins >= CROSSOVER + NEAR
    claim.paper(
        "P2 section 3 and Fig 2a-c",
        "sqrt(2/3) marks the approximate point at which a ReLU network switches from a linear decision boundary to "
        "a nonlinear boundary.",
        "B",
    )
    what = "half of the decision comes from the first two features, in the mean network, at margin"
    switch = nr.analysis.time_to(margins, share.mean(axis=1), 0.5)
    claim.within(what, switch, (CROSSOVER - NEAR, CROSSOVER + NEAR), form=".3f")
    claim.paper(
        "P2 section 3",
        "ReLU networks have a bias toward linear decision boundaries when the margin is large, and can adopt "
        "nonlinear ones even when a problem is linearly separable.",
        "B",
    )
    claim.at_least(f"share of XOR in every network up to margin {margins[small].max(initial=0):g}", share[small], 0.5)
    claim.at_most(f"and from margin {margins[large].min(initial=9):g} on", share[large], 0.5)
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The task, both gated networks, learning time and decision against the margin, and loss curves."""
    chosen = [data.sel(margin=margin, method="nearest") for margin in (0.3, 0.8, 1.5)]
    figure, (plane, linear, xor, speed, share, *others) = panels("a", "b", "c", "d", "B", "e", "e", "e", height=3.5)
    named, colors, label_axes = nr.tasks.xor(CROSSOVER), nr.plotting.COLORS, nr.plotting.label_axes
    for value, sign, color, third in ((1.0, "+", "untrained", r"$+\Delta$"), (-1.0, "_", "linear", r"$-\Delta$")):
        examples = named.task.inputs["x"][np.sign(named.task.targets["y"][:, 0]) == value]
        label = f"target {value:+.0f}, third feature {third}"
        plane.plot(*examples[:, :2].T, sign, color=colors[color], markersize=12, markeredgewidth=3, label=label)
    plane.margins(0.4)
    title = r"XOR in two features, and a margin of 2 $\Delta$ in the third"
    label_axes(plane, title, "first feature", "second feature")
    for axis, gating, words in (
        (linear, "linear", "the linear gating: a pathway for each answer"),
        (xor, "xor", "the XOR gating: a pathway for each example"),
    ):
        problem = named.problem(gating, hidden=Settings.hidden // GATINGS[gating])
        nr.plotting.draw_network(axis, problem.architecture, words)
    margins, time, horizontal = data["margin"].values, data["time"].values, r"half margin $\Delta$"
    theory, relu = (nr.analysis.time_to(time, data[name].values, CRITERION) for name in ("theory", "relu"))
    for index, gating in enumerate(GATINGS):
        curve = np.where(np.isfinite(theory[:, index]), theory[:, index], np.nan)
        nr.plotting.theory_line(speed, margins, curve, f"theory, {gating} gating", dotted=bool(index))
    for row, margin in zip(np.where(np.isfinite(relu), relu, np.nan), margins, strict=True):
        speed.plot([margin] * 2, [row.min(), row.max()], color=colors["relu"], linewidth=3, alpha=0.4)
    speed.plot(margins, relu.mean(axis=1), "o", color=colors["relu"], markersize=4, label="ReLU networks")
    title = f"ReLU networks take the time of the faster gating to loss {CRITERION}"
    label_axes(speed, title, horizontal, nr.plotting.TIME)
    share.plot(margins, data["share"].values, ".", color=colors["relu"], markersize=4)
    share.lines[0].set_label("ReLU networks")
    line = (np.array([CROSSOVER] * 2), np.array([0.0, 1.0]))
    nr.plotting.theory_line(share, *line, "theory: both gatings are as fast")
    label_axes(share, "networks change from XOR to a linear decision", horizontal, "share of XOR in the decision")
    for axis, one in zip(others, chosen, strict=True):
        first = int(np.argmin(nr.analysis.time_to(time, one["theory"].values, CRITERION)))
        title = rf"$\Delta$ = {float(one['margin']):g}: learned as the faster gating, {list(GATINGS)[first]}"
        curves = {f"theory, {gating} gating": one["theory"].values[index] for index, gating in enumerate(GATINGS)}
        nr.plotting.loss_curves(axis, title, time, {"ReLU networks": ("relu", one["relu"].values)}, curves)
    return figure
