"""The law of the race of views: derived by the reduction, solved exactly, and held against training."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.errors import RangeError
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.settings import setting
from neuralrace.papers.views._paths import error_term, path_strengths
from neuralrace.plotting import COLORS, TIME, label_axes, mode_lines, new_panels, sequence
from neuralrace.problem import Problem
from neuralrace.training import train
from neuralrace.views import CoupledRace, RaceEquation, co_occurrence, derive

CLASSES = 3
LOOKS = 160
GRID = np.logspace(0, 7, 1500)  # times at which a late view is looked for
MODERATE = (0.1, 0.5, 0.9)  # filled fractions at which the error term is read


@dataclass(frozen=True)
class Settings:
    """Three classes; at each depth a time that is long enough for the race, and a step that is small."""

    strengths: tuple[float, ...] = (0.05, 0.06, 0.08)
    depths: tuple[int, ...] = setting((2, 3, 4), least=2)
    times: tuple[float, ...] = (30.0, 80.0, 500.0)
    learning_rate: float = 0.02
    hidden: int = 8
    std: float = 0.003
    seeds: int = 10
    apart: tuple[float, ...] = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)


def check(settings: Settings) -> None:
    """A time for each depth, and a step in each time."""
    if len(settings.times) != len(settings.depths):
        raise RangeError(f"times must be one for each of the depths, {settings.depths}; they were {settings.times}")
    if min(settings.times) < settings.learning_rate:
        raise RangeError(
            f"learning_rate must be at most the shortest of the times, {min(settings.times):g}; it was "
            f"{settings.learning_rate:g}: no step would be taken"
        )


def compute(settings: Settings) -> xarray.Dataset:
    """The derived law, exact and trained races, what random weights leave over, and views that are seen apart."""
    looks = min(LOOKS, *(round(until / settings.learning_rate) + 1 for until in settings.times))  # at most every step
    start, parts = np.array(settings.strengths), list[xarray.Dataset]()
    for depth, until in zip(settings.depths, settings.times, strict=True):
        problem = tasks.get("views", classes=CLASSES, views=len(start), depth=depth).problem("views", settings.hidden)
        law = derive(problem)
        race = law.race(start)
        time, trained = _trained(problem, law, start, settings.learning_rate, until, looks)
        data = xarray.Dataset(attrs={"equations": law.text.splitlines()[0]})
        data["drive"], data["coupling"] = ("view", law.drive), (("view", "other"), law.coupling)
        data["time"], data["trained"] = ("look", time), (("look", "view"), trained)
        data["law"] = (("look", "view"), law.coupled(start).strength(time))
        data["end"], data["phases"] = ("view", race.final), ("phase", np.array(race.phases()))
        powers = law.coupled(start).strength(data["phases"].values) ** depth
        data["loser"] = ("phase", powers[:, start.argmin()] / powers.sum(axis=-1))  # the share of the weakest view
        if not parts:
            left = _left_over(problem, law, settings)
        parts.append(data)
    found = xarray.concat(parts, "depth").assign_coords(depth=list(settings.depths))
    return xarray.merge([found, left, _seen_apart(settings)])


def _trained(
    problem: Problem, law: RaceEquation, start: np.ndarray, rate: float, until: float, looks: int
) -> tuple[np.ndarray, np.ndarray]:
    """Times and the amplitudes of the first class under gradient descent from decoupled weights."""
    strengths = {edge: value for path, value in zip(law.pathways, start, strict=True) for edge in path.edges}
    steps = round(until / rate)
    at = np.unique(np.linspace(0, steps, looks).astype(int))
    run = train(problem, initial.decoupled(strengths), rate, steps, record="weights", at=at.tolist())
    amplitudes = [path_strengths(law.pathways, run.weights(0, step))[0] ** (1 / law.depth) for step in range(len(at))]
    return run.time, np.array(amplitudes)


def _left_over(problem: Problem, law: RaceEquation, settings: Settings) -> xarray.Dataset:
    """P3's E over the law's velocity from random weights, where the filled fraction passes MODERATE."""
    rate, seeds, random = settings.learning_rate, settings.seeds, initial.gaussian(settings.std)
    steps = round(settings.times[0] / rate)
    at = np.unique(np.linspace(0, steps, LOOKS).astype(int)).tolist()
    run = train(problem, random, rate, steps, seeds=seeds, record="weights", at=at, key=1)
    found = np.full((settings.seeds, len(MODERATE)), np.nan)
    for seed in range(settings.seeds):
        filled = np.array(
            [path_strengths(law.pathways, run.weights(seed, k)).sum(axis=1).mean() for k in range(len(at))]
        )
        for place, level in enumerate(MODERATE):
            if (filled >= level).any():
                left, own = error_term(problem, law, run.weights(seed, int(np.argmax(filled >= level))))
                found[seed, place] = np.nansum(np.abs(left)) / np.nansum(np.abs(own))
    return xarray.Dataset({"left over": (("seed", "filled"), found)}, coords={"filled": list(MODERATE)})


def _seen_apart(settings: Settings) -> xarray.Dataset:
    """When the weakest view reaches 90 % of its end, against the chance of seeing one view without another."""
    start, late, final = np.array(settings.strengths), [], []
    for depth in settings.depths:
        for missing in settings.apart:
            coupling = co_occurrence(len(start), 1 - missing, 1 / CLASSES)
            race = CoupledRace(start, np.full(len(start), 1 / CLASSES), coupling, depth)
            weakest = race.strength(GRID)[:, 0] ** depth
            reached = weakest >= 0.9 * race.final[0] ** depth
            late.append(GRID[int(np.argmax(reached))] if reached.any() else np.inf)
            final.append(race.shares.max())
    shape = (len(settings.depths), len(settings.apart))
    data = xarray.Dataset(coords={"depth": list(settings.depths), "missing": list(settings.apart)})
    data["late"] = (("depth", "missing"), np.reshape(late, shape))
    data["even"] = (("depth", "missing"), np.reshape(final, shape))
    return data


def _by_depth(data: xarray.Dataset, values: np.ndarray) -> dict[str, float]:
    return {f"L = {depth}": float(value) for depth, value in zip(data["depth"].values, values, strict=True)}


def claims(data: xarray.Dataset) -> Claims:
    """What follows from the equation and what does not."""
    claim = Claims()
    _law_claims(claim.shown_in("A"), data)
    _end_claims(claim.shown_in("A"), data)
    return claim


def _law_claims(claim: Claims, data: xarray.Dataset) -> None:
    share, trained = 1 / CLASSES, data["trained"]
    off = max(float(np.abs(data[part] - share).max()) for part in ("drive", "coupling"))
    gaps = abs(trained - data["law"]).max(["look", "view"]).values
    ends = abs(trained.isel(look=-1) - data["end"]).max("view").values
    clocks = np.log(trained.values[0]) / share
    seen = np.isfinite(data["left over"]).any()
    left = np.nanmedian(data["left over"].values, axis=0) if seen else np.full(len(MODERATE), np.nan)
    text = "P3's equation is eq. 10 of P1 for parallel pathways whose views are always together: S_m = D_mn = 1/K."
    claim.check("P3 governing equation; P1 eq. 10", text)
    claim.at_most("distance of the reduction's S and D from 1/K, at every depth,", off, 1e-12)
    claim.detail(data.attrs["equations"])
    text = "Under squared error and gradient flow pathway strengths evolve according to the governing equation."
    claim.paper("P3 governing equation, depth two, decoupled weights", text)
    claim.at_most("largest distance of an amplitude in training from the equation", gaps[0], 0.01)
    text = "At every depth training follows the law, to its exact end."
    claim.finding("P1 eq. 10 for parallel pathways; the end of the race as a root", text)
    claim.at_most("largest distance of an amplitude", _by_depth(data, gaps), 0.01)
    claim.at_most("at the end", _by_depth(data, ends), 1e-3)
    text = "At depth two s_m^(1/sigma_m) / s_n^(1/sigma_n) is conserved while the network learns."
    claim.check("algebra of P3's equation", text)
    what = "drift of its logarithm in training from decoupled weights"
    claim.at_most(what, np.abs(np.diff(clocks - clocks[0], axis=1)).max(), 1e-10)
    source = "P3 governing equation, E(t), whose size it does not say"
    claim.finding(source, "From small random weights P3's error term is small.")
    what = f"depth {data['depth'].values[0]}, median over seeds of |E| over the velocity of the law"
    claim.at_most(what, {f"{level:.0%} filled": value for level, value in zip(MODERATE, left, strict=True)}, 0.1)


def _end_claims(claim: Claims, data: xarray.Dataset) -> None:
    kept = _by_depth(data, data["loser"].values[:, 1] / data["loser"].values[:, 0])
    first, deeper = next(iter(kept)), dict(list(kept.items())[1:])
    late, missing = np.log(data["late"].values[:, -2:]), np.log(data["missing"].values[-2:])
    what = "share of the weakest view where 90 % of the target is learned over that where 10 % is"
    text = "Beyond depth two shares fall, though no strength does; at depth two no share ever changes."
    claim.finding("the race at depth L", text)
    claim.at_most(f"{what}, beyond depth two,", deeper, 0.5)
    claim.within(f"{what}, {first},", kept[first], (1 - 1e-6, 1 + 1e-6), form=".7g")
    text = "Views that are ever seen apart are all learned, the later the rarer that is."
    claim.finding("the race with co-occurrence D", text, "B")
    claim.at_most("largest share at the end, less 1/M,", float(data["even"].max()) - 1 / data.sizes["view"], 1e-6)
    what = "slope of the logarithm of the time to the last view over that of the chance of being apart"
    claim.within(what, (late[:, 1] - late[:, 0]) / (missing[1] - missing[0]), (-1.1, -0.9))


def draw(data: xarray.Dataset) -> Figure:
    """Exact and trained races at every depth, and when the views that come late are learned."""
    depths = data["depth"].values
    figure, (*races, late) = new_panels(len(depths) + 1, columns=2, height=3.5)
    for axis, depth in zip(races, depths, strict=True):
        _draw_depth(axis, data.sel(depth=depth))
    for row, depth, color in zip(data["late"].values, depths, sequence(len(depths)), strict=True):
        late.loglog(data["missing"], row, "o-", color=color, label=f"depth {depth}")
    title, across = (
        "B  a view that is ever seen apart is learned, late",
        "chance that it is missing where another is seen",
    )
    label_axes(late, title, across, "time at which the last view is learned", "ends")
    return figure


def _draw_depth(axis: Axes, data: xarray.Dataset) -> None:
    """Every view of one race, trained and by the law, and where P3's phases end."""
    trained, depth = {"training": ("gated", data["trained"].values)}, int(data["depth"])
    mode_lines(axis, data["time"].values, trained, {"theory, the law": data["law"].values})
    for moment in data["phases"].values:
        axis.axvline(moment, color=COLORS["reference"], linewidth=0.8)
    said = "all views keep their part" if depth == 2 else "losers stop and keep what they have"
    label_axes(axis, f"A  depth {depth}: {said}; grey, where P3's phases end", TIME, "amplitude a of a view")


EXPERIMENT = Experiment(
    name="views-law",
    full=Settings(),
    tiny=Settings(depths=(2,), times=(10.0,), learning_rate=0.2, hidden=3, std=0.1, seeds=1, apart=(0.5, 0.1)),
    compute=compute,
    check=check,
    claims=claims,
    draw=draw,
    differs="P3 gives no network: three classes and three views, first strengths, widths and steps are ours.",
    finding="The race equation is that of P1 for parallel pathways, and training follows it at every depth; "
    "at depth two no share ever changes, in the equation's own exact solution.",
)
