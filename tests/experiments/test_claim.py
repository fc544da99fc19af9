"""A claim writes its sentence and compares by one threshold."""

import numpy as np
import pytest

from neuralrace.analysis.intervals import Interval
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.experiments.claim import Claim, at_least, at_most, falling, listed, rising, within

WIDE = Interval(0.5, 0.3, 0.7)


def test_a_threshold_writes_the_sentence_and_decides():
    low, high = (Claim.at_most("It is small.", "here", "ours", "its size", value, 0.05) for value in (0.04, 0.06))
    assert (low.expected, low.measured, low.holds) == ("its size at most 0.05", "0.04", True)
    assert not high.holds
    assert Claim.at_least("It is large.", "here", "ours", "its size", [1.0, 2.0], 1).holds
    assert not Claim.within("It is so.", "here", "ours", "its size", {"a": 1.0, "b": 3.0}, (0, 2)).holds


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (at_most("x", WIDE, 0.6), False),  # its mean is below, not all of it
        (at_most("x", WIDE, 0.7), True),
        (at_least("x", {"a": WIDE}, 0.4), False),
        (within("x", [WIDE, WIDE], (0.3, 0.7)), True),
        (at_most("x", np.nan, 1), False),
        (at_least("x", np.nan, 1), False),
        (at_most("x", [], 1), False),  # of none, nothing was measured
        (rising("x", [1.0, 2.0, 2.5], "depth"), True),
        (rising("x", [1.0, 2.0, 2.0], "depth"), False),
        (falling("x", {"a": 2.0, "b": 1.0}, "depth"), True),
        (falling("x", [2.0], "depth"), False),
        (falling("x", [np.inf, np.inf], "depth"), False),
        (rising("x", [Interval(1, 0, 2), Interval(2, 1, 3)], "depth"), False),  # means rise, intervals meet
        (rising("x", [Interval(1, 0, 2), Interval(4, 3, 5)], "depth"), True),
        (falling("x", [Interval(4, 3, 5), Interval(1, 0, 2)], "depth"), True),
    ],
)
def test_conditions(condition, holds):
    assert condition.holds is holds


def test_several_conditions_all_count_and_say_what_they_are_of():
    claim = Claim.of("Both.", "here", "ours", at_most("the one", 1, 2), at_least("the other", 1, 2, unit=" %"))
    assert not claim.holds
    assert claim.expected == "the one at most 2; the other at least 2 %"
    assert claim.measured == "the one 1; the other 1 %"


def test_values_are_listed_for_a_person():
    assert listed({}) == listed([]) == "none"
    assert listed(range(9)) == "0 to 8 over 9"
    assert listed({"a": 1.0, "b": WIDE}) == "a: 1; b: 0.5 [0.3, 0.7]"
    assert listed([WIDE, WIDE], ".1f") == "0.5 [0.3, 0.7]; 0.5 [0.3, 0.7]"


def test_only_a_paper_is_refuted():
    for kind, words in (("paper", "refuted: why"), ("ours", "does not hold: why"), ("check", "does not hold: why")):
        claim = Claim.at_most("It is small.", "here", kind, "its size", 2, 1, words)
        assert claim.as_recorded
        assert not Claim.at_most("It is small.", "here", kind, "its size", 1, 1, words).as_recorded
    with pytest.raises(RangeError, match="on_record must be 'holds', or start with 'does not hold: '"):
        Claim.at_most("It is small.", "here", "ours", "its size", 2, 1, "refuted: why")
    with pytest.raises(UnknownNameError, match="kind must be one of paper, ours, check"):
        Claim.at_most("It is small.", "here", "theirs", "its size", 2, 1)
