"""Times to a level, plateaus and typical runs against brute force on small curves."""

import hypothesis.extra.numpy as arrays
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from neuralrace.analysis import plateaus, time_to, typical

TIME = np.array([0.0, 1.0, 1.5, 4.0, 9.0])
CURVES = arrays.arrays(float, (3, 5), elements=st.integers(-4, 4).map(float))
EPOCH = np.arange(0, 10001, 100.0)
RULE = {"slope": 5e-5, "lasts": 1000.0}


def first_crossing(curve: np.ndarray, level: float) -> float:
    """Segment by segment, in words: the first place at or below the level."""
    if curve[0] <= level:
        return TIME[0]
    for i in range(1, len(curve)):
        if curve[i] <= level:
            line = np.polynomial.Polynomial.fit(TIME[i - 1 : i + 1], curve[i - 1 : i + 1], 1)
            return float((line - level).roots()[0])
    return np.inf


@given(CURVES, st.floats(-5, 5))
def test_time_to_is_the_first_crossing_of_each_curve(curves: np.ndarray, level: float) -> None:
    wanted = [first_crossing(curve, level) for curve in curves]
    np.testing.assert_allclose(time_to(TIME, curves, level), wanted, rtol=1e-9, atol=1e-9)  # a line fitted, not ours


@given(CURVES, arrays.arrays(float, 3, elements=st.floats(-5, 5)))
def test_batches_are_single_curves_with_levels_of_their_own(curves: np.ndarray, levels: np.ndarray) -> None:
    single = [float(time_to(TIME, curve, level)) for curve, level in zip(curves, levels, strict=True)]
    assert time_to(TIME, curves, levels).tolist() == single
    assert time_to(TIME, curves.reshape(3, 1, 5), levels[:, None]).ravel().tolist() == single


def test_levels_that_are_met_at_once_exactly_or_never() -> None:
    falling = np.array([4.0, 3.0, 2.0, 1.0, 1.0])
    assert float(time_to(TIME, falling, 5.0)) == 0.0
    assert float(time_to(TIME, falling, 3.0)) == 1.0
    assert float(time_to(TIME, falling, 0.5)) == np.inf
    assert float(time_to(TIME, -falling, -1.5)) == 0.0  # rising: the sign of both is changed
    assert float(time_to(TIME, [np.nan, np.nan, 2.0, 1.0, 0.0], 1.5)) == 2.75


def steps(levels: tuple[float, ...], drops: tuple[float, ...]) -> np.ndarray:
    """A loss that falls from level to level within some hundred epochs."""
    loss = np.full(len(EPOCH), levels[0])
    for before, after, drop in zip(levels[:-1], levels[1:], drops, strict=True):
        loss += (after - before) / (1 + np.exp(-(EPOCH - drop) / 50))
    return loss


def test_plateaus_are_found_and_the_first_is_left_out() -> None:
    found = plateaus(EPOCH, steps((4.0, 2.0, 0.5), (2500, 6000)), **RULE)
    assert [round(plateau.loss, 3) for plateau in found] == [2.0, 0.5]
    assert 2500 < found[0].time < 6000 < found[1].time
    assert EPOCH[found[0].place] == found[0].time


@pytest.mark.parametrize("scale", [5000, 19000])
def test_a_steady_fall_has_no_plateau(scale: float) -> None:
    assert plateaus(EPOCH, 4 * np.exp(-EPOCH / scale), **RULE) == []


@given(st.lists(st.sampled_from([1.0, 1.0, 0.5]), min_size=3, max_size=12), st.integers(1, 4))
def test_plateaus_are_the_flat_runs_that_last(factors: list[float], lasts: int) -> None:
    loss = np.cumprod([1.0, *factors])
    flat = "".join("_" if factor == 1.0 else "|" for factor in factors)
    runs = [(start, len(run)) for start, run in _runs(flat)]
    wanted = [start for start, length in runs if length >= lasts and loss[start] < 0.99]
    assert [plateau.place for plateau in plateaus(np.arange(len(loss)), loss, 1e-6, lasts)] == wanted


def _runs(flat: str) -> list[tuple[int, str]]:
    found, place = [], 0
    for run in flat.split("|"):
        if run:
            found.append((place, run))
        place += len(run) + 1
    return found


@given(arrays.arrays(float, (4, 3), elements=st.integers(-9, 9).map(float)))
def test_the_typical_run_is_nearest_to_the_mean(losses: np.ndarray) -> None:
    distances = [sum((loss - mean) ** 2 for loss, mean in zip(run, losses.mean(0), strict=True)) for run in losses]
    assert distances[typical(losses)] == pytest.approx(min(distances))
