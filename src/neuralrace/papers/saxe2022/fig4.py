"""P1 Fig 4: the routing network, M = 7 domains, K = 4 trained outputs per input, against its reduction."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import NEAR, Claims, conserved, follows, panels
from neuralrace.papers.saxe2022 import _routing as routing

HIDDEN = ("h1", "h2")


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


full, tiny = Settings(), Settings(domains=3, trained=2, hidden=8, steps=60, paper_rate=0.05, seeds=2)
check = routing.check


def compute(settings: Settings) -> xarray.Dataset:
    """Train from random and from decoupled weights, and forecast both from the statistics."""
    named, steps = nr.tasks.routing(settings.domains, settings.trained), settings.steps
    problem = named.problem("shared", hidden=settings.hidden)
    rate = routing.paper_rate(settings.domains, settings.trained, settings.paper_rate)
    initial = nr.initial.orthogonal(settings.gain)
    run = nr.train(problem, initial, rate, steps, seeds=settings.seeds, record="weight_singular_values")
    start = nr.initial.decoupled(settings.decoupled)(problem, 0)
    forecast = nr.predict(problem, initial, run.time, key=1)  # draws of its own
    at = np.unique(np.linspace(0, steps, 51).astype(int)).tolist()
    looks = nr.train(problem, initial, rate, steps, seeds=settings.seeds, record="weights", at=at)
    many = steps * routing.FINER
    finer = nr.train(problem, initial, rate / routing.FINER, many, record="weights", at=[0, many])
    descent = nr.predict(problem, start, run.time, learning_rate=rate, dynamics="descent")
    data = xarray.Dataset(coords={"time": run.time, "mode": np.arange(4), "look_time": looks.time})
    data["random"] = (("seed", "time"), run.loss)
    data["decoupled"] = ("time", nr.train(problem, start, rate, steps).loss[0])
    data["theory"], data["theory_descent"] = ("time", forecast.loss), ("time", descent.loss)
    data["theory_flow"] = ("time", nr.predict(problem, start, run.time).loss)
    domains = range(settings.domains)
    edges = [*((f"x{i}", "h1") for i in domains), *(("h2", f"y{j}") for j in domains)]
    *outer, hidden = (run.values(f"weight_singular_values[{a}->{b}]")[..., :4] for a, b in (*edges, HIDDEN))
    data["strengths"] = (("layer", "seed", "time", "mode"), np.stack([np.mean(outer, axis=0), hidden]))
    *outer, hidden = (np.abs(strengths[:4]).T for strengths in forecast.modes.of_edges([*edges, HIDDEN]))
    data["theory_strengths"] = (("layer", "time", "mode"), np.stack([np.mean(outer, axis=0), hidden]))
    data["conserved"] = ("finer", np.array([drift(problem, looks), drift(problem, finer)]))
    data["crosstalk"] = (("seed", "look_time"), crosstalk(problem, looks))
    return data.merge(routing.final_state(named, run, settings.hidden))


def drift(problem: nr.Problem, run: nr.Trajectory) -> float:
    """Measure how far sum_i W_i W_i^T - W_h^T W_h at h1 drifts, relative to the final W_h^T W_h."""
    conserved = []
    for record in (0, len(run.time) - 1):
        weights = run.weights(0, record)
        hidden = weights[HIDDEN].T @ weights[HIDDEN]
        conserved.append(sum(weights[edge] @ weights[edge].T for edge in problem.architecture.incoming["h1"]) - hidden)
    return float(np.linalg.norm(conserved[1] - conserved[0]) / np.linalg.norm(hidden))


def crosstalk(problem: nr.Problem, run: nr.Trajectory) -> np.ndarray:
    """Compute the part of the maps of all routes, trained or not, that lies between different modes, (seeds, looks).

    This is the part of |U^T W_j W_h W_i V|^2, summed over routes, off the diagonal; the two equal modes count as one
    block. It is zero for decoupled weights that all domains share.
    """
    left, values, right = np.linalg.svd(problem.statistics().input_output(problem.architecture.paths()[0]))
    padded = np.append(values, np.full(len(left) - len(values), -1.0))
    own = np.isclose(padded[:, None], values)
    found = np.zeros((len(run.loss), len(run.time)))
    for seed, look in np.ndindex(*found.shape):
        weights = run.weights(seed, look)
        inner = np.stack([weights[node, "h1"] @ right.T for node in problem.architecture.inputs])
        outer = np.stack([left.T @ weights["h2", node] for node in problem.architecture.outputs])
        squares = np.einsum("jah,hk,ikb->ijab", outer, weights[HIDDEN], inner, optimize=True) ** 2
        found[seed, look] = squares[..., ~own].sum() / squares.sum()
    return found


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims()
    exact = float(np.abs(data["theory_descent"] - data["decoupled"]).max() / data["decoupled"][0])
    claim.paper("P1 eq. 15 and Fig 4e", "The theory matches the decoupled simulations exactly.", "e")
    what = "largest distance of descent on the reduced system from training, relative to the first loss,"
    claim.at_most(what, exact, 1e-12)
    claim.detail("rounding")
    source = "P1 section 4 and Fig 4e, the published curve: decoupled weights of 0.08"
    claim.paper(source, "The theory is a good approximation for small random weights.", "e")
    follows(claim, data, ("theory_descent", "random"))
    text = "Small random weights follow a forecast from their initializer, with no strength set by hand."
    claim.finding("P1 section 4", text, "e")
    follows(claim, data, ("theory", "random"))
    text = "The full solution dynamics rapidly converge to the submanifold of decoupled weights."
    claim.paper("P1 section 4.2", text, "A")
    loss = data["random"].sel(time=data["look_time"].values, method="nearest").values
    first = np.argmax(loss <= 0.99 * loss[:, :1], axis=1)[:, None]
    between = data["crosstalk"].values
    what = "when 1% of the loss is gone, part of all routes' maps that lies between different modes"
    claim.at_most(what, nr.analysis.interval(np.take_along_axis(between, first, axis=1)[:, 0]), 0.1)
    claim.detail(f"at the start {between[:, 0].mean():.2g}, at the end {between[:, -1].mean():.1g}")

    outer, hidden = data["strengths"].values[:, :, -1]  # (seeds, modes)
    theory = data["theory_strengths"].values
    apart = np.abs(data["strengths"].values.mean(axis=1) - theory).sum(axis=(0, 1)) / theory.sum(axis=(0, 1))
    by_value = np.append(apart[:2], apart[2:].mean())  # the last two are equal: which is which is arbitrary
    root = np.sqrt(data.sizes["example"] / 4)
    claim.paper(
        "P1 eq. 51 and Fig 4f",
        "The singular values of the hidden weight matrix are larger than those in input or output matrices by a "
        "factor sqrt(M).",
        "f",
    )
    what = f"ratio of the strongest mode, in units of sqrt(M) = {root:.4f},"
    claim.within(what, (hidden / outer).mean(axis=0)[0] / root, (0.99, 1.01), form=".4g")
    text = "Theoretical predictions match simulations well, particularly for larger singular values."
    claim.paper("P1 Fig 4f", text, "f")
    claim.at_most("normalized L1 of the strengths over time, by singular value,", by_value, NEAR)
    claim.at_most("the worse of the larger two over the smallest's", by_value[:2].max() / by_value[2], 1)
    text = "M B1^2 - B2^2 is conserved, and for any weights the matrix sum_i W_i W_i^T - W_h^T W_h behind it."
    claim.check("P1 section 4", text, "f")
    conserved(claim, data["conserved"].values, routing.FINER, "the final W_h^T W_h")

    text = "Each individual example maps to the same representation regardless of what input domain it arrives on."
    claim.paper("P1 section 4.1 and Fig 4g", text, "g")
    same = routing.same_item_similarity(data["similarity"].values)
    claim.at_least("mean cosine between the same item in different domains", nr.analysis.interval(same), 0.95)
    text = "The network generalizes perfectly to input-output routes that were never seen during training."
    claim.paper("P1 section 4.1 and Fig 4h", text, "h")
    trained, untrained = data["error"].values.T / routing.ZERO_OUTPUT
    what = f"largest error on untrained routes, in parts of the error of output zero, {routing.ZERO_OUTPUT:g},"
    claim.at_most(what, untrained.max(), 1e-4)
    claim.detail(f"of {len(untrained)} seeds; on trained routes {trained.max():.1g}")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """The network and its task, loss and singular values over time, similarity and outputs at the end."""
    figure, axes = panels("a, b", "c", "d", "e", "f", "A", "g", "h", height=3.5)
    network, items, routes, loss, strengths, crosstalk, similarity, outputs = axes
    few, time = nr.tasks.routing(3, 3).problem("shared", hidden=64), data["time"].values
    title = f"3 of {data.sizes['source']} domains: all routes share the hidden matrix"
    nr.plotting.draw_network(network, few.architecture, title)
    title, words = "all routes have the same targets", ("output", "item", "target")
    nr.plotting.heat_map(items, routing.BASE, title, *words)
    pairs, words = data["trained"].values.astype(float), ("output domain", "input domain", "trained")
    title = f"each input is trained with {pairs[0].sum():.0f} of {len(pairs)} outputs"
    nr.plotting.heat_map(routes, pairs, title, *words)
    trained = {"training, random weights": ("gated", data["random"].values)}
    trained["training, decoupled"] = ("linear", data["decoupled"].values)
    theory = {"theory, random weights": data["theory"].values, "theory, decoupled": data["theory_flow"].values}
    nr.plotting.loss_curves(loss, "one mode after the other, as theory says", time, trained, theory)
    layers = (("linear", "outer\nmatrices"), ("gated", "hidden\nmatrix"))
    for (kind, name), seen, said in zip(layers, data["strengths"].values, data["theory_strengths"].values, strict=True):
        nr.plotting.mode_lines(strengths, time, {name: (kind, seen)}, {"_": said})
    title = r"the shared matrix is $\sqrt{M}$ times as strong"
    nr.plotting.label_axes(strengths, title, nr.plotting.TIME, "singular value")
    nr.plotting.training_band(crosstalk, data["look_time"].values, data["crosstalk"].values, "gated", None)
    title = "weights decouple before learning shows"
    nr.plotting.label_axes(crosstalk, title, nr.plotting.TIME, "part of the maps between modes")
    titles = ("an item looks the same in every domain", "routes that were never trained work")
    routing.draw_state((similarity, outputs), data.isel(seed=0), titles)
    return figure
