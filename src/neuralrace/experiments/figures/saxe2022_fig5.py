"""P1 Fig 5: sharing makes pathways faster, and the fastest pathway takes the solution."""

import itertools
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.routing import ZERO_OUTPUT, paper_rate, route_errors
from neuralrace.plotting import COLOURS, label_axes, new_figure, theory_line
from neuralrace.problem import Problem
from neuralrace.theory.exact import routing_layers
from neuralrace.training import train

FINER = 4
EVERY = 5  # steps between records of singular values
SINGULAR_VALUE, VARIANCE = np.sqrt(185) / 4, 1 / 4  # strongest mode of the base data set, and its input variance


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
    """Degrees of sharing apart (b), generalisation against K (c), and all pathways in one network (the race)."""
    return xarray.merge([_sharing(settings), _generalisation(settings), _race(settings)])


def _sharing(settings: Settings) -> xarray.Dataset:
    """The strongest mode's path strength for each P, trained from decoupled weights and in closed form."""
    count, gain = settings.domains, settings.gain
    named, rate = tasks.routing(count, count), paper_rate(count, 1, settings.paper_rate)
    sizes = [size for size in range(1, count + 1) if count % size == 0]
    measured, predicted, drift = [], [], []
    for size in sizes:
        problem = named.problem(f"P={size**2}", hidden=settings.sharing_hidden)
        runs = [_layers(problem, settings, rate, finer) for finer in (1, FINER)]
        time, outer, hidden = runs[0]
        measured.append(outer**2 * hidden)
        drift.append([_drift(size, *layers) for _, *layers in runs])
        layers = routing_layers(time, SINGULAR_VALUE, VARIANCE, gain, gain, count, size**2)
        predicted.append(layers.outer**2 * layers.hidden)
    return xarray.Dataset(
        {
            "strength": (("sharing", "sharing_time"), np.array(measured)),
            "theory_strength": (("sharing", "sharing_time"), np.array(predicted)),
            "drift": (("sharing", "finer"), np.array(drift)),
            "step": ((), rate),
        },
        coords={"sharing": [size**2 for size in sizes], "sharing_time": time},
    )


