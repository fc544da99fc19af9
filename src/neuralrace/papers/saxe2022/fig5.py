"""P1 Fig 5: sharing makes pathways faster, and the fastest pathway takes the solution."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, panels
from neuralrace.papers.saxe2022 import _routing as routing

STRONGEST = np.linalg.svd(routing.BASE, compute_uv=False)[0]  # S/D of the strongest mode; D of every mode is 1/4


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


full, tiny = (
    Settings(),
    Settings(domains=2, hidden=8, steps=40, seeds=2, sharing_hidden=4, sharing_steps=40, race_steps=40, race_seeds=1),
)


def compute(settings: Settings) -> xarray.Dataset:
    """Measure degrees of sharing apart (b), generalization against K (c), and all pathways in one network (A)."""
    count, gain, rate = settings.domains, settings.gain, routing.paper_rate(settings.domains, 1, settings.paper_rate)
    strengths, predicted, drift = [], [], []
    sizes = [size for size in range(1, count + 1) if count % size == 0]
    for size in sizes:
        problem = nr.tasks.routing(count, count).problem(f"P={size**2}", hidden=settings.sharing_hidden)
        architecture, drifts, decoupled = problem.architecture, [], nr.initial.decoupled(gain)
        edges = [(architecture.source(edge), architecture.target(edge)) for edge in architecture.paths()[0].edges]
        names = [f"weight_singular_values[{source}->{target}]" for source, target in edges[:2]]
        for finer in (routing.FINER, 1):
            steps = settings.sharing_steps * finer
            run = nr.train(problem, decoupled, rate / finer, steps, record=names, every=finer)
            B1, B2 = (run.values(name)[0, :, 0] for name in names)
            conserved = size * B1**2 - B2**2
            drifts.append(float(np.abs(conserved - conserved[0]).max() / B2[-1] ** 2))
        strengths.append(B1**2 * B2)
        drift.append(drifts[::-1])
        solution = nr.theory.exact.Mode.routing(
            STRONGEST / routing.ITEMS, 1 / routing.ITEMS, gain, gain, count, size**2
        )
        predicted.append(solution.strength(run.time))
    data = xarray.Dataset(coords={"sharing": [size**2 for size in sizes], "sharing_time": run.time})
    data["strength"] = (("sharing", "sharing_time"), np.array(strengths))
    data["theory_strength"] = (("sharing", "sharing_time"), np.array(predicted))
    data["drift"], data["step"] = (("sharing", "finer"), np.array(drift)), ((), rate)

    errors, initial = [], nr.initial.orthogonal(gain)
    for trained in range(1, count + 1):
        named = nr.tasks.routing(count, trained)
        problem, ends = named.problem("shared", hidden=settings.hidden), [0, settings.steps]
        run = nr.train(problem, initial, rate, settings.steps, seeds=settings.seeds, at=ends)
        errors.append(routing.final_state(named, run, settings.hidden)["error"].values)
    data = data.assign_coords(trained=np.arange(1, count + 1), kind=["trained", "untrained"])
    data["error"] = (("trained", "seed", "kind"), np.array(errors))

    # one network that has the shared pathway beside a private one for every route: the share of the shared one
    problem, last = nr.tasks.routing(count, count).problem("shared + P=1", hidden=settings.hidden), settings.race_steps
    run = nr.train(problem, initial, rate, last, seeds=settings.race_seeds, at=[0, last])
    shares = []
    for seed in range(settings.race_seeds):
        weights = run.weights(seed)
        for i, j in np.ndindex(count, count):
            shared = weights["h2", f"y{j}"] @ weights["h1", "h2"] @ weights[f"x{i}", "h1"]
            near, far = f"h1_{i}_{j}", f"h2_{i}_{j}"
            total = shared + weights[far, f"y{j}"] @ weights[near, far] @ weights[f"x{i}", near]
            shares.append(float(np.sum(shared * total) / np.sum(total**2)))
    data["share"] = (("race_seed", "route"), np.reshape(shares, (settings.race_seeds, -1)))
    return data


def half_time(time: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Find when a path strength, (..., T), first reaches half of S/D, by interpolation; inf if never."""
    return nr.analysis.time_to(time, -strength, -0.5 * STRONGEST)


