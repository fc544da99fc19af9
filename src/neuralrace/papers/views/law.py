"""The equation of the race of views: derived by the reduction, solved exactly, and compared with training."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.errors import RangeError
from neuralrace.papers._common import Claims, panels, setting

CLASSES = 3


@dataclass(frozen=True)
class Settings:
    """Three classes; at each depth a time that is long enough for the race, and a step that is small."""

    strengths: tuple[float, ...] = (0.05, 0.06, 0.08)
    depths: tuple[int, ...] = setting((2, 3, 4), least=2)
    times: tuple[float, ...] = (30.0, 80.0, 500.0)
    learning_rate: float = 0.02
    hidden: int = 8
    apart: tuple[float, ...] = (0.5, 0.1, 0.03, 0.01, 0.003, 0.001)


full, tiny = Settings(), Settings(depths=(2,), times=(10.0,), learning_rate=0.2, hidden=3, apart=(0.5, 0.1))


def check(settings: Settings) -> None:
    """Require a time for each depth, and a step in each time."""
    if len(settings.times) != len(settings.depths) or min(settings.times) < settings.learning_rate:
        raise RangeError(
            f"times must be one for each of the depths, {settings.depths}, and at least one step, "
            f"{settings.learning_rate:g}; they were {settings.times}"
        )


def compute(settings: Settings) -> xarray.Dataset:
    """Derive the equation, solve and train races, and find when views that are seen apart are learned."""
    looks = min(160, *(round(until / settings.learning_rate) + 1 for until in settings.times))  # at most every step
    start, parts = np.array(settings.strengths), list[xarray.Dataset]()
    grid = np.logspace(0, 7, 1500)  # times at which a late view is looked for
    for depth, until in zip(settings.depths, settings.times, strict=True):
        named = nr.tasks.get("views", classes=CLASSES, views=len(start), depth=depth)
        problem = named.problem("views", settings.hidden)
        equation, paths = nr.views.derive(problem), problem.architecture.paths()
        race = nr.views.race(start, equation.drive, depth)
        initial = nr.initial.decoupled({edge: a for path, a in zip(paths, start, strict=True) for edge in path.edges})
        steps = round(until / settings.learning_rate)
        at = np.unique(np.linspace(0, steps, looks).astype(int)).tolist()
        run = nr.train(problem, initial, settings.learning_rate, steps, record="weights", at=at)
        responses = [[path.product(run.weights(0, k))[0, 0] for path in paths] for k in range(len(at))]
        data = xarray.Dataset(attrs={"equations": equation.text.splitlines()[0]})
        data["drive"], data["coupling"] = ("view", equation.drive), (("view", "other"), equation.coupling)
        data["time"], data["theory"] = ("look", run.time), (("look", "view"), race.strength(run.time))
        data["trained"] = (("look", "view"), np.array(responses) ** (1 / depth))  # amplitudes of the first class
        data["end"], data["phases"] = ("view", race.final), ("phase", np.array(race.phases()))
        powers = race.strength(data["phases"].values) ** depth
        data["loser"] = ("phase", powers[:, start.argmin()] / powers.sum(axis=-1))  # the share of the weakest view
        late = []
        for missing in settings.apart:
            coupling = (missing * np.eye(len(start)) + 1 - missing) / CLASSES
            apart = nr.views.CoupledRace(start, equation.drive, coupling, depth)
            reached = apart.strength(grid)[:, 0] ** depth >= 0.9 * apart.final[0] ** depth
            late.append((grid[np.argmax(reached)] if reached.any() else np.inf, apart.shares.max()))
        data["late"], data["even"] = (("missing", values) for values in np.transpose(late))
        parts.append(data)
    found = xarray.concat(parts, "depth", combine_attrs="override")
    return found.assign_coords(depth=list(settings.depths), missing=list(settings.apart))


def claims(data: xarray.Dataset) -> Claims:
    claim, share, trained = Claims(panel="A"), 1 / CLASSES, data["trained"]
    depths = [f"L = {depth}" for depth in data["depth"].values]
    off = max(float(np.abs(data[part] - share).max()) for part in ("drive", "coupling"))
    gaps = abs(trained - data["theory"]).max(["look", "view"]).values
    ends = abs(trained.isel(look=-1) - data["end"]).max("view").values
    clocks = np.log(trained.values[0]) / share
    text = "P3's equation is eq. 10 of P1 for parallel pathways whose views are always together: S_m = D_mn = 1/K."
    claim.check("P3 governing equation; P1 eq. 10", text)
    claim.at_most("distance of the reduction's S and D from 1/K, at every depth,", off, 1e-12)
    claim.detail(data.attrs["equations"])
    text = "Under squared error and gradient flow pathway strengths evolve according to the governing equation."
    claim.paper("P3 governing equation, depth two, decoupled weights", text)
    claim.at_most("largest distance of an amplitude in training from the equation", gaps[0], 0.01)
    text = "At every depth training follows the equation, to its exact end."
    claim.finding("P1 eq. 10 for parallel pathways; the end of the race as a root", text)
    claim.at_most("largest distance of an amplitude", dict(zip(depths, gaps, strict=True)), 0.01)
    claim.at_most("at the end", dict(zip(depths, ends, strict=True)), 1e-3)
    text = "At depth two s_m^(1/sigma_m) / s_n^(1/sigma_n) is conserved while the network learns."
    claim.check("algebra of P3's equation", text)
    what = "drift of its logarithm in training from decoupled weights"
    claim.at_most(what, np.abs(np.diff(clocks - clocks[0], axis=1)).max(), 1e-10)
    first, *deeper = data["loser"].values[:, 1] / data["loser"].values[:, 0]
    what = "share of the weakest view where 90 % of the target is learned over that where 10 % is"
    text = "Beyond depth two shares fall, though no strength does; at depth two no share ever changes."
    claim.finding("the race at depth L", text)
    claim.at_most(f"{what}, beyond depth two,", dict(zip(depths[1:], deeper, strict=True)), 0.5)
    claim.within(f"{what}, {depths[0]},", first, (1 - 1e-6, 1 + 1e-6), form=".7g")
    late, missing = np.log(data["late"].values[:, -2:]), np.log(data["missing"].values[-2:])
    text = "Views that are ever seen apart are all learned, the later the rarer that is."
    claim.finding("the race with co-occurrence D", text, "B")
    claim.at_most("largest share at the end, less 1/M,", float(data["even"].max()) - 1 / data.sizes["view"], 1e-6)
    what = "slope of the logarithm of the time to the last view over the logarithm of the chance of being apart"
    claim.within(what, (late[:, 1] - late[:, 0]) / (missing[1] - missing[0]), (-1.1, -0.9))
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Exact and trained races at every depth, and when the views that come late are learned."""
    depths = data["depth"].values
    figure, (*races, late) = panels(*"A" * len(depths), "B", columns=2, height=3.5)
    for axis, depth in zip(races, depths, strict=True):
        one = data.sel(depth=depth)
        trained, theory = {"training": ("gated", one["trained"].values)}, {"theory": one["theory"].values}
        nr.plotting.mode_lines(axis, one["time"].values, trained, theory)
        for moment in one["phases"].values:
            axis.axvline(moment, color=nr.plotting.COLORS["reference"], linewidth=0.8)
        said = "all views keep their part" if depth == 2 else "losers stop and keep what they have"
        title = f"depth {depth}: {said}; gray, where P3's phases end"
        nr.plotting.label_axes(axis, title, nr.plotting.TIME, "amplitude a of a view")
    for row, depth, color in zip(data["late"].values, depths, nr.plotting.sequence(len(depths)), strict=True):
        late.loglog(data["missing"], row, "o-", color=color, label=f"depth {depth}")
    across = "chance that it is missing where another is seen"
    nr.plotting.label_axes(late, "a view that is ever seen apart is learned, late", across, "time to the last view")
    return figure
