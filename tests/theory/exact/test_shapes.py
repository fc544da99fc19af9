"""Shapes that do not broadcast are refused with the shapes, and those that do are taken, empty ones included."""

import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory.exact import Contextual, Mode, PairRace, Race, TwoLayer

TWO = TwoLayer([1.0, 2.0], 1.0, 0.1), Mode([1.0, 2.0], 1.0, 0.1), Race([[0.1, 0.2], [0.1, 0.3]], 1.0)
SMALL = Contextual(np.eye(2))


@pytest.mark.parametrize(
    "call",
    [
        lambda: TwoLayer([1, 2], [1, 2, 3], 0.1),
        lambda: Mode([1, 2], [1, 2, 3], 0.1),
        lambda: Mode(1.0, 1.0, [0.1, 0.2], [1, 2, 3]),
        lambda: Mode.deep(1.0, 1.0, [0.1, 0.1, 0.1], [1, 2]),
        lambda: Mode.routing(1.0, 1.0, 0.1, 0.1, [2, 3, 4], [1, 2]),
        lambda: Race([0.1, 0.2], [1, 2, 3]),
        lambda: PairRace(np.eye(3), [1, 2], [1, 2, 3]),
        lambda: SMALL.loss([[1], [1, 2]]),
        lambda: SMALL.time("a"),
        lambda: Contextual(np.eye(2), 3, [0.1] * 7).loss(1.0),
        *(lambda one=one: one.strength([1.0, 2.0, 3.0]) for one in TWO),
        *(lambda one=one: one.time([0.1, 0.2, 0.3]) for one in TWO),
    ],
)
def test_what_does_not_fit_is_refused(call):
    with pytest.raises(
        RangeError, match=r"the shapes must broadcast; they are|one number or one per|an array of numbers"
    ):
        call()


@pytest.mark.parametrize("empty", [lambda: Race([], []), lambda: Race([[]], 1.0), lambda: Mode(1.0, 1.0, [])])
def test_nothing_to_race_is_refused(empty):
    with pytest.raises(RangeError, match=r"at least two views|at least one layer"):
        empty()


def test_several_levels_are_those_of_each_level_alone():
    race, levels = Race([0.1, 0.2], 1.0), [0.2, 0.5, 0.7]
    np.testing.assert_allclose(race.time(levels), [race.time(level) for level in levels])
    assert race.time([]).shape == race.strength(np.zeros((0, 1))).shape[:1] == (0,)