def claims(data: xarray.Dataset) -> Claims:
    claim, time = Claims(), data["sharing_time"].values
    measured, predicted = (half_time(time, data[name].values) for name in ("strength", "theory_strength"))
    there = np.isfinite(measured)
    lag = np.where(there, np.abs(np.where(there, measured, 0.0) - predicted), np.inf) / float(data["step"])
    share, (coarse, fine) = data["share"].values, data["drift"].values.T
    text = "Networks that share more structure learn faster."
    claim.paper("P1 section 4.2, eqs 16-17 and Fig 5b", text, "b")
    claim.falling("time to half strength", measured, "P", form=".1f")
    text = "Pathways take the time to learn that the reduction says."
    claim.finding("P1 eqs 16-17, solved for the flow", text, "b")
    claim.at_most("distance of the times to half strength, in steps,", lag, 4)
    claim.check("P1 eqs 16-17", "sqrt(P) B1^2 - B2^2 is conserved for every degree of sharing.", "b")
    what = f"where its drift is more than rounding, it falls at a step {routing.FINER} times finer by a factor"
    claim.within(what, (coarse / fine)[coarse >= 1e-12], (routing.FINER / 2, 2 * routing.FINER))
    claim.detail(f"{', '.join(f'{value:.1e}' for value in coarse)} of the final B2^2")
    claim.paper(
        "P1 section 4.2 and Fig 5b",
        "In a combined network that uses both shared and non-shared representations the most-shared structure "
        "dominates.",
        "A",
    )
    claim.at_least("least share of a route's map in the shared pathway", 100 * share.min(), 99, unit=" %", form=".4g")
    claim.detail(f"mean {100 * share.mean():.2f} %, {share.size} routes of {data.sizes['race_seed']} networks")
    text = "Shared representations begin to dominate reliably when roughly 40 % of input-output routes are trained."
    claim.paper("P1 section 4.2 and Fig 5c", text, "c")
    untrained = data["error"].values[..., 1].mean(axis=1)
    good = untrained[:-1] < routing.WORKS * routing.ZERO_OUTPUT  # at K = M no route is untrained
    first = float((np.argmax(good) + 1) / len(untrained)) if good.any() else np.nan
    what = f"least K/M with a mean untrained error below {routing.WORKS:.0%} of {routing.ZERO_OUTPUT:g}"
    claim.within(what, first, (0.3, 0.5))
    claim.detail(f"{data.sizes['seed']} seeds")
    text = "When few outputs are trained per input domain, error on untrained domains is large."
    claim.paper("P1 Fig 5c", text, "c")
    what = "mean untrained error at K = 1, in parts of the error of output zero,"
    claim.at_least(what, untrained[0] / routing.ZERO_OUTPUT, 1)
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Three gatings, the strength over time for each P, the error against K/M, and the shares of the race."""
    figure, (*networks, sharing, errors, shares) = panels("a", "a", "a", "b", "c", "A")
    schemes = ((2, "P=1", "a pathway for each route"), (4, "P=4", "groups of two share one"), (2, "P=4", "one for all"))
    for axis, (domains, gating, words) in zip(networks, schemes, strict=True):
        architecture = nr.tasks.routing(domains, domains).problem(gating, hidden=64).architecture
        nr.plotting.draw_network(axis, architecture, f"{words}, {gating.replace('=', ' = ')}")

    time, paths = data["sharing_time"].values, data["sharing"].values
    for index, (count, color) in enumerate(zip(paths, nr.plotting.sequence(len(paths)), strict=True)):
        strength = data["strength"][index].values
        sharing.plot(time, strength, color=color, linewidth=1.8, label=f"P = {count}")
        nr.plotting.theory_line(sharing, time, data["theory_strength"][index].values, None)
    sharing.set_xscale("log")
    sharing.set_xlim(1.0, 1.5 * time[-1])
    title = "the more a pathway is shared, the sooner it learns"
    nr.plotting.label_axes(sharing, title, nr.plotting.TIME, "strength of the strongest mode")

    fraction, title = data["trained"].values / data.sizes["trained"], "untrained routes work from about 40 % on"
    routing.draw_errors(errors, fraction, data["error"], title, "fraction of routes trained, K/M")
    shares.hist(data["share"].values.ravel(), bins=np.linspace(0, 1, 51).tolist(), color=nr.plotting.COLORS["gated"])
    title = "in one network with both kinds the shared pathway takes every route"
    nr.plotting.label_axes(shares, title, "share of the shared pathway in a route", "routes")
    return figure
