"""How near forecasts of ReLU networks come to trained ones: `python -m benchmarks.forecasts --out DIR`.

Every prediction is written to DIR/predictions.json, with its settings, before any network is trained. Then networks are
trained task by task and DIR/results.json grows: the distance of the forecast from the mean of the networks, and of each
network from the mean of the others; DIR/forecasts.json has the numbers for the docs. A task that fails is noted and the
rest go on; a training that takes longer than --limit seconds is cut short and compared up to there. The rules of
drawing were fixed on the mixed task alone, which is here for reference and counts for nothing; those of strides by what
they leave out, from the same weights, on the tasks of SEEN.
"""

import argparse
import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

import neuralrace as nr
from benchmarks.theory import warm

SMALL = 0.005 / 700  # P2's standard deviation of initial weights
POINTS = 160  # times at which losses are compared
LEARNED = 1e-5  # of the initial loss, below which nothing more is compared
WIDE = 5_000  # from here on only these tasks
WIDE_TASKS = ("hierarchy-4", "hierarchy-6", "xor-0.5", "xor-1", "table-0", "table-1", "gaussian", "gaussian-2")
NETWORKS = 10
FINER = nr.theory.Representatives(most=16_384, at_once=1)  # predicts wide layers too
TIMED = {700: "at most 0.25", 10_000: "reported", 100_000: "reported"}  # width -> what `make bench` asks


@dataclass(frozen=True)
class Trial:
    """A task with its training: rate and most steps, and the standard deviation of the initial weights."""

    make: Callable[[], nr.Task]
    learning_rate: float
    steps: int
    std: float = SMALL


def hierarchy(contexts: int) -> Trial:
    """P2 Fig 5; its loss is summed over the examples, so that a rate of .001 is .001 for each."""
    return Trial(lambda: nr.tasks.contextual(contexts, "hierarchy").task, 0.001 * 8 * contexts, 8000)


def table(seed: int) -> nr.Task:
    """Every pair of five rows and five columns, with four random numbers to be known of each."""
    pairs = [(row, column) for row in range(5) for column in range(5)]
    inputs = np.array([np.concatenate([np.eye(5)[row], np.eye(5)[column]]) for row, column in pairs])
    return nr.Task({"x": inputs}, {"y": np.random.default_rng([7, seed]).normal(size=(25, 4))})


def gaussian(seed: int) -> nr.Task:
    """Forty random points with three random targets each."""
    random = np.random.default_rng(seed)
    return nr.Task({"x": random.normal(size=(40, 6))}, {"y": random.normal(size=(40, 3))})


def noisy(seed: int) -> nr.Task:
    """A rectified teacher of four neurons, with noise of half the size of its output, and a constant input."""
    random = np.random.default_rng(seed)
    inputs = np.column_stack([random.normal(size=(200, 5)), np.ones(200)])
    clean = np.maximum(inputs @ random.normal(size=(6, 4)), 0) @ random.normal(size=(4, 1))
    clean = (clean - clean.mean()) / clean.std()
    return nr.Task({"x": inputs}, {"y": clean + 0.5 * random.normal(size=clean.shape)})


TRIALS = {
    "mixed": Trial(lambda: nr.tasks.contextual(3, "mixed").task, 0.001 * 24, 8000),
    **{f"hierarchy-{contexts}": hierarchy(contexts) for contexts in (4, 5, 6, 7, 8)},
    **{
        f"xor-{margin:g}": Trial(lambda margin=margin: nr.tasks.xor(margin).task, 0.02, 4000, 1e-4)
        for margin in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
    },
    **{f"table-{seed}": Trial(lambda seed=seed: table(seed), 0.05, 8000, 1e-4) for seed in range(11)},
    "gaussian": Trial(lambda: gaussian(11), 0.02, 8000, 1e-4),
    "gaussian-2": Trial(lambda: gaussian(12), 0.02, 8000, 1e-4),
    "noisy": Trial(lambda: noisy(13), 0.01, 8000, 1e-4),
    "noisy-2": Trial(lambda: noisy(14), 0.01, 8000, 1e-4),
}
SEEN = {"mixed", "hierarchy-5", "xor-0", "xor-1", "table-0", "gaussian", "noisy"}  # where strides were compared


