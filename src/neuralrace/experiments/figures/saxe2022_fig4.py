"""P1 Fig 4: the routing network, M = 7 domains, K = 4 trained outputs per input, against its reduction."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.analysis import Line, agreement, cosine_similarity
from neuralrace.axes import Weights
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.routing import (
    ZERO_OUTPUT,
    draw_outputs,
    draw_similarity,
    output_picture,
    paper_rate,
    representation_order,
    route_errors,
    same_item_similarity,
)
from neuralrace.plotting import COLOURS, label_axes, loss_axis, new_figure, theory_line, training_band
from neuralrace.problem import Problem
from neuralrace.tasks import NamedTask
from neuralrace.theory import Forecast, predict
from neuralrace.training import train
from neuralrace.trajectory import Trajectory

HIDDEN = ("h1", "h2")
FINER = 4


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper; `gain` is sigma_0, `decoupled` the strength of its decoupled start."""

    domains: int = 7
    trained: int = 4
    hidden: int = 64
    gain: float = 0.2
    decoupled: float = 0.08
    paper_rate: float = 0.02
    steps: int = 500
    seeds: int = 10


def compute(settings: Settings) -> xarray.Dataset:
    """Train from random and from decoupled weights, and forecast both from the statistics."""
    named = tasks.routing(settings.domains, settings.trained)
    problem = named.problem("shared", hidden=settings.hidden)
    rate = paper_rate(settings.domains, settings.trained, settings.paper_rate)
    law = initial.orthogonal(settings.gain)
    random = train(problem, law, rate, settings.steps, seeds=settings.seeds, record="weight_singular_values")
    start = initial.decoupled(settings.decoupled)(problem, 0)
    decoupled = train(problem, start, rate, settings.steps)
    kept = [_imbalance(problem, law, rate / finer, settings.steps * finer) for finer in (1, FINER)]
    forecast = predict(problem, law, random.time, key=1)  # draws of its own
    descent = predict(problem, start, random.time, learning_rate=rate, dynamics="descent")
    flow = predict(problem, start, random.time)
    naive = predict(problem, initial.decoupled(settings.gain)(problem, 0), random.time)
    data = xarray.Dataset(coords={"time": random.time, "mode": np.arange(4)})
    data["random"] = (("seed", "time"), random.loss)
    data["decoupled"] = ("time", decoupled.loss[0])
    data["theory"] = ("time", forecast.loss)
    data["theory_draws"] = (("draw", "time"), forecast.losses)
    data["theory_descent"] = ("time", descent.loss)
    data["theory_flow"] = ("time", flow.loss)
    data["theory_naive"] = ("time", naive.loss)
    data.attrs["method"] = forecast.method
    data["strengths"] = (("layer", "mode", "time"), _strengths(random, settings.domains))
    data["theory_strengths"] = (("layer", "mode", "time"), _theory_strengths(forecast, settings.domains))
    data["conserved"] = ("finer", np.array(kept))
    return _final_state(data, named, random, settings)


def _strengths(run: Trajectory, domains: int) -> np.ndarray:
    """Mean singular values of the outer matrices and those of the hidden one, (2, 4, T)."""
    names = [f"x{i}->h1" for i in range(domains)] + [f"h2->y{j}" for j in range(domains)]
    outer = np.mean([run.values(f"weight_singular_values[{name}]")[..., :4] for name in names], axis=(0, 1))
    hidden = run.values("weight_singular_values[h1->h2]")[..., :4].mean(axis=0)
    return np.stack([outer.T, hidden.T])


def _theory_strengths(forecast: Forecast, domains: int) -> np.ndarray:
    edges = [(f"x{i}", "h1") for i in range(domains)] + [("h2", f"y{j}") for j in range(domains)]
    outer = np.mean([np.abs(forecast.modes.edge(edge))[:4] for edge in edges], axis=0)
    return np.stack([outer, np.abs(forecast.modes.edge(HIDDEN))[:4]])


