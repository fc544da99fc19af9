"""P1 Fig 5: sharing makes pathways faster, and the fastest pathway takes the solution."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.analysis import time_to
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.saxe2022 import _routing as routing
from neuralrace.plotting import COLORS, TIME, draw_network, label_axes, new_panels, sequence, theory_line
from neuralrace.problem import Problem
from neuralrace.theory.exact import Routing
from neuralrace.training import train

FINER = 4  # how many times smaller the fine step is
ROUNDING = 1e-12  # a drift below this is none
EARLY = 1.0  # time from which on strengths are drawn
HIDDEN_SHOWN = 64  # width of the networks that are drawn
SCHEMES = (  # domains and gating of each
    (2, "P=1", "two domains: a pathway for each route"),
    (4, "P=4", "four domains: groups of two share one"),
    (2, "P=4", "two domains: one for all"),
)


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper; its rate is divided by K, which keeps the time per step the same."""

    domains: int = 10
    hidden: int = 64
    gain: float = 0.2
    paper_rate: float = 0.05
    steps: int = 1000
    seeds: int = 10
    sharing_hidden: int = 8  # from decoupled weights any width from the rank up is the same
    sharing_steps: int = 1400
    race_steps: int = 1000
    race_seeds: int = 3


def compute(settings: Settings) -> xarray.Dataset:
    """Degrees of sharing apart (b), generalization against K (c), and all pathways in one network (the race)."""
    return xarray.merge([_sharing(settings), _generalization(settings), _race(settings)])


def _sharing(settings: Settings) -> xarray.Dataset:
    """The strongest mode's path strength for each P, trained from decoupled weights and in closed form."""
    count, gain = settings.domains, settings.gain
    named, rate = tasks.routing(count, count), routing.paper_rate(count, 1, settings.paper_rate)
    sizes = [size for size in range(1, count + 1) if count % size == 0]
    measured, predicted, drift = [], [], []
    for size in sizes:
        problem = named.problem(f"P={size**2}", hidden=settings.sharing_hidden)
        runs = [_layers(problem, settings, rate, finer) for finer in (1, FINER)]
        time, outer, hidden = runs[0]
        measured.append(outer**2 * hidden)
        drift.append([_drift(size, *layers) for _, *layers in runs])
        predicted.append(Routing(routing.MODES[0], routing.VARIANCE, gain, gain, count, size**2).strength(time))
    data = xarray.Dataset(coords={"sharing": [size**2 for size in sizes], "sharing_time": time})
    data["strength"] = (("sharing", "sharing_time"), np.array(measured))
    data["theory_strength"] = (("sharing", "sharing_time"), np.array(predicted))
    data["drift"] = (("sharing", "finer"), np.array(drift))
    data["step"] = ((), rate)
    return data