def predict_task(name: str, width: int, shorter: int, coarser: dict[str, Any] | None = None) -> dict[str, Any]:
    """The prediction of one task at one width, with all its settings; the finer one where a coarser one is given."""
    trial = TRIALS[name]
    network, initial = nr.ReLUNetwork(trial.make(), hidden=(width,)), nr.initial.gaussian(trial.std)
    finer, seconds = coarser is not None, []
    most = max(trial.steps // shorter, POINTS) if coarser is None else coarser["settings"]["steps"]
    for _ in range(2):  # the second call finds its programs compiled, and ends where the first said that all is learned
        steps, every = schedule(most)
        times = trial.learning_rate * np.arange(0, steps + 1, every)
        began = time.perf_counter()
        method, rate = FINER if finer else "auto", trial.learning_rate
        forecast = nr.predict(network, initial, times, method, key=0, learning_rate=rate, dynamics="descent")
        seconds.append(time.perf_counter() - began)
        learned = np.flatnonzero((forecast.loss < LEARNED * forecast.loss[0]) & (not finer))
        most = max(int(learned[0]) * every, POINTS) if len(learned) else steps
    return {
        "task": name,
        "width": width,
        "finer": finer,
        "neurons": max((forecast.simulated or network).architecture.nodes.values()),
        "made": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "settings": forecast.settings | {"std": trial.std, "steps": steps, "every": every},
        "method": forecast.method,
        "certificate": str(forecast.certificate).splitlines(),
        "seconds": seconds,
        "time": forecast.time.tolist(),
        "losses": forecast.losses.tolist(),
    }


def compare(prediction: dict[str, Any], networks: int, limit: float) -> dict[str, Any]:
    """Train networks and measure: the forecast from their mean, and each from the mean of the others."""
    settings = prediction["settings"]
    run, seconds = trained(prediction["task"], prediction["width"], settings["steps"], networks, limit)
    predicted = np.array(prediction["losses"])
    shared = min(len(run.time), predicted.shape[1])
    times = np.asarray(run.time)[:shared]
    if not np.allclose(times, np.array(prediction["time"])[:shared]):
        raise ValueError("the training was recorded at other times than the forecast")
    measured, predicted = np.asarray(run.loss)[:, :shared], predicted[:, :shared]
    found = distance(times, predicted, measured)
    others = [distance(times, measured[i : i + 1], np.delete(measured, i, axis=0)) for i in range(networks)]
    ranges = {key: sorted(other[key] for other in others) if networks > 1 else [] for key in found}
    return {
        "task": prediction["task"],
        "width": prediction["width"],
        "finer": prediction["finer"],
        "networks": networks,
        "status": [str(status) for status in run.status],
        "cut short": shared < len(prediction["time"]),
        "forecast": found,
        "networks from the mean of the others": ranges,
        "as near as a network": {key: bool(ranges[key]) and found[key] <= ranges[key][-1] for key in found},
        "seconds of one training": seconds / networks,
        "seconds of the forecast": prediction["seconds"][-1],
        "last loss": [float(measured[:, -1].mean()), float(predicted[:, -1].mean())],
    }


@lru_cache(maxsize=1)
def trained(task: str, width: int, steps: int, networks: int, limit: float) -> tuple[nr.Trajectory, float]:
    """The networks, and the seconds that they took; the same serve both forecasts of a wide layer."""
    trial, began = TRIALS[task], time.perf_counter()
    run = nr.train(
        nr.ReLUNetwork(trial.make(), hidden=(width,)),
        nr.initial.gaussian(trial.std),
        learning_rate=trial.learning_rate,
        steps=steps,
        every=schedule(steps)[1],
        seeds=networks,
        key=1,
        progress=False,
        callback=lambda *_: time.perf_counter() - began > limit,
    )
    return run, time.perf_counter() - began


def distance(times: np.ndarray, one: np.ndarray, other: np.ndarray) -> dict[str, float]:
    """Normalized L1 and the mean gap of log10 between two means."""
    if not len(one) or not len(other):
        return {"normalized_l1": float("nan"), "log10_gap": float("nan")}
    found = nr.agreement(nr.analysis.Line(times, one), nr.analysis.Line(times, other))
    return {key: value for key, value in asdict(found).items() if key != "max_gap"}


def schedule(steps: int) -> tuple[int, int]:
    """Steps, and steps between two records."""
    every = max(steps // POINTS, 1)
    return steps - steps % every, every


def chosen(tasks: Sequence[str], widths: Sequence[int]) -> list[tuple[str, int, bool]]:
    """Tasks by widths; of the wide ones only some unless they are named, and these also by the finer way."""
    names = list(tasks) or list(TRIALS)
    pairs = [(n, w) for w in sorted(widths) for n in names if w < WIDE or tasks or n in WIDE_TASKS]
    return [(n, w, finer) for n, w in pairs for finer in (False, True)[: 1 + (w >= WIDE)]]


def attempt(work: Callable[[], dict[str, Any]], name: str, width: int) -> dict[str, Any]:
    """What the work gives, or what went wrong: one task must not stop the others."""
    try:
        return work()
    except Exception as fault:
        traceback.print_exc()
        return {"task": name, "width": width, "failed": f"{type(fault).__name__}: {fault}"}


def write(path: Path, entries: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(entries, indent=1), encoding="utf-8")


def record(predictions: list[dict[str, Any]], results: list[dict[str, Any]], machine: str) -> dict[str, Any]:
    """What docs/records/forecasts.json holds: of every comparison the numbers, and none of the curves."""
    made = {(one["task"], one["width"], one.get("finer")): one for one in predictions}
    kept = []
    for found in (one for one in results if "failed" not in one):
        first = made[found["task"], found["width"], found["finer"]]
        kept.append(
            {name: first[name] for name in ("task", "width", "finer", "neurons", "made", "method")}
            | {"seen": found["task"] in SEEN, "draws": len(first["losses"]), "networks": found["networks"]}
            | {"forecast": {name: round(value, 6) for name, value in found["forecast"].items()}}
            | {
                "networks_apart": {
                    name: [round(apart[0], 6), round(apart[-1], 6)]
                    for name, apart in found["networks from the mean of the others"].items()
                }
            }
            | {"last_loss": found["last loss"]}
            | {name: first["settings"][name] for name in ("steps", "std", "learning_rate")}
            | {
                "seconds": {
                    "forecast": round(found["seconds of the forecast"], 3),
                    "one_training": round(found["seconds of one training"], 3),
                }
            }
        )
    what = (
        "forecast: from the mean of the networks; networks_apart: least and most of each network from the mean of the "
        "others"
    )
    return {"machine": machine, "what": what, "rows": kept}


def rows() -> list[tuple[str, float, str]]:
    """The mixed task, 8,000 steps: a forecast by steps, of two draws, over one training; both warm.

    A training of many neurons is timed over few steps, all of which cost the same.
    """
    trial, found = TRIALS["mixed"], []
    initial, (steps, every) = nr.initial.gaussian(trial.std), schedule(trial.steps)
    times = trial.learning_rate * np.arange(0, steps + 1, every)
    for width, asked in TIMED.items():
        network, timed = nr.ReLUNetwork(trial.make(), hidden=(width,)), max(steps * 700 // width, 2 * every)
        options = {"learning_rate": trial.learning_rate, "dynamics": "descent"}
        forecast = warm(lambda n=network, o=options: nr.predict(n, initial, times, **o), 2)
        training = warm(
            lambda n=network, s=timed: nr.train(n, initial, trial.learning_rate, s, every=every, progress=False), 2
        )
        ratio = forecast / (training * steps / timed)
        found.append((f"forecast of {width} rectified neurons / one training", ratio, asked))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Predict everything, write it down, then train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", nargs="*", default=[], choices=list(TRIALS))
    parser.add_argument("--widths", nargs="*", type=int, default=[200, 700, 10_000, 100_000])
    parser.add_argument("--networks", type=int, default=NETWORKS)
    parser.add_argument("--limit", type=float, default=300.0, help="seconds of training for each task and width")
    parser.add_argument("--machine", default="", help="what it ran on, for DIR/forecasts.json, the record of the docs")
    parser.add_argument("--shorter", type=int, default=1, help="divide the steps by this, to try the script out")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    predictions: list[dict[str, Any]] = []
    for name, width, finer in chosen(options.tasks, options.widths):
        like = predictions[-1] if finer else None
        predictions.append(attempt(lambda n=name, w=width, c=like: predict_task(n, w, options.shorter, c), name, width))
        write(options.out / "predictions.json", predictions)
        print(name, width, predictions[-1].get("method", "failed"), predictions[-1].get("seconds"), flush=True)
    results: list[dict[str, Any]] = []
    for made in predictions:
        if "failed" in made:
            continue
        work = lambda p=made: compare(p, options.networks, options.limit)  # noqa: E731
        results.append(attempt(work, made["task"], made["width"]))
        write(options.out / "results.json", results)
        print(made["task"], made["width"], results[-1].get("forecast", results[-1].get("failed")), flush=True)
    text = json.dumps(record(predictions, results, options.machine), indent=1)
    (options.out / "forecasts.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