def _imbalance(problem: Problem, law: initial.Initialiser, rate: float, steps: int) -> float:
    """How far sum_i W_i W_i^T - W_h^T W_h at h1 drifts from its start, relative to the final W_h^T W_h."""

    def difference(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        hidden = weights[HIDDEN].T @ weights[HIDDEN]
        outer = sum(weights[edge] @ weights[edge].T for edge in problem.architecture.incoming["h1"])
        return outer - hidden, hidden

    run = train(problem, law, rate, steps, record="weights", at=[0, steps])
    (first, _), (last, hidden) = (difference(run.weights(0, record)) for record in (0, 1))
    return float(np.linalg.norm(last - first) / np.linalg.norm(hidden))


def _final_state(data: xarray.Dataset, named: NamedTask, run: Trajectory, settings: Settings) -> xarray.Dataset:
    """Similarity and outputs at the end of training, on all routes."""
    complete, problem = named.complete(), named.evaluation("shared", hidden=settings.hidden)
    errors = [route_errors(problem, run.weights(seed), complete) for seed in range(settings.seeds)]
    data["route_error"] = (("seed", "kind"), np.array(errors))
    activity = problem.activity(run.weights(0))["h1"][representation_order(complete)]
    data["similarity"] = (("example", "other"), cosine_similarity(activity))
    data["outputs"] = (("row", "column"), output_picture(problem, run.weights(0), complete))
    return data


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    return [*_loss_claims(data), *_final_claims(data)]


def _loss_claims(data: xarray.Dataset) -> list[Claim]:
    curve = Line(data["time"].values, data["random"].values)
    apart = agreement(Line(data["time"].values, data["theory"].values), curve)
    naive = agreement(Line(data["time"].values, data["theory_naive"].values), curve)
    exact = float(np.abs(data["theory_descent"] - data["decoupled"]).max() / data["decoupled"][0])
    return [
        Claim(
            "The reduction equals training from decoupled weights.",
            "P1 eq. 10 and Fig 4e",
            "paper",
            "gradient descent on the reduced system within 1e-9 of training, relative to the first loss (rounding)",
            f"{exact:.1e}",
            exact < 1e-9,
        ),
        Claim(
            "Small random weights follow the theory, with no hand-set strength.",
            "P1 section 4 and Fig 4e",
            "paper",
            "normalised L1 between the forecast from the law of the initial weights and the mean run at most 0.05",
            f"{apart.normalised_l1:.3f} (log10 gap {apart.log10_gap:.2f}; method {data.attrs['method']})",
            apart.normalised_l1 <= 0.05,
        ),
        Claim(
            "The reduction started at the strength of the random weights describes learning from random weights.",
            "P1 section 4 and Fig 4e",
            "paper",
            "normalised L1 at most 0.05 when every B(0) is sigma_0, the singular value of the random matrices",
            f"{naive.normalised_l1:.3f}",
            naive.normalised_l1 <= 0.05,
            "refuted: random matrices are not aligned with each other, so their product starts weaker than the product "
            "of their strengths; the published curve starts at 0.08 for sigma_0 = 0.2",
        ),
    ]


def _final_claims(data: xarray.Dataset) -> list[Claim]:
    outer, hidden = data["theory_strengths"].values[:, :, -1]
    measured_outer, measured_hidden = data["strengths"].values[:, 0, -1]
    ratio, wanted = measured_hidden / measured_outer, np.sqrt(data.sizes["example"] / 4)
    same = float(same_item_similarity(data["similarity"].values))
    trained, untrained = data["route_error"].values.mean(axis=0)
    coarse, fine = data["conserved"].values
    return [
        Claim(
            "The hidden singular values grow sqrt(M) times larger than the outer ones.",
            "P1 eq. 51 and Fig 4f",
            "paper",
            f"ratio of the strongest mode within 1 % of sqrt(M) = {wanted:.4f}; a limit, the theory at this "
            f"strength says {hidden[0] / outer[0]:.4f}",
            f"{ratio:.4f}",
            abs(ratio / wanted - 1) < 0.01,
        ),
        Claim(
            "M B1^2 - B2^2 is conserved, and for any weights the matrix sum_i W_i W_i^T - W_h^T W_h behind it.",
            "P1 section 4",
            "paper",
            f"from random weights its drift is first order in the step size: {FINER} times less at a step {FINER} "
            "times finer, within a factor of two",
            f"{coarse:.1e} of the final W_h^T W_h, and {fine:.1e}: {coarse / fine:.1f} times less",
            FINER / 2 < coarse / fine < 2 * FINER,
        ),
        Claim(
            "An item has the same representation whichever domain it arrives from.",
            "P1 section 4.1 and Fig 4g",
            "paper",
            "cosine between the same item in different domains at least 0.95, on average",
            f"{same:.4f}",
            same >= 0.95,
        ),
        Claim(
            "Routes that were never trained work at the end.",
            "P1 section 4.1 and Fig 4h",
            "paper",
            f"error on untrained routes below 1 % of the error of output zero, {ZERO_OUTPUT:g}",
            f"untrained {untrained:.3g}, trained {trained:.2g}",
            untrained < 0.01 * ZERO_OUTPUT,
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Loss, singular values, similarity and outputs."""
    figure, axes = new_figure(2, 2, width=4.8, height=3.6)
    time = data["time"].values
    training_band(axes[0, 0], time, data["random"].values, "gated", "training, random weights")
    axes[0, 0].plot(
        time, data["decoupled"], color=COLOURS["linear"], linewidth=1.6, label="training, decoupled weights"
    )
    theory_line(axes[0, 0], time, data["theory"].values, "theory, random weights")
    theory_line(axes[0, 0], time, data["theory_flow"].values, "theory, decoupled weights", dotted=True)
    loss_axis(axes[0, 0], "e  loss")
    for layer, (kind, name) in enumerate((("relu", "outer"), ("gated", "hidden"))):
        for mode in range(4):
            label = f"{name} matrices, training" if mode == 0 else None
            axes[0, 1].plot(time, data["strengths"][layer, mode], color=COLOURS[kind], linewidth=1.6, label=label)
            theory_line(
                axes[0, 1], time, data["theory_strengths"][layer, mode].values, "theory" if not layer + mode else None
            )
    axes[0, 1].set_xlim(right=1.9 * time[-1])
    label_axes(axes[0, 1], "f  singular values", "time t (learning rate x step)", "singular value", "center right")
    draw_similarity(axes[1, 0], data["similarity"].values, "g  similarity at h1 (cosine)")
    draw_outputs(axes[1, 1], data["outputs"].values, "h  outputs on all routes")
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-fig4",
    title="Routing: one hidden matrix shared by all domains",
    source="P1 Fig 4",
    full=Settings(),
    tiny=Settings(domains=3, trained=2, hidden=8, steps=60, paper_rate=0.05, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