def _layers(problem: Problem, settings: Settings, rate: float, finer: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Times, outer and hidden singular values of the strongest mode on the first route, from decoupled weights."""
    near = problem.architecture.target(problem.architecture.outgoing["x0"][0])
    far = problem.architecture.target(problem.architecture.outgoing[near][0])
    run = train(
        problem,
        initial.decoupled(settings.gain),
        rate / finer,
        settings.sharing_steps * finer,
        record="weight_singular_values",
        every=EVERY * finer,
    )
    outer, hidden = (
        run.values(f"weight_singular_values[{name}]")[0, :, 0] for name in (f"x0->{near}", f"{near}->{far}")
    )
    return run.time, outer, hidden


def _drift(size: int, outer: np.ndarray, hidden: np.ndarray) -> float:
    """How far sqrt(P) B1^2 - B2^2 leaves its first value, over the final B2^2."""
    kept = size * outer**2 - hidden**2
    return float(np.abs(kept - kept[0]).max() / hidden[-1] ** 2)


def _generalisation(settings: Settings) -> xarray.Dataset:
    """Error on trained and on untrained routes for every number K of trained outputs per input."""
    count = settings.domains
    rate = paper_rate(count, 1, settings.paper_rate)
    errors = []
    for trained in range(1, count + 1):
        named = tasks.routing(count, trained)
        run = train(
            named.problem("shared", hidden=settings.hidden),
            initial.orthogonal(settings.gain),
            rate,
            settings.steps,
            seeds=settings.seeds,
            at=[0, settings.steps],
        )
        everything, complete = named.evaluation("shared", hidden=settings.hidden), named.complete()
        errors.append([route_errors(everything, run.weights(seed), complete) for seed in range(settings.seeds)])
    return xarray.Dataset(
        {"error": (("trained", "seed", "kind"), np.array(errors))},
        coords={"trained": np.arange(1, count + 1), "kind": ["trained", "untrained"]},
    )


def _race(settings: Settings) -> xarray.Dataset:
    """The share of the shared pathway in one network that has it beside a private pathway for every route."""
    count = settings.domains
    problem = tasks.routing(count, count).problem("shared + P=1", hidden=settings.hidden)
    rate = paper_rate(count, 1, settings.paper_rate)
    law = initial.orthogonal(settings.gain)
    run = train(problem, law, rate, settings.race_steps, seeds=settings.race_seeds, at=[0, settings.race_steps])
    shares = []
    for seed in range(settings.race_seeds):
        weights = run.weights(seed)
        for i in range(count):
            for j in range(count):
                shared = weights["h2", f"y{j}"] @ weights["h1", "h2"] @ weights[f"x{i}", "h1"]
                near, far = f"h1_{i}_{j}", f"h2_{i}_{j}"
                private = weights[far, f"y{j}"] @ weights[near, far] @ weights[f"x{i}", near]
                total = shared + private
                shares.append(float(np.sum(shared * total) / np.sum(total**2)))
    return xarray.Dataset({"share": ("route", np.array(shares)), "race_loss": ("race_seed", run.loss[:, -1])})


def half_time(time: np.ndarray, strength: np.ndarray) -> float:
    """When a path strength first reaches half of S/D, between records by interpolation; inf if never."""
    level = 0.5 * SINGULAR_VALUE / VARIANCE
    above = np.flatnonzero(strength >= level)
    if not len(above):
        return float("inf")
    last = max(int(above[0]), 1)
    return float(np.interp(level, strength[last - 1 : last + 1], time[last - 1 : last + 1]))


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    time, step = data["sharing_time"].values, float(data["step"])
    measured = np.array([half_time(time, row) for row in data["strength"].values])
    predicted = np.array([half_time(time, row) for row in data["theory_strength"].values])
    lag = float(np.max(np.abs(measured - predicted))) / step if np.isfinite(measured).all() else float("inf")
    mean = data["error"].mean("seed").values
    good = mean[:-1, 1] < 0.01 * ZERO_OUTPUT
    fraction = float(data["trained"].values[np.argmax(good)] / len(mean)) if good.any() else float("nan")
    share = data["share"].values
    coarse, fine = data["drift"].values.T
    return [
        Claim(
            "The more paths share a hidden matrix, the faster they learn, as the reduction predicts.",
            "P1 eqs 16-17 and Fig 5b",
            "paper",
            "times to half strength fall with P and lie within four steps of the closed form, which is the flow's",
            f"{', '.join(f'{t:.1f}' for t in measured)}; predicted {', '.join(f'{t:.1f}' for t in predicted)}; "
            f"at most {lag:.1f} steps apart",
            all(slower > faster for slower, faster in itertools.pairwise(measured)) and lag <= 4,
        ),
        Claim(
            "sqrt(P) B1^2 - B2^2 is conserved for every degree of sharing.",
            "P1 eqs 16-17",
            "paper",
            f"its drift is first order in the step size, {FINER} times less at a step {FINER} times finer within a "
            "factor of two, or it is rounding, below 1e-12",
            f"{', '.join(f'{value:.1e}' for value in coarse)} of the final B2^2; "
            f"{', '.join(f'{value:.1f}' for value in coarse / fine)} times less",
            bool(np.all((coarse < 1e-12) | (coarse / fine > FINER / 2) & (coarse / fine < 2 * FINER))),
        ),
        Claim(
            "Trained routes are learned whatever K is.",
            "P1 Fig 5c",
            "paper",
            f"mean trained error below 1 % of {ZERO_OUTPUT:g} for every K",
            f"at most {mean[:, 0].max():.2g}",
            bool(mean[:, 0].max() < 0.01 * ZERO_OUTPUT),
        ),
        Claim(
            "Untrained routes work once about 40 % of routes are trained.",
            "P1 Fig 5c",
            "paper",
            f"mean untrained error below 1 % of {ZERO_OUTPUT:g} first at K/M from 0.3 to 0.5",
            f"K/M = {fraction:.1f}; untrained error at K = 1: {mean[0, 1]:.3g}",
            0.3 <= fraction <= 0.5,
        ),
        Claim(
            "In one network with shared and private pathways the shared one takes the solution.",
            "P1 section 4.2",
            "paper",
            "the shared pathway carries more than half of every route's map",
            f"{100 * share.mean():.1f} % on average, from {100 * share.min():.1f} to {100 * share.max():.1f} %",
            bool(share.min() > 0.5),
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """Strength over time for each P, error against K/M, and the shares of the race."""
    figure, axes = new_figure(3, width=4.4, height=3.4)
    time = data["sharing_time"].values
    for index, paths in enumerate(data["sharing"].values):
        shade = 0.35 + 0.65 * (index + 1) / data.sizes["sharing"]
        axes[0, 0].plot(
            time, data["strength"][index], color=COLOURS["gated"], alpha=shade, label=f"training, P = {paths}"
        )
        theory_line(axes[0, 0], time, data["theory_strength"][index].values, None if index else "theory")
    label_axes(axes[0, 0], "b  strongest mode of a path", "time t (learning rate x step)", "path strength")
    fraction = data["trained"].values / data.sizes["trained"]
    for index, kind in enumerate(("gated", "untrained")):
        values = data["error"].isel(kind=index)
        errors = values.std("seed") / np.sqrt(data.sizes["seed"])
        name = ("trained", "untrained")[index]
        axes[0, 1].errorbar(fraction, values.mean("seed"), errors, color=COLOURS[kind], fmt="o-", capsize=2, label=name)
    label_axes(
        axes[0, 1], "c  error at the end (mean and s.e.m.)", "fraction of routes trained, K/M", "error of a route"
    )
    axes[0, 2].hist(data["share"].values, bins=np.linspace(0, 1.05, 43), color=COLOURS["gated"])
    label_axes(axes[0, 2], "the race in one network", "share of the shared pathway", "routes")
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-fig5",
    title="The race: pathways that share learn faster and take the solution",
    source="P1 Fig 5",
    full=Settings(),
    tiny=Settings(
        domains=2, hidden=8, steps=40, seeds=2, sharing_hidden=4, sharing_steps=40, race_steps=40, race_seeds=1
    ),
    compute=compute,
    claims=claims,
    draw=draw,
)
