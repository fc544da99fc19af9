"""Recurrent networks: three numbers for each mode forecast what networks with random weights learn.

Limits of the claims were set before the first run.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import NEAR, Claims, apart, panels, setting
from neuralrace.plotting import SERIES, TIME, label_axes, loss_curves, theory_line, training_band

SOURCE = "after Proca et al. 2025"
RECORDS = 400


@dataclass(frozen=True)
class Settings:
    """values, strengths: of the modes of the task. longer: lengths of sequences that are not trained.

    std: of all initial weights. end: of the training, in units of time.
    """

    values: tuple[float, ...] = (0.9, 0.8, 0.7)
    strengths: tuple[float, ...] = (3.0, 2.0, 1.0)
    length: int = setting(5, least=2)
    longer: tuple[int, ...] = (10, 20)
    hidden: int = 20
    std: float = 1e-3
    rate: float = 1e-3
    end: float = 20.0
    seeds: int = 5


full = Settings()
tiny = Settings((0.9, 0.6), (3.0, 1.5), 2, (3,), hidden=4, rate=0.05, end=6.0, seeds=1)


def compute(settings: Settings) -> xarray.Dataset:
    """Train networks, forecast each from its initial weights, and all of them from the initializer alone."""
    task, initial = sequence(settings, settings.length), nr.initial.gaussian(settings.std)
    problem = task.problem("recurrent", settings.hidden)
    starts = [initial(problem, key) for key in range(settings.seeds)]
    steps = round(settings.end / settings.rate)
    options: dict[str, Any] = {"learning_rate": settings.rate, "steps": steps, "every": max(1, steps // RECORDS)}
    run = nr.train(problem, starts, record="weights", progress=False, **options)
    forecast = nr.predict(problem, starts, run.time, progress=False)
    typical = nr.predict(problem, initial, run.time, check=False, progress=False)
    learned = [[run.weights(seed, record) for record in range(len(run.time))] for seed in range(settings.seeds)]
    predicted = [forecast.weights_at(run.time, draw) for draw in range(settings.seeds)]
    sides = ("trained", "theory")
    data = xarray.Dataset(coords={"time": run.time, "side": list(sides), "longer": list(settings.longer)})
    data["loss"] = ("side", "seed", "time"), np.array([run.losses, forecast.losses])
    data["typical"] = "time", typical.loss
    both = learned, predicted
    data["response"] = (
        ("side", "seed", "time", "lag", "mode"),
        np.array([[[responses(at, settings.length) for at in one] for one in sets] for sets in both]),
    )
    data["value"] = (
        ("side", "seed", "time", "mode"),
        np.array([[[leading(at, len(settings.values)) for at in one] for one in sets] for sets in both]),
    )
    others = [sequence(settings, length).problem("recurrent", settings.hidden) for length in settings.longer]
    data["longer_loss"] = (
        ("longer", "side", "seed", "time"),
        np.array([[[list(map(other.loss, one)) for one in sets] for sets in both] for other in others]),
    )
    unaligned = nr.networks.recurrent(turned(task.task), settings.hidden)
    run = nr.train(unaligned, starts, progress=False, **options)
    flow = nr.predict(unaligned, starts, run.time, progress=False)
    forced = nr.predict(unaligned, starts, run.time, nr.theory.Reduction(force=True), check=False, progress=False)
    data["unaligned"] = ("seed", "time"), run.losses
    data["flow"], data["forced"] = (("seed", "time"), flow.losses), (("seed", "time"), forced.losses)
    failed = {one.method: one.failed for one in flow.certificate.declined}["reduction"]
    names = {"method": forecast.method, "other_method": flow.method, "failed": failed.name, "misfit": failed.residual}
    return data.assign_attrs(names, values=settings.values)


def sequence(settings: Settings, length: int) -> Any:
    """The task with sequences of a length."""
    return nr.tasks.sequence(settings.values, settings.strengths, length)


def turned(task: nr.Task) -> nr.Task:
    """The same task with the inputs of each time in another basis."""
    random, inputs = np.random.default_rng(1), {}
    for node, rows in task.inputs.items():
        rotation = np.linalg.qr(random.standard_normal((rows.shape[1], rows.shape[1])))[0]
        inputs[node] = rows @ rotation
    return nr.Task(inputs, task.targets)


def responses(weights: Any, length: int) -> np.ndarray:
    """What each mode of the output tells of its input, (lags, modes)."""
    found, state = [], weights["input"]
    for _ in range(length):
        found.append(np.diag(weights["output"] @ state))
        state = weights["recurrent"] @ state
    return np.array(found)


def leading(weights: Any, count: int) -> np.ndarray:
    """The largest eigenvalues of the recurrent matrix, the largest first."""
    return np.sort(np.linalg.eigvals(weights["recurrent"]).real)[::-1][:count]


def half_times(data: xarray.Dataset) -> np.ndarray:
    """When each response has half of its final size, (sides, seeds, lags, modes)."""
    curves = data["response"].transpose("side", "seed", "lag", "mode", "time").values
    return nr.analysis.time_to(data["time"].values, -curves, -0.5 * curves[..., -1])


def distances(data: xarray.Dataset, theory: np.ndarray, trained: np.ndarray) -> list[float]:
    """The normalized L1 between the forecast of each network and its training."""
    time = data["time"].values
    return [apart(time, *pair).normalized_l1 for pair in zip(theory, trained, strict=True)]


def claims(data: xarray.Dataset) -> Claims:
    claim = Claims()
    trained, theory = data["loss"].sel(side="trained").values, data["loss"].sel(side="theory").values
    text = "Three numbers for each mode forecast how a recurrent network learns from its random initial weights."
    claim.finding(SOURCE, text, "A")
    claim.at_most("normalized L1 of each network", distances(data, theory, trained), 0.005)
    claim.detail(f"method: {data.attrs['method']}, without a constant")
    claim.finding(SOURCE, "From the initializer alone the forecast follows the mean network.", "A")
    distance = apart(data["time"].values, data["typical"].values, trained).normalized_l1
    claim.at_most("normalized L1 between mean forecast and mean run", distance, NEAR)
    claim.finding(SOURCE, "Later inputs are learned first, in every mode.", "B")
    halves = half_times(data)
    claim.at_least("time from one input to the one before it", np.diff(halves[0], axis=1).min(axis=(0, 1)), 0.0)
    claim.detail("the least of all networks, mode by mode")
    claim.fails("in the strongest mode all inputs are learned at nearly one time, earlier ones slightly sooner")
    claim.finding(SOURCE, "It is forecast when each input is learned.", "B")
    claim.at_most("largest relative error of the time", np.max(np.abs(halves[1] / halves[0] - 1)), 0.02)
    claim.finding(SOURCE, "The recurrent weights find the values of the task.", "C")
    found = data["value"].sel(side="trained").values[:, -1]
    claim.at_most("largest error", np.max(np.abs(found - np.sort(data.attrs["values"])[::-1])), 0.01)
    claim.finding(SOURCE, "Networks that have learned short sequences solve longer ones.", "D")
    longer = data["longer_loss"].values  # (lengths, sides, seeds, times)
    names = [f"length {length}" for length in data["longer"].values]
    ends = np.max(longer[:, 0, :, -1] / longer[:, 0, :, 0], axis=1)
    claim.at_most("loss relative to the initial one", dict(zip(names, ends.tolist(), strict=True)), 1e-3)
    claim.finding(SOURCE, "The loss on longer sequences is forecast too.", "D")
    errors = [max(distances(data, one[1], one[0])) for one in longer]
    claim.at_most("normalized L1, largest of all networks", dict(zip(names, errors, strict=True)), 0.01)
    claim.fails("0.030 at length 20, in a peak of the loss while the largest eigenvalue exceeds one")
    text = "Inputs in other bases at every time leave no modes: the certificate declines the reduction, the flow holds."
    claim.finding(SOURCE, text, "E")
    claim.at_least("misfit of shared bases", data.attrs["misfit"], 0.01)
    others = data["unaligned"].values
    claim.at_most("normalized L1 of the flow", distances(data, data["flow"].values, others), 0.005)
    claim.detail(f"{data.attrs['failed']} fails; method: {data.attrs['other_method']}")
    claim.finding(SOURCE, "The reduction, were it forced there, would be wrong.", "E")
    claim.at_least("normalized L1 of the reduction", distances(data, data["forced"].values, others), NEAR)
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """Losses, responses, recurrent values, longer and unaligned sequences."""
    figure, (loss, response, values, longer, unaligned) = panels(*"ABCDE")
    time = data["time"].values
    trained, theory = (data.sel(side=side) for side in ("trained", "theory"))
    curves = {"networks": ("gated", trained["loss"].values)}
    lines = {"theory": theory["loss"].mean("seed").values}
    loss_curves(loss, "three numbers per mode forecast the loss", time, curves, lines)
    weakest = [side["response"].values[..., -1] for side in (trained, theory)]
    for lag, color in enumerate(SERIES[: weakest[0].shape[2]]):
        own, forecast = (curve[..., lag] / curve[:, -1:, lag] for curve in weakest)
        training_band(response, time, own, color, "last input" if lag == 0 else f"{lag} before it")
        theory_line(response, time, forecast.mean(axis=0), None)
    label_axes(response, "weakest mode: later inputs first", TIME, "response, relative to the final one")
    for mode, color in enumerate(SERIES[: data.sizes["mode"]]):
        training_band(values, time, trained["value"].values[..., mode], color, f"mode {mode + 1}")
        theory_line(values, time, theory["value"].values[..., mode].mean(axis=0), None)
    label_axes(values, "recurrent weights find the values", TIME, "eigenvalue")
    for length, color in zip(data["longer"].values, SERIES, strict=False):
        own, forecast = (np.maximum(one["longer_loss"].sel(longer=length).values, 1e-2) for one in (trained, theory))
        training_band(longer, time, own, color, f"length {length}")
        theory_line(longer, time, forecast.mean(axis=0), None)
    longer.set_yscale("log")
    label_axes(longer, "longer sequences: a peak, then solved", TIME, "loss, at least 0.01")
    for axis in (loss, response, values, longer):
        axis.set_xlim(0, 0.5 * time[-1])
    curves = {"networks": ("gated", data["unaligned"].values)}
    lines = {"flow": data["flow"].mean("seed").values, "reduction, declined": data["forced"].mean("seed").values}
    loss_curves(unaligned, "unaligned inputs: the flow holds", time, curves, lines)
    return figure
