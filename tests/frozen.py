"""Decisions and curves to compare a refactored package with: python tests/frozen.py writes tests/frozen.json.

Forecasts (method, certificate, declined methods, losses), trainings and explanations of a fixed set of problems. The
random problems are those of `random_forecasts.py`. Only public names are used.
"""

import json
from pathlib import Path

import numpy as np
import optax

import neuralrace as nr
from random_forecasts import KINDS, make_case

FILE = Path(__file__).with_suffix(".json")
SHAPE = 0  # of the random problems; small, and the same as in the tests of the promise
SEEDS = 7
NAMED = {  # task, gating, hidden, std, end, method
    "xor": ("xor", {}, "xor", 32, 1e-3, 40, "auto"),
    "semantic reduction": ("semantic", {}, "linear", 16, 1e-4, 60, "reduction"),
    "semantic": ("semantic", {}, "linear", 16, 1e-4, 60, "auto"),
    "contextual": ("contextual", {"contexts": 3, "structure": "mixed"}, "common + all-but-one", 100, 1e-4, 150, "auto"),
    "contextual flow": ("contextual", {"contexts": 2}, "common + single", 16, 1e-2, 60, "flow"),
    "routing": ("routing", {"domains": 4, "trained": 2}, "shared", 32, 0.05, 60, "auto"),
    "routing small": ("routing", {"domains": 4, "trained": 4}, "shared", 64, 1e-2, 60, "auto"),
}


def curve(losses) -> list[float]:
    """Five points of the mean loss."""
    mean = np.atleast_2d(losses).mean(axis=0)
    return [float(mean[i]) for i in np.linspace(0, len(mean) - 1, 5).astype(int)]


def summary(forecast) -> dict:
    """What a forecast decided, and its curve."""
    certificate = forecast.certificate
    return {
        "method": forecast.method,
        "holds": certificate.holds,
        "declined": sorted({entry.method for entry in certificate.declined}),
        "loss": curve(forecast.losses),
    }


def random_forecasts() -> dict[str, dict]:
    """Every kind of random problem."""
    found = {}
    for kind in KINDS:
        for seed in range(SEEDS):
            case = make_case(kind, SHAPE, seed)
            found[f"{kind} {seed}"] = summary(nr.predict(case.problem, case.weights, case.times))
    return found


def named_forecast(name: str) -> dict:
    """A named task with a gating; an error is a decision too."""
    task, options, gating, hidden, std, end, method = NAMED[name]
    problem = getattr(nr.tasks, task)(**options).problem(gating, hidden=hidden)
    weights = [nr.initial.gaussian(std)(problem, key) for key in range(3)]
    try:
        return summary(nr.predict(problem, weights, np.linspace(0, end, 61), method=method))
    except nr.NeuralRaceError as error:
        return {"error": type(error).__name__}


def trainings() -> dict[str, list[float]]:
    """Linear, gated and rectified networks, with several rules, objectives and records."""
    xor, law = nr.tasks.xor(), nr.initial.gaussian(0.1)
    relu, gated = nr.ReLUNetwork(xor.task, hidden=(16,), biases=True), xor.problem("xor", hidden=8)
    contextual = nr.tasks.contextual(2, "mixed").problem("common + single", hidden=12)
    deep = nr.ReLUNetwork(nr.tasks.iris().task, hidden=(8, 6), slope=0.1)
    cases = {
        "relu": (relu, {}),
        "gated": (gated, {}),
        "deep": (deep, {"learning_rate": 0.02}),
        "batches": (relu, {"batch_size": 2}),
        "adam": (gated, {"optimizer": optax.adam(0.01)}),
        "cross-entropy": (deep, {"loss": "cross-entropy"}),
        "residual": (contextual, {"coupling": "residual", "learning_rate": 0.05}),
        "single": (gated, {"precision": "single"}),
    }
    found = {}
    for name, (network, options) in cases.items():
        options = {"learning_rate": 0.1, "steps": 200, "seeds": 2, "key": 3, "progress": False} | options
        found[name] = curve(nr.train(network, law, **options).loss)
    return found


def assert_as_frozen(name: str, found: dict) -> None:
    """Compare with the stored decisions and curve.

    Another integrator may be off by its own accuracy: 1e-5 of the initial loss, and for gates, whose thresholds are
    smoothed, 2e-3.
    """
    stored = dict(json.loads(FILE.read_text())["forecasts"][name])
    loss, expected = found.pop("loss", [0.0]), stored.pop("loss", [0.0])
    assert found == stored
    accuracy = 2e-3 if name.startswith("rectified") else 1e-5
    np.testing.assert_allclose(loss, expected, rtol=0, atol=accuracy * max(expected))


if __name__ == "__main__":
    forecasts = random_forecasts() | {name: named_forecast(name) for name in NAMED}
    FILE.write_text(json.dumps({"forecasts": forecasts, "trainings": trainings()}, indent=1) + "\n")
