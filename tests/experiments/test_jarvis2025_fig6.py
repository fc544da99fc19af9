"""What Fig 6 of P2 is measured with: typical runs, plateaus, times to a loss, gates that let through."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.experiments.figures import jarvis2025_fig6 as fig6

EPOCH = np.arange(0, 10001, 100.0)


def steps(levels: tuple[float, ...], drops: tuple[float, ...]) -> np.ndarray:
    """A loss that falls from level to level within some hundred epochs."""
    loss = np.full(len(EPOCH), levels[0])
    for before, after, drop in zip(levels[:-1], levels[1:], drops, strict=True):
        loss += (after - before) / (1 + np.exp(-(EPOCH - drop) / 50))
    return loss


def test_plateaus_are_found_and_the_first_is_left_out() -> None:
    found = fig6.plateaus(EPOCH, steps((4.0, 2.0, 0.5), (2500, 6000)))
    assert [round(plateau.loss, 3) for plateau in found] == [2.0, 0.5]
    assert 2500 < found[0].epoch < 6000 < found[1].epoch
    assert EPOCH[found[0].place] == found[0].epoch


def test_a_steady_fall_has_no_plateau() -> None:
    assert fig6.plateaus(EPOCH, 4 * np.exp(-EPOCH / 5000)) == []


def test_times_to_a_loss() -> None:
    falling = 4.0 - EPOCH / 5000
    times = fig6.times_to(EPOCH, np.array([falling, falling + 1, falling + 3]), 3.13)
    np.testing.assert_allclose(times[:2], [4350, 9350])  # exact for a line
    assert np.isnan(times[2])


def test_the_typical_run_is_nearest_to_the_mean() -> None:
    early, middle, late = (steps((4.0, 1.0), (drop,)) for drop in (3000, 4100, 5000))
    assert fig6.typical(np.array([early, middle, late])) == 1


def test_gates_of_the_network_with_a_shared_first_layer() -> None:
    named = nr.tasks.contextual(3, "hierarchy")
    problem = fig6.shared_first_layer(named, hidden=16)
    assert problem.architecture.nodes == {
        "x": 11,
        "h1": 16,
        "common": 4,
        "without0": 4,
        "without1": 4,
        "without2": 4,
        "y": 60,
    }
    weights = nr.initial.gaussian(0.1)(problem, 0)
    activity = problem.activity(weights)
    context = named.groups["context"]
    assert np.all(activity["h1"] != 0)
    assert np.all(activity["common"] != 0)
    for c in range(3):
        np.testing.assert_array_equal(np.all(activity[f"without{c}"] != 0, axis=1), context != c)


def test_a_layer_that_is_always_on_lets_everything_through() -> None:
    named = nr.tasks.contextual(3, "hierarchy")
    network = nr.ReLUNetwork(named.task, hidden=(6, 5))
    weights = dict(nr.initial.gaussian(1.0)(network, 0))
    assert 0.2 < fig6.passed(network, weights) < 0.8
    weights["x", "h1"] = np.abs(weights["x", "h1"])
    assert fig6.passed(network, weights) == pytest.approx(1.0)
