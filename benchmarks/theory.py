"""The theory engine beside training of the same problem, warm, in one run."""

import time
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from benchmarks import by_hand

REPEATS = 3
FLOW_RTOL = 3e-5  # with which the loss of P1 Fig 4 is right to 1e-3 of itself at every step (8e-4 at worst)


def rows() -> list[tuple[str, float, str]]:
    """Label, measured and required: ratios, and seconds where the requirement is in seconds."""
    return [*contextual_rows(), *routing_rows()]


def contextual_rows() -> list[tuple[str, float, str]]:
    """P2 Fig 4: four pathways, 8001 epochs; its loss sums over 24 examples, so a step is 24 * 0.001 of time."""
    problem = nr.tasks.contextual(structure="mixed").gatings["common + all-but-one, items only"](100)
    rate, steps = 24 * 0.001, 8000
    weights = nr.initial.gaussian(0.005 / 700)(problem, 0)
    times = rate * np.arange(steps + 1)

    def forecast(check: Literal["auto", False]) -> None:
        whole = nr.theory.Aligned(diagonal=False)
        found = nr.predict(problem, weights, times, method=whole, rtol=1e-4, check=check)
        for path in found.modes.paths:
            found.modes.path(path)

    def train(record: str) -> Any:
        return nr.train(problem, initial=weights, learning_rate=rate, steps=steps, record=record)

    training = warm(lambda: train("loss"))
    with_modes = warm(lambda: train("path_singular_values"))
    by_loop = warm(lambda: loop_by_hand(rate, steps), repeats=1)
    aligned, checked = warm(lambda: forecast(False)), warm(lambda: forecast("auto"))
    flow = warm(lambda: nr.predict(problem, weights, times, method="flow", rtol=FLOW_RTOL))
    return [
        ("contextual: training / forecast of loss and modes", training / aligned, "reported"),
        ("... with its check", training / checked, "at least 10"),
        ("... the same modes recorded in training too", with_modes / aligned, "reported"),
        ("... and training by hand, the same recorded", by_loop / aligned, "at least 100"),
        ("contextual: gradient descent / flow", training / flow, "reported"),
    ]


def loop_by_hand(rate: float, steps: int) -> None:
    """The same network without the package: a jitted update in a Python loop, singular values at each epoch."""
    problem = nr.tasks.contextual(structure="mixed").problem("common + all-but-one", hidden=100)
    drawn = nr.initial.gaussian(0.005 / 700)(problem, 0)
    with jax.enable_x64(True):
        first, second = (
            jnp.stack([jnp.asarray(drawn[edge]) for edge in drawn if (edge[0] == "x") == inner])
            for inner in (True, False)
        )
        record = by_hand.pathway_singular_values
        by_hand.descend(by_hand.pathway_loss(problem), (first, second), rate, steps, record)


def routing_rows() -> list[tuple[str, float, str]]:
    """P1 Fig 4 from random orthogonal weights, and M = 100 with all 10,000 routes from decoupled ones."""
    problem = nr.tasks.routing(domains=7, trained=4).gatings["shared"](64)
    rate, steps = 0.16, 500
    weights = nr.initial.orthogonal(0.2)(problem, 0)
    times = rate * np.arange(steps + 1)
    training = warm(lambda: nr.train(problem, initial=weights, learning_rate=rate, steps=steps, seeds=1, key=0))
    flow = warm(lambda: nr.predict(problem, weights, times, method="flow", rtol=FLOW_RTOL))
    large = nr.tasks.routing(domains=100, trained=100).gatings["shared"](64)
    start = nr.initial.decoupled(0.1)
    seconds = [
        warm(lambda method=method: nr.predict(large, start, np.linspace(0, 2000, 1001), method=method))
        for method in ("reduction", "auto")
    ]
    return [
        ("routing: gradient descent / flow", training / flow, "reported"),
        ("routing M = 100, reduction, seconds", seconds[0], "below 1"),
        ("routing M = 100, closed form, seconds", seconds[1], "below 1"),
    ]


def warm(call: Callable[[], Any], repeats: int = REPEATS) -> float:
    """Seconds of the fastest of some calls after a first one that compiles."""
    call()
    found = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return min(found)
