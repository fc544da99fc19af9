"""Modules predicted before any training, beside those of trained ReLU networks, task by task."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, panels, setting

RECORDS = 80
SOURCE = "after P2 section 4"


def random_table() -> nr.Task:
    """Twelve random examples of five inputs and three outputs."""
    random = np.random.default_rng(1)
    return nr.Task({"x": random.standard_normal((12, 5))}, {"y": random.standard_normal((12, 3))})


# how a task is made; how many modules are looked for, P2's number where it has one; hidden neurons; the standard
# deviation of their weights; learning rate and steps
CASES: dict[str, tuple[Callable[[], nr.Task], int, int, float, float, int]] = {
    "mixed": (lambda: nr.tasks.contextual(3, "mixed").task, 4, 200, 3e-5, 0.024, 4800),
    "hierarchy 4": (lambda: nr.tasks.contextual(4).task, 5, 200, 3e-5, 0.032, 4800),
    "XOR 0": (lambda: nr.tasks.xor(0.0).task, 4, 128, 1e-4, 0.05, 720),
    "XOR 0.5": (lambda: nr.tasks.xor(0.5).task, 4, 128, 1e-4, 0.05, 720),
    "XOR 1.5": (lambda: nr.tasks.xor(1.5).task, 2, 128, 1e-4, 0.05, 720),
    "random table": (random_table, 4, 200, 1e-4, 0.05, 2000),
}


@dataclass(frozen=True)
class Settings:
    """seeds: networks in each of two groups, and draws of the theory. share: of the steps of each case."""

    cases: tuple[str, ...] = setting(tuple(CASES), words=tuple(CASES))
    seeds: int = 3
    share: float = 1.0


full, tiny = Settings(), Settings(cases=("XOR 0",), seeds=1, share=0.5)


def compute(settings: Settings) -> xarray.Dataset:
    """Predict the modules of every case, then train it; another group of networks says how near is near.

    alike: the share of gates on which a predicted module and the one found agree. written: the correlation of what they
    write. share: of all that is passed on, of both. size: of what modules do, over time.
    """
    parts, seeds = [], settings.seeds
    for name in settings.cases:
        make, count, hidden, std, rate, steps = CASES[name]
        network, initial = nr.ReLUNetwork(make(), hidden=(hidden,)), nr.initial.gaussian(std)
        every = max(1, round(settings.share * steps / RECORDS))
        times = rate * every * np.arange(RECORDS + 1)
        predicted = nr.reln.predict_modules(network, initial, times, count, draws=seeds, learning_rate=rate)
        record = ("gate_patterns", "weights")
        run = nr.train(network, initial, rate, every * RECORDS, seeds=2 * seeds, record=record, every=every)
        groups = [run.data.isel(seed=part) for part in (slice(seeds), slice(seeds, None))]
        found, again = (nr.reln.discover(nr.Trajectory(one, problem=network), count) for one in groups)
        data = xarray.Dataset({"time": ("point", run.time), "trained": (("seed", "point"), run.loss)})
        assert predicted.forecast is not None
        data["forecast"] = ("point", predicted.forecast.loss)
        data["apart"] = nr.agreement(predicted.forecast, run).normalized_l1
        data = xarray.merge([data, pairs("predicted", predicted, found), pairs("other", again, found)], join="outer")
        parts.append(data)
    return xarray.concat(parts, "task", join="outer").assign_coords(task=list(settings.cases))


def pairs(name: str, description: nr.reln.Modular, found: nr.reln.Modular) -> xarray.Dataset:
    """The modules of a description with those that they are paired with, and how both grow."""
    matched = [pair for pair in nr.reln.match(description, found) if pair.first and pair.second]
    both: list[Any] = [(pair.first, pair.second) for pair in matched]
    data = xarray.Dataset(coords={"side": ["first", "found"], "pair": np.arange(len(matched))})
    data[f"{name}_alike"] = ("pair", [pair.alike for pair in matched])
    data[f"{name}_written"] = ("pair", [pair.written for pair in matched])
    data[f"{name}_share"] = (("pair", "side"), [[first.share, second.share] for first, second in both])
    sizes = [[np.interp(found.time, description.time, first.size), second.size] for first, second in both]
    data[f"{name}_size"] = (("pair", "side", "point"), np.array(sizes))
    return data


def by_task(data: xarray.Dataset, name: str, what: str) -> dict[str, float]:
    """The mean over modules, each by its share of the strength on both sides, for each task."""
    weights = np.nan_to_num(data[f"{name}_share"].mean("side").values)
    values = np.nan_to_num(data[f"{name}_{what}"].values)
    means = (weights * values).sum(axis=1) / weights.sum(axis=1)
    return dict(zip(map(str, data["task"].values), means.tolist(), strict=True))


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims()
    alike, other = by_task(data, "predicted", "alike"), by_task(data, "other", "alike")
    claim.finding(SOURCE, "The modules that ReLU networks form are predicted from their initializer.", "B")
    claim.at_least("share of gates that agree with those found", alike, 0.9)
    claim.finding(SOURCE, "They are as near to those found as the modules of other networks are.", "B")
    less = {task: other[task] - alike[task] for task in alike}
    claim.at_most("gates that agree less than between two groups of networks", less, 0.05)
    share = np.nanmax(np.abs(np.diff(data["predicted_share"].values, axis=-1)), axis=(1, 2))
    claim.finding(SOURCE, "It is predicted how much each module carries.", "B")
    what = "largest difference of a module's share"
    claim.at_most(what, dict(zip(alike, share.tolist(), strict=True)), 0.1)
    claim.fails("0.11 to 0.12 for XOR with a margin, whose few neurons differ from draw to draw")
    claim.finding(SOURCE, "It is predicted what each module writes.", "B")
    claim.at_least("correlation of what they write", by_task(data, "predicted", "written"), 0.9)
    claim.fails("0.77 for the random table")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """For every task the loss with its forecast, and how what the modules do grows."""
    alike = by_task(data, "predicted", "alike")
    figure, axes = panels(*("A" for _ in alike), *("B" for _ in alike), height=3.5)
    for name, loss, sizes in zip(alike, axes, axes[len(alike) :], strict=False):
        one = data.sel(task=name).dropna("pair", subset=["predicted_alike"])
        time, series = one["time"].values, nr.plotting.SERIES
        title = f"{name}: the forecast is {100 * float(one['apart']):.1f} % from the networks"
        trained, theory = {"trained": ("relu", one["trained"].values)}, {"forecast": one["forecast"].values}
        nr.plotting.loss_curves(loss, title, time, trained, theory)
        for pair, (_, found) in enumerate(one["predicted_size"].values):
            color = series[pair % len(series)]
            sizes.plot(time, found, color=color, linewidth=1.8, label=f"module {pair + 1}")
        nr.plotting.mode_lines(sizes, time, {}, {"predicted": one["predicted_size"].values[:, 0].T})
        title = f"{name}: {100 * alike[name]:.0f} % of the modules' gates are predicted"
        nr.plotting.label_axes(sizes, title, nr.plotting.TIME, "size of what a module does")
    return figure
