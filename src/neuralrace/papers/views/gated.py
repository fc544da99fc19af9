"""P3's predictions measured on gated networks with a pathway of its own for every view."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import optax
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, enumerated, panels, setting
from neuralrace.papers.views.winner import coverage, lone_responses, shares, two_layer_end, winner_share

VIEWS = 3  # and as many classes
RATE = 1 / 3  # sigma of a view of length one that is always present
MOMENTUM = 0.9
GROWTH_WINDOWS = ((0.005, 0.02), (0.02, 0.08))  # of the target, before competition sets in
TRAININGS = {  # loss and momentum of what is trained on the flow's initial weights
    "descent": ("squared", 0.0),
    "momentum": ("squared", MOMENTUM),
    "cross-entropy": ("cross-entropy", 0.0),
    "teacher": ("cross-entropy", MOMENTUM),
}


@dataclass(frozen=True)
class Settings:
    """Three classes with three views each, all of length one; sigma = 1/3 where every view is always present."""

    depths: tuple[int, ...] = setting((2, 3, 4), least=2)
    hidden: int = 8
    scale: float = 0.25
    learning_rate: float = 0.5
    steps: int = 1500
    seeds: int = 30


full, tiny = Settings(), Settings(depths=(3,), hidden=2, scale=0.5, steps=60, seeds=2)


def compute(settings: Settings) -> xarray.Dataset:
    """Follow the flow of every seed, and train from the same weights in several ways.

    responses, strengths: over time under the flow, to each view alone, the output for its class less the mean of the
    others, and the length of the whole output, P3's s_km. trained: responses after half and all of a training.
    """
    steps, rate, seeds = settings.steps, settings.learning_rate, settings.seeds
    early = min(200, steps)  # up to here every other step is recorded
    times = rate * np.unique([*range(0, early, 2), *np.linspace(early, steps, 27).astype(int)])

    def network(depth: int, sizes: tuple[float, ...] = (1.0,) * VIEWS) -> nr.Problem:
        problem: nr.Problem = nr.tasks.get("views", sizes=sizes, depth=depth).problem("views", settings.hidden)
        return problem

    def maps_of(problem: nr.Problem, weights: list[Any]) -> list[Any]:
        """The map of each pathway, (records, M, K, K)."""
        return [[path.product(each) for path in problem.architecture.paths()] for each in weights]

    def flow(depth: int, scale: float = settings.scale, sizes: tuple[float, ...] = (1.0,) * VIEWS) -> xarray.Dataset:
        problem = network(depth, sizes)
        forecast = nr.predict(problem, initial_weights(problem, scale, seeds), times, "flow")
        found = [maps_of(problem, forecast.weights_at(times, draw)) for draw in range(seeds)]
        maps = np.array(found) * np.reshape(sizes, (VIEWS, 1, 1))
        each, lengths = ("seed", "time", "class", "view"), np.linalg.norm(maps, axis=-2).swapaxes(-1, -2)
        return xarray.Dataset({"responses": (each, lone_responses(maps)), "strengths": (each, lengths)})

    def trained(problem: nr.Problem, kind: str) -> np.ndarray:
        loss, momentum = TRAININGS[kind]
        rule = optax.sgd(rate * (1 - momentum), momentum=momentum)  # so that time runs alike
        looks: dict[str, Any] = {"record": "weights", "at": [steps // 2, steps]}
        start = initial_weights(problem, settings.scale, seeds)
        run = nr.train(problem, start, rate, steps, seeds=seeds, loss=loss, optimizer=rule, **looks)
        return np.array([maps_of(problem, [run.weights(seed, k) for k in (0, 1)]) for seed in range(seeds)])

    flows = {f"flow L{depth}": flow(depth) for depth in settings.depths}
    # early growth from small weights, and unequal rates: |phi_m|, and at depth two K times the rates
    flows |= {"growth L2": flow(2, 0.01), "unequal L2": flow(2, 0.01, (1.0, 0.8, 0.6))}
    data = xarray.concat(list(flows.values()), "flow").assign_coords(flow=list(flows), time=times)
    found = []
    for depth in settings.depths:
        problem = network(depth)
        maps = {kind: trained(problem, kind) for kind in TRAININGS}
        # the mean over all seeds of the softmax at temperature two; all views are present
        raised = np.exp(maps["teacher"][:, -1].sum(axis=1).swapaxes(-1, -2) / 2)
        soft = (raised / raised.sum(axis=-1, keepdims=True)).mean(axis=0)
        taught = nr.Problem(problem.architecture, nr.Task(problem.task.inputs, {"y": soft}), problem.gates)
        maps["student"] = trained(taught, "teacher")
        found.append([lone_responses(part) for part in maps.values()])
        if depth == 2:
            start = initial_weights(problem, settings.scale, seeds)
            layers = [[[w[p.edges[i]] for p in problem.architecture.paths()] for w in start] for i in (0, 1)]
            data["exact_end"] = (("seed", "class", "view"), lone_responses(two_layer_end(*layers)))
    data["trained"] = (("depth", "training", "seed", "half", "class", "view"), np.array(found))
    return data.assign_coords(depth=list(settings.depths), training=[*TRAININGS, "student"])


def initial_weights(problem: nr.Problem, scale: float, seeds: int) -> list[Any]:
    """Draw the weights of every seed, layer by layer: normal with standard deviation scale / sqrt(hidden)."""
    architecture = problem.architecture
    layers = list(zip(*(path.edges for path in architecture.paths()), strict=True))
    std = scale / np.sqrt(architecture.shape(layers[0][0])[0])
    generators = map(np.random.default_rng, range(seeds))
    return [
        {edge: std * random.standard_normal(architecture.shape(edge)) for layer in layers for edge in layer}
        for random in generators
    ]


def claims(data: xarray.Dataset) -> Claims:
    claim, depths = Claims(retired=(2, 12)), data["depth"].values.tolist()

    def by_depth(values: Any, least: int = 2, most: float = np.inf) -> dict[str, nr.analysis.Interval]:
        """The mean and interval over seeds of (depth, seed, ...), for some depths."""
        return {
            f"L = {depth}": nr.analysis.interval(part.reshape(len(part), -1).mean(axis=1))
            for depth, part in zip(depths, values, strict=True)
            if least <= depth <= most
        }

    curves, ends = (
        np.stack([data[name].sel(flow=f"flow L{depth}").values for depth in depths])  # (depth, seed, time, class, view)
        for name in ("strengths", "responses")
    )
    ends = ends[:, :, -1]
    growth = " and ".join(f"{a:.1%} to {b:.0%}" for a, b in GROWTH_WINDOWS)
    claim.paper("P3 phase 1", "Before views compete, each grows exponentially at its own rate sigma.", "A")
    what = f"flow: d log a/dt over sigma while {growth} is learned"
    claim.within(f"depth 2, {what}", growth_rates(data.sel(flow="growth L2")), (0.9, 1.1))

    text = "The initial advantage names the winner in more than 80 % of cases."
    claim.paper("P3 prediction 2", text, "A")
    what = "classes in which the largest |P_m phi_m| at the start is the largest response at the end"
    claim.at_least(what, by_depth(curves[:, :, 0].argmax(axis=-1) == ends.argmax(axis=-1)), 0.8)
    chance = f"chance {1 / VIEWS:.2f}"
    if "exact_end" in data:
        named = data["exact_end"].values.argmax(axis=-1) == ends[depths.index(2)].argmax(axis=-1)
        chance += f"; the exact end of depth two {nr.analysis.interval(named.mean(axis=-1))}"
    claim.detail(chance)
    claim.fails(
        "the length of a path's product says little about its part along the class, which the exact end uses; in exact "
        "races of its own equation the rule is right in 88 %"
    )

    last = curves[:, :, -1]
    lost = np.arange(VIEWS) != last.argmax(axis=-1)[..., None]  # (depth, seed, class, view)
    kept = np.where(lost, last / curves.max(axis=2), 0).sum(axis=(2, 3)) / lost.sum(axis=(2, 3))
    text = "Learning converges to fixed points where a single pathway dominates and others decay to zero."
    claim.paper("P3 contribution 4 and phase 3", text, "A")
    claim.at_most("the final strength s_ym of a losing view over the most it ever was", by_depth(kept), 0.01)
    left = by_depth(np.where(lost, shares(last), 0).sum(axis=-1))
    claim.detail(f"share of all losers together {enumerated(left)}")
    claim.fails("they keep nearly all that they gained; once the target is explained nothing moves")

    wins = (ends.argmax(axis=-1)[..., None] == np.arange(VIEWS)).mean(axis=(1, 2))
    claim.paper("P3 prediction 4", "Different random seeds produce different winners.", "B, C")
    claim.within("part of seeds and classes in which a view is ahead", wins, (0.1, 0.6))

    fallen, before, time = {}, [], data["time"].values
    middle = int(np.searchsorted(time, time[-1] / 2))
    for label, name in [(f"L = {d}", f"flow L{d}") for d in depths] + [("L = 2, unequal rates", "unequal L2")]:
        change = log_ratio(data["strengths"].sel(flow=name).values).mean(axis=-1)
        fallen[label] = nr.analysis.interval(change[:, middle] - change[:, -1])
        before.append(f"{(change[:, min(1, middle)] - change[:, middle]).mean():.2f}")
    claim.paper("P3 prediction 5", "The ratio of loser to winner strength decays exponentially.", "B, C")
    what = "growth of log(winner / loser) in the second half of training, as under exponential decay at any rate above"
    claim.at_least(f"{what} {2 / (RATE * time[-1]):.1%} of sigma,", fallen, 1, form=".2g")
    claim.detail(f"in the first half {', '.join(before)}")
    claim.fails("it is constant at depth 2 with equal rates, and otherwise falls only until the target is explained")

    claim.paper("P3 question 7", "Deeper networks have stronger winner-take-all.", "B, C")
    claim.rising("the winner's share", by_depth(winner_share(ends)), "depth")

    # losses, optimizers and teachers: how much the summed response still grows in percent, and shares at the end
    claim.panel, trained = "B", {kind: data["trained"].sel(training=kind) for kind in data["training"].values}
    late, lower = {}, {}
    for kind, part in trained.items():
        halves = part.sum(["class", "view"]).mean("seed").values
        late[kind] = dict(zip(by_depth(ends), 100 * np.abs(halves[:, 1] / halves[:, 0] - 1), strict=True))
        one, other = (winner_share(each.isel(half=-1).values).mean(axis=-1) for each in (trained["descent"], part))
        lower[kind] = one - other  # the winner's share, seed by seed
    what = "growth of the summed response in the second half of training under"
    claim.paper("P3 mismatch 1", "Cross-entropy has no natural saturation.")
    claim.at_least(f"{what} cross-entropy", late["cross-entropy"], 5, " %")
    claim.at_most(f"{what} squared error", late["descent"], 0.1, " %")
    what = "winner's share of squared error less that of cross-entropy, same weights,"
    source = "P3 on saturation and on the conditions of winner-take-all, in sign, at the depth of its equation, two"
    claim.paper(source, "Competition does not naturally emerge from cross-entropy.")
    claim.at_least(what, by_depth(lower["cross-entropy"], most=2), 0)
    claim.finding("P3 on saturation, at depth", "Cross-entropy weakens the winner beyond depth two.")
    claim.at_least(what, by_depth(lower["cross-entropy"], least=3), 0)
    claim.fails(
        "views that are always together share the error of cross-entropy too, so they run on one clock, which never "
        "stops; the winner gains more"
    )
    what = f"by how much momentum {MOMENTUM:g} lowers the winner's share, same weights, equal time,"
    source = "P3 mismatch 2, at depths at which shares can change, above two"
    claim.paper(source, "Momentum actively equalizes pathway contributions over time.")
    claim.at_least(what, by_depth(lower["momentum"], least=3), 0)
    hard, soft = (by_depth(coverage(trained[kind].isel(half=-1).values)) for kind in ("teacher", "student"))
    claim.paper("P3 question 4", "With a teacher's signal to all pathways shared representations arise.", "B, C")
    claim.at_least("coverage with soft targets, all views always present,", soft, 0.9)
    claim.detail(f"with hard targets {enumerated(hard)}")
    claim.fails("where all views are always together any target drives all of them by one error")
    return claim


def growth_rates(data: xarray.Dataset) -> list[nr.analysis.Interval]:
    """At depth two d log a/dt over sigma, a^2 the summed response of a class, in each window; the mean over seeds."""
    total, time, found = data["responses"].values.sum(axis=-1), data["time"].values, []
    for low, high in GROWTH_WINDOWS:
        rates = np.full((total.shape[0], total.shape[2]), np.nan)
        for seed, k in np.ndindex(*rates.shape):
            curve = total[seed, :, k]
            inside = np.flatnonzero((curve > low) & (curve < high) & (np.maximum.accumulate(curve) < high))
            if len(inside) > 1:
                first, last = inside[0], inside[-1]
                rates[seed, k] = np.log(curve[last] / curve[first]) / (2 * (time[last] - time[first]))
        counted = np.isfinite(rates).any(axis=1)
        found.append(nr.analysis.interval(np.nanmean(rates[counted], axis=1) / RATE if counted.any() else np.nan))
    return found


def log_ratio(curve: np.ndarray) -> np.ndarray:
    """log(mean losing strength / winning strength), (seeds, records, K); the winner is the one at the end."""
    ahead = curve[:, -1].argmax(axis=-1)
    best = np.take_along_axis(curve, ahead[:, None, :, None], axis=-1)[..., 0]
    return np.asarray(np.log((curve.sum(axis=-1) - best) / (curve.shape[-1] - 1) / best))


def draw(data: xarray.Dataset) -> Figure:
    """Strengths over time at two depths, and winner's share and coverage of every training."""
    depths, time = data["depth"].values.tolist(), data["time"].values
    figure, (first, last, won, covered) = panels("A", "A", "B", "C", columns=2, width=4.4)
    for axis, depth in ((first, depths[0]), (last, depths[-1])):
        one = data.sel(flow=f"flow L{depth}")
        curve = one["strengths"].values[0]  # of one seed, until all have converged
        for k, m in np.ndindex(*curve.shape[1:]):
            alpha = 1.0 if curve[-1, k].argmax() == m else 0.35
            axis.plot(time, curve[:, k, m], color=nr.plotting.COLORS["gated"], alpha=alpha, linewidth=1.2)
        moving = np.flatnonzero((np.abs(curve - curve[-1]) > 0.02 * curve[-1].max()).any(axis=(1, 2)))
        axis.set_xlim(0, 1.3 * time[moving[-1] + 1] if len(moving) else time[-1])
        title = f"depth {depth}: winners (dark) end with {winner_share(one['responses'].values[:, -1]).mean():.0%}"
        nr.plotting.label_axes(axis, title, nr.plotting.TIME, "strength of a view")
    kinds = ["flow", *data["training"].values]
    for axis, measured, words, title in (
        (won, winner_share, "winner's share", "the deeper, the stronger the winner"),
        (covered, coverage, "coverage", "depth leaves fewer views learned"),
    ):
        for index, (depth, color) in enumerate(zip(depths, nr.plotting.sequence(len(depths)), strict=True)):
            final = [data["responses"].sel(flow=f"flow L{depth}").values[:, -1]]
            final += list(data["trained"].sel(depth=depth).values[:, :, -1])
            spans = [nr.analysis.interval(measured(part).mean(axis=-1)) for part in final]
            places = np.arange(len(kinds)) + 0.15 * (index - (len(depths) - 1) / 2)
            nr.plotting.interval_points(axis, places, spans, across=True, fmt="o", color=color, label=f"depth {depth}")
        axis.axvline(1 / VIEWS, color=nr.plotting.COLORS["reference"], linewidth=0.8)
        axis.set_yticks(range(len(kinds)), kinds)
        axis.invert_yaxis()
        axis.set_xlim(0, 1.05)
        nr.plotting.label_axes(axis, title, f"{words}, mean and 95 % interval", "")
    return figure
