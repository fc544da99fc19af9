"""P1 Fig 4: the routing network, M = 7 domains, K = 4 trained outputs per input, against its reduction."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.analysis import interval
from neuralrace.axes import Weights
from neuralrace.papers._curves import DISTANCE, NEAR, conserved, distance, follows
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.saxe2022 import _routing as routing
from neuralrace.plotting import (
    TIME,
    draw_network,
    heat_map,
    label_axes,
    loss_curves,
    mode_lines,
    new_panels,
    training_band,
)
from neuralrace.problem import Problem
from neuralrace.theory import Forecast, predict
from neuralrace.training import train
from neuralrace.trajectory import Trajectory

HIDDEN = ("h1", "h2")
FINER = 4  # how many times smaller the fine step is
LOOKS = 50  # at the weights, to see how near they are to decoupled ones
STARTED = 0.99  # of the first loss: from here on learning shows
SOURCE = "P1 section 4"
FEW, HIDDEN_SHOWN = 3, 64  # domains and width of the network that is drawn


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
    rate, steps = routing.paper_rate(settings.domains, settings.trained, settings.paper_rate), settings.steps
    law = initial.orthogonal(settings.gain)
    random = train(problem, law, rate, steps, seeds=settings.seeds, record="weight_singular_values")
    start = initial.decoupled(settings.decoupled)(problem, 0)
    forecast = predict(problem, law, random.time, key=1)  # draws of its own
    at = np.unique(np.linspace(0, steps, LOOKS + 1).astype(int))
    looks = train(problem, law, rate, steps, seeds=settings.seeds, record="weights", at=at.tolist())
    finer = train(problem, law, rate / FINER, steps * FINER, record="weights", at=[0, steps * FINER])
    data = xarray.Dataset(coords={"time": random.time, "mode": np.arange(4), "look_time": looks.time})
    data["random"] = (("seed", "time"), random.loss)
    data["decoupled"] = ("time", train(problem, start, rate, steps).loss[0])
    data["theory"] = ("time", forecast.loss)
    data["theory_descent"] = ("time", predict(problem, start, random.time, learning_rate=rate, dynamics="descent").loss)
    data["theory_flow"] = ("time", predict(problem, start, random.time).loss)
    naive = initial.decoupled(settings.gain)(problem, 0)
    data["theory_naive"] = ("time", predict(problem, naive, random.time).loss)
    data["strengths"] = (("layer", "seed", "time", "mode"), _strengths(random, settings.domains))
    data["theory_strengths"] = (("layer", "time", "mode"), _theory_strengths(forecast, settings.domains))
    data["conserved"] = ("finer", np.array([_drift(problem, looks), _drift(problem, finer)]))
    data["crosstalk"] = (("seed", "look_time"), _crosstalk(problem, looks, settings))
    return data.merge(routing.final_state(named, random, settings.hidden))


def _strengths(run: Trajectory, domains: int) -> np.ndarray:
    """Mean singular values of the outer matrices and those of the hidden one, (2, seeds, T, 4)."""
    names = [f"x{i}->h1" for i in range(domains)] + [f"h2->y{j}" for j in range(domains)]
    outer = np.mean([run.values(f"weight_singular_values[{name}]")[..., :4] for name in names], axis=0)
    return np.stack([outer, run.values("weight_singular_values[h1->h2]")[..., :4]])


def _theory_strengths(forecast: Forecast, domains: int) -> np.ndarray:
    """The same of the forecast, (2, T, 4)."""
    outer = [(f"x{i}", "h1") for i in range(domains)] + [("h2", f"y{j}") for j in range(domains)]
    *around, hidden = (np.abs(strengths[:4]).T for strengths in forecast.modes.of_edges([*outer, HIDDEN]))
    return np.stack([np.mean(around, axis=0), hidden])


def _drift(problem: Problem, run: Trajectory) -> float:
    """How far sum_i W_i W_i^T - W_h^T W_h at h1 drifts from its start, relative to the final W_h^T W_h."""

    def difference(weights: Weights) -> tuple[np.ndarray, np.ndarray]:
        hidden = weights[HIDDEN].T @ weights[HIDDEN]
        outer = sum(weights[edge] @ weights[edge].T for edge in problem.architecture.incoming["h1"])
        return outer - hidden, hidden

    (first, _), (last, hidden) = (difference(run.weights(0, record)) for record in (0, len(run.time) - 1))
    return float(np.linalg.norm(last - first) / np.linalg.norm(hidden))


def _crosstalk(problem: Problem, run: Trajectory, settings: Settings) -> np.ndarray:
    """The part of the maps of all routes, trained or not, that lies between different modes, (seeds, looks).

    Of |U^T W_j W_h W_i V|^2, summed over routes, what is off the diagonal; the two equal modes count as one block. Zero
    for decoupled weights that are shared by all domains.
    """
    left, values, right = np.linalg.svd(problem.statistics().input_output(problem.architecture.paths()[0]))
    padded = np.append(values, np.full(len(left) - len(values), -1.0))
    own = np.isclose(padded[:, None], values)
    found = np.zeros((settings.seeds, len(run.time)))
    for seed, look in np.ndindex(*found.shape):
        weights = run.weights(seed, look)
        inner = np.stack([weights[f"x{i}", "h1"] @ right.T for i in range(settings.domains)])
        outer = np.stack([left.T @ weights["h2", f"y{j}"] for j in range(settings.domains)])
        squares = np.einsum("jah,hk,ikb->ijab", outer, weights[HIDDEN], inner, optimize=True) ** 2
        found[seed, look] = squares[..., ~own].sum() / squares.sum()
    return found


def claims(data: xarray.Dataset) -> Claims:
    """What the figure says, in its order."""
    claim = Claims()
    _loss_claims(claim, data)
    _strength_claims(claim, data)
    _final_claims(claim, data)
    return claim


def _loss_claims(claim: Claims, data: xarray.Dataset) -> None:
    exact = float(np.abs(data["theory_descent"] - data["decoupled"]).max() / data["decoupled"][0])
    claim.paper("P1 eq. 15 and Fig 4e", "The theory matches the decoupled simulations exactly.")
    what = "largest distance of descent on the reduced system from training, relative to the first loss,"
    claim.at_most(what, exact, 1e-12)
    claim.detail("rounding")
    text = "The theory is a good approximation for small random weights."
    claim.paper("P1 section 4 and Fig 4e, the published curve: decoupled weights of 0.08", text)
    follows(claim, data, "theory_descent", "random")
    text = "Small random weights follow a forecast from their law, with no strength set by hand."
    claim.finding(f"{SOURCE}, from the law of the weights", text, "e")
    follows(claim, data, "theory", "random")
    text = "The reduction started at the strength of the random weights, B(0) = sigma_0, describes their learning."
    claim.finding("P1 Fig 4e with sigma_0 = 0.2, the only strength in the text", text)
    claim.at_most(DISTANCE, distance(data, "theory_naive", "random"), NEAR)
    claim.fails(
        "random matrices are not aligned with each other, so their product starts weaker than the "
        "product of their strengths; the published curve starts at 0.08 for sigma_0 = 0.2"
    )
    source = "P1 section 4.2"
    claim.paper(source, "The full solution dynamics rapidly converge to the submanifold of decoupled weights.", "A")
    what = f"when {1 - STARTED:.0%} of the loss is gone, part of all routes' maps that lies between different modes"
    claim.at_most(what, interval(_when_started(data)), 0.1)
    claim.detail(
        f"at the start {float(data['crosstalk'][:, 0].mean()):.2g}, at the end "
        f"{float(data['crosstalk'][:, -1].mean()):.1g}"
    )


def _when_started(data: xarray.Dataset) -> np.ndarray:
    """The crosstalk of every seed at its first look after learning shows in the loss."""
    loss = data["random"].sel(time=data["look_time"].values, method="nearest").values
    first = np.argmax(loss <= STARTED * loss[:, :1], axis=1)
    return np.take_along_axis(data["crosstalk"].values, first[:, None], axis=1)[:, 0]


def _strength_claims(claim: Claims, data: xarray.Dataset) -> None:
    outer, hidden = data["strengths"].values[:, :, -1]  # (seeds, modes)
    theory = data["theory_strengths"].values
    apart = np.abs(data["strengths"].values.mean(axis=1) - theory).sum(axis=(0, 1)) / theory.sum(axis=(0, 1))
    root = np.sqrt(data.sizes["example"] / 4)
    ratios = (hidden / outer).mean(axis=0)
    by_value = np.append(apart[:2], apart[2:].mean())  # the last two are equal: which is which is arbitrary
    said = ", ".join(f"{ratio:.3f}" for ratio in theory[1, -1] / theory[0, -1])
    claim.paper(
        "P1 eq. 51 and Fig 4f",
        "The singular values of the hidden weight matrix are larger than those in input or output matrices by a "
        "factor sqrt(M).",
    )
    what = f"ratio of the strongest mode, in units of sqrt(M) = {root:.4f},"
    claim.within(what, ratios[0] / root, (0.99, 1.01), form=".4g")
    claim.finding("P1 eq. 51 and Fig 4f", "The factor is near sqrt(M), the limit of long training, for every mode.")
    claim.within("ratio, in units of sqrt(M),", ratios / root, (0.95, 1.05), form=".4g")
    claim.detail(f"the forecast says {said} for the ratios")
    claim.paper("P1 Fig 4f", "Theoretical predictions match simulations well, particularly for larger singular values.")
    claim.at_most("normalized L1 of the strengths over time, by singular value,", by_value, NEAR)
    claim.at_most("the worse of the larger two over the smallest's", by_value[:2].max() / by_value[2], 1)
    text = "M B1^2 - B2^2 is conserved, and for any weights the matrix sum_i W_i W_i^T - W_h^T W_h behind it."
    claim.check(SOURCE, text, "f")
    conserved(claim, tuple(data["conserved"].values), FINER, "the final W_h^T W_h")


def _final_claims(claim: Claims, data: xarray.Dataset) -> None:
    same = routing.same_item_similarity(data["similarity"].values)
    trained, untrained = data["error"].values.T
    text = "Each individual example maps to the same representation regardless of what input domain it arrives on."
    claim.paper("P1 section 4.1 and Fig 4g", text)
    claim.at_least("mean cosine between the same item in different domains", interval(same), 0.95)
    text = "The network generalizes perfectly to input-output routes that were never seen during training."
    claim.paper("P1 section 4.1 and Fig 4h", text)
    what = f"largest error on untrained routes, in parts of the error of output zero, {routing.ZERO_OUTPUT:g},"
    claim.at_most(what, untrained.max() / routing.ZERO_OUTPUT, 1e-4)
    claim.detail(f"of {len(untrained)} seeds; on trained routes {trained.max() / routing.ZERO_OUTPUT:.1g}")


def draw(data: xarray.Dataset) -> Figure:
    """The network and its task, loss and singular values over time, similarity and outputs at the end."""
    figure, (*task, loss, strengths, crosstalk, similarity, outputs) = new_panels(8, height=3.5)
    _draw_task(data, task)
    time, seven = data["time"].values, (data["strengths"].values, data["theory_strengths"].values)
    trained = {"training, random weights": ("gated", data["random"].values)}
    trained["training, decoupled"] = ("linear", data["decoupled"].values)
    theory = {"theory, random weights": data["theory"].values, "theory, decoupled": data["theory_flow"].values}
    loss_curves(loss, "e  one mode after the other, as theory says", time, trained, theory)
    names = (("linear", "outer\nmatrices"), ("gated", "hidden\nmatrix"))
    for (kind, name), seen, said in zip(names, *seven, strict=True):
        mode_lines(strengths, time, {name: (kind, seen)}, {"_": said})
    title = r"f  the shared matrix is $\sqrt{M}$ times as strong"
    label_axes(strengths, title, TIME, "singular value", "ends")
    training_band(crosstalk, data["look_time"].values, data["crosstalk"].values, "gated", None)
    label_axes(crosstalk, "A  weights decouple before learning shows", TIME, "part of the maps between modes")
    routing.draw_similarity(similarity, data["similarity"].values[0], "g  an item looks the same in every domain")
    routing.draw_outputs(outputs, data["outputs"].values[0], "h  routes that were never trained work")
    return figure


def _draw_task(data: xarray.Dataset, axes: Iterable[Axes]) -> None:
    """The network with few domains, the data set of every route, and which routes are trained."""
    network, items, routes = axes
    few = tasks.routing(FEW, FEW).problem("shared", hidden=HIDDEN_SHOWN)
    title = f"a, b  {FEW} of {data.sizes['source']} domains: all routes share the hidden matrix"
    draw_network(network, few.architecture, title)
    heat_map(items, routing.BASE, "c  all routes have the same targets", "output", "item", "target")
    pairs = data["trained"].values.astype(float)
    title = f"d  each input is trained with {pairs[0].sum():.0f} of {len(pairs)} outputs"
    heat_map(routes, pairs, title, "output domain", "input domain", "trained")


EXPERIMENT = Experiment(
    name="saxe2022-fig4",
    full=Settings(),
    tiny=Settings(domains=3, trained=2, hidden=8, steps=60, paper_rate=0.05, seeds=2),
    compute=compute,
    check=lambda settings: tasks.routing(settings.domains, settings.trained),
    claims=claims,
    draw=draw,
    differs="Inputs are the identity, equal to random orthogonal vectors up to a rotation. The published theory starts "
    "at 0.08 and is iterated at the step of training; neither is in the text. Random weights are orthogonal matrices, "
    "as was run, and not Xavier's.",
    finding="One hidden matrix serves all routes: theory matches training from decoupled weights to rounding and "
    "from small random ones to a few percent, and routes that were never trained work.",
)