def _layers(problem: Problem, settings: Settings, rate: float, finer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, outer and hidden singular values of the strongest mode on the first route, from decoupled weights."""
    near = problem.architecture.target(problem.architecture.outgoing["x0"][0])
    far = problem.architecture.target(problem.architecture.outgoing[near][0])
    law, steps = initial.decoupled(settings.gain), settings.sharing_steps * finer
    names = [f"weight_singular_values[{edge}]" for edge in (f"x0->{near}", f"{near}->{far}")]
    run = train(problem, law, rate / finer, steps, record=names, every=finer)
    outer, hidden = (run.values(name)[0, :, 0] for name in names)
    return run.time, outer, hidden


def _drift(size: int, outer: np.ndarray, hidden: np.ndarray) -> float:
    """How far sqrt(P) B1^2 - B2^2 leaves its first value, over the final B2^2."""
    kept = size * outer**2 - hidden**2
    return float(np.abs(kept - kept[0]).max() / hidden[-1] ** 2)


def _generalization(settings: Settings) -> xarray.Dataset:
    """Error on trained and on untrained routes for every number K of trained outputs per input."""
    count, law, errors = settings.domains, initial.orthogonal(settings.gain), []
    rate = routing.paper_rate(count, 1, settings.paper_rate)
    for trained in range(1, count + 1):
        named = tasks.routing(count, trained)
        problem = named.problem("shared", hidden=settings.hidden)
        run = train(problem, law, rate, settings.steps, seeds=settings.seeds, at=[0, settings.steps])
        errors.append(routing.final_state(named, run, settings.hidden)["error"].values)
    data = xarray.Dataset(coords={"trained": np.arange(1, count + 1), "kind": ["trained", "untrained"]})
    data["error"] = (("trained", "seed", "kind"), np.array(errors))
    return data


def _race(settings: Settings) -> xarray.Dataset:
    """The share of the shared pathway in one network that has it beside a private pathway for every route."""
    count = settings.domains
    problem = tasks.routing(count, count).problem("shared + P=1", hidden=settings.hidden)
    rate = routing.paper_rate(count, 1, settings.paper_rate)
    law = initial.orthogonal(settings.gain)
    run = train(problem, law, rate, settings.race_steps, seeds=settings.race_seeds, at=[0, settings.race_steps])
    shares = []
    for seed in range(settings.race_seeds):
        weights = run.weights(seed)
        for i, j in np.ndindex(count, count):
            shared = weights["h2", f"y{j}"] @ weights["h1", "h2"] @ weights[f"x{i}", "h1"]
            near, far = f"h1_{i}_{j}", f"h2_{i}_{j}"
            total = shared + weights[far, f"y{j}"] @ weights[near, far] @ weights[f"x{i}", near]
            shares.append(float(np.sum(shared * total) / np.sum(total**2)))
    return xarray.Dataset({"share": ("route", np.array(shares)), "race_loss": ("race_seed", run.loss[:, -1])})


def half_time(time: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """When a path strength, (..., T), first reaches half of S/D, between records by interpolation; inf if never."""
    return time_to(time, -strength, -0.5 * routing.MODES[0] / routing.VARIANCE)


def first_fraction(data: xarray.Dataset, errors: np.ndarray) -> float:
    """The least K/M at which untrained routes work; errors: one for each K."""
    good = errors[:-1] < routing.WORKS * routing.ZERO_OUTPUT  # at K = M no route is untrained
    return float(data["trained"].values[np.argmax(good)] / len(errors)) if good.any() else float("nan")


def claims(data: xarray.Dataset) -> Claims:
    """What the figure says."""
    claim = Claims()
    _sharing_claims(claim, data)
    _generalization_claims(claim, data)
    return claim


def _sharing_claims(claim: Claims, data: xarray.Dataset) -> None:
    time = data["sharing_time"].values
    measured, predicted = (half_time(time, data[name].values) for name in ("strength", "theory_strength"))
    there = np.isfinite(measured)
    lag = np.where(there, np.abs(np.where(there, measured, 0.0) - predicted), np.inf) / float(data["step"])
    share, (coarse, fine) = data["share"].values, data["drift"].values.T
    moved = coarse >= ROUNDING
    claim.paper("P1 section 4.2, eqs 16-17 and Fig 5b", "Networks that share more structure learn faster.")
    claim.falling("time to half strength", measured, "P", form=".1f")
    claim.finding("P1 eqs 16-17, solved for the flow", "Pathways take the time to learn that the reduction says.", "b")
    claim.at_most("distance of the times to half strength, in steps,", lag, 4)
    claim.detail(f"forecast {', '.join(f'{t:.1f}' for t in predicted)}")
    claim.check("P1 eqs 16-17", "sqrt(P) B1^2 - B2^2 is conserved for every degree of sharing.", "b")
    what = f"where its drift is more than rounding, it falls at a step {FINER} times finer by a factor"
    claim.within(what, (coarse / fine)[moved], (FINER / 2, 2 * FINER))
    claim.detail(f"{', '.join(f'{value:.1e}' for value in coarse)} of the final B2^2")
    claim.paper(
        "P1 section 4.2 and Fig 5b",
        "In a combined network that uses both shared and non-shared representations the most-shared structure "
        "dominates.",
        "A",
    )
    claim.at_least("least share of a route's map in the shared pathway", 100 * share.min(), 99, unit=" %", form=".4g")
    claim.detail(f"mean {100 * share.mean():.2f} %, {share.size} routes of {data.sizes['race_seed']} networks")


def _generalization_claims(claim: Claims, data: xarray.Dataset) -> None:
    errors = data["error"].values  # (K, seeds, kinds)
    mean, middle = errors.mean(axis=1), np.median(errors, axis=1)
    about, always = (0.3, 0.5), first_fraction(data, errors[..., 1].max(axis=1))
    text = "Shared representations begin to dominate reliably when roughly 40 % of input-output routes are trained."
    claim.paper("P1 section 4.2 and Fig 5c", text)
    what = f"least K/M with a mean untrained error below {routing.WORKS:.0%} of {routing.ZERO_OUTPUT:g}"
    claim.within(what, first_fraction(data, mean[:, 1]), about)
    claim.detail(f"{data.sizes['seed']} seeds; every seed works from {always:g}")
    claim.finding("P1 Fig 5c", "The median, which a few bad seeds do not move, says 40 % too.")
    what = f"least K/M with a median untrained error below {routing.WORKS:.0%} of {routing.ZERO_OUTPUT:g}"
    claim.within(what, first_fraction(data, middle[:, 1]), about)
    claim.detail(
        f"medians {', '.join(f'{value:.2g}' for value in middle[:-1, 1])}; means "
        f"{', '.join(f'{value:.2g}' for value in mean[:-1, 1])}"
    )
    claim.paper("P1 Fig 5c", "When few outputs are trained per input domain, error on untrained domains is large.")
    what = "mean untrained error at K = 1, in parts of the error of output zero,"
    claim.at_least(what, mean[0, 1] / routing.ZERO_OUTPUT, 1)
    claim.finding("P1 Fig 5c", "Trained routes are learned whatever K is.")
    what = "largest mean trained error, in parts of the error of output zero,"
    claim.at_most(what, mean[:, 0].max() / routing.ZERO_OUTPUT, 1e-3)


def draw(data: xarray.Dataset) -> Figure:
    """Two gatings, the strength over time for each P, the error against K/M, and the shares of the race."""
    figure, (*networks, sharing, errors, shares) = new_panels(6)
    for axis, (domains, gating, words) in zip(networks, SCHEMES, strict=True):
        problem = tasks.routing(domains, domains).problem(gating, hidden=HIDDEN_SHOWN)
        draw_network(axis, problem.architecture, f"a  {words}, {gating.replace('=', ' = ')}")
    _draw_sharing(sharing, data)
    fraction, title = data["trained"].values / data.sizes["trained"], "c  untrained routes work from about 40 % on"
    routing.draw_errors(errors, fraction, data["error"], title, "fraction of routes trained, K/M")
    shares.hist(data["share"].values, bins=np.linspace(0, 1, 51).tolist(), color=COLORS["gated"])
    title = "A  in one network with both kinds the shared pathway takes every route"
    label_axes(shares, title, "share of the shared pathway in a route", "routes")
    return figure


def _draw_sharing(axis: Axes, data: xarray.Dataset) -> None:
    """The strength of the strongest mode for every degree of sharing, each named where it rises."""
    time, paths = data["sharing_time"].values, data["sharing"].values
    for index, (count, color) in enumerate(zip(paths, sequence(len(paths)), strict=True)):
        strength = data["strength"][index].values
        axis.plot(time, strength, color=color, linewidth=1.8)
        theory_line(axis, time, data["theory_strength"][index].values, None)
        reached = float(half_time(time, strength))
        if np.isfinite(reached):
            place = (reached, (0.28 + 0.14 * index) * strength.max())
            beside: dict[str, Any] = {"textcoords": "offset points", "ha": "right", "color": color, "fontsize": 9}
            axis.annotate(f"P = {count}", place, (-5, 0), **beside)
    axis.set_xscale("log")
    axis.set_xlim(EARLY, 1.5 * time[-1])
    label_axes(axis, "b  the more a pathway is shared, the sooner it learns", TIME, "strength of the strongest mode")


EXPERIMENT = Experiment(
    name="saxe2022-fig5",
    full=Settings(),
    tiny=Settings(
        domains=2, hidden=8, steps=40, seeds=2, sharing_hidden=4, sharing_steps=40, race_steps=40, race_seeds=1
    ),
    compute=compute,
    claims=claims,
    draw=draw,
    differs="The text gives neither seeds nor steps: 10 seeds, 1000 steps. P is such that sqrt(P) divides M: "
    "1, 4, 25, 100. The combined network of section 4.2, which no figure shows, has a pathway for each route beside "
    "the shared one.",
    finding="The more routes share a pathway, the sooner it learns, as the reduction says; in one network the "
    "shared pathway takes all, and routes that were never trained work once about 40 % of them are.",
)
