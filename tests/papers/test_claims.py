"""A claim holds if every number lies within its limits; words are made of numbers, never the reverse."""

import json

import numpy as np
import pytest

from neuralrace.analysis import Interval
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.papers.claims import Claim, Claims
from neuralrace.report import verdict

WIDE = Interval(0.5, 0.3, 0.7)


def made(*conditions, kind="finding", fails=None):
    """One claim; conditions: the name of each and what it is given."""
    claim = Claims()
    claim.said(kind, "here", "It is so.")
    for name, *given in conditions:
        getattr(claim, name)(*given)
    claim.fails(fails)
    (only,) = claim
    return only


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (("at_most", "its size", 0.06, 0.05), False),
        (("at_least", "its size", [1.0, 2.0], 1), True),
        (("within", "its size", {"a": 1.0, "b": 3.0}, (0, 2)), False),
        (("at_most", "x", WIDE, 0.6), False),  # its mean is below, not all of it
        (("at_least", "x", {"a": WIDE}, 0.4), False),
        (("within", "x", [WIDE, WIDE], (0.3, 0.7)), True),
        (("at_most", "x", np.nan, 1), False),
        (("at_most", "x", [], 1), False),  # of none, nothing was measured
        (("rising", "x", [1.0, 2.0, 2.5], "depth"), True),
        (("falling", "x", {"a": 2.0, "b": 1.0}, "depth"), True),
        (("falling", "x", [np.inf, np.inf], "depth"), False),
        (("rising", "x", [Interval(1, 0, 2), Interval(2, 1, 3)], "depth"), False),  # means rise, intervals meet
        (("rising", "x", [Interval(1, 0, 2), Interval(4, 3, 5)], "depth"), True),
    ],
)
def test_conditions(condition, holds):
    assert made(condition).holds is holds


def test_several_conditions_all_count_and_say_what_they_are_of():
    claim = made(("at_most", "the one", 1, 2), ("detail", "so"), ("at_least", "the other", 1, 2, " %"))
    assert not claim.holds
    assert claim.asked == "the one at most 2; the other at least 2 %"
    assert claim.shown == "the one 1; the other 1 % (so)"
    assert (claim.measured, claim.low, claim.high) == ((1.0, 1.0), (None, 2), (2, None))


def test_a_claim_survives_json():
    claim = made(
        ("at_most", "x", {"a": 0.5, "b": np.nan, "c": np.inf}, 1, " %"), ("within", "y", WIDE, (0, 1)), fails="so"
    )
    told = json.loads(json.dumps(claim.as_values(), allow_nan=False))
    again = Claim.from_values(told)
    assert again.as_values() == claim.as_values()
    assert told["holds"] is False
    assert again.as_recorded
    assert again.shown == "x a: 0.5, b: none, c: inf %; y 0.5 [0.3, 0.7]"


def test_claims_keep_their_order_and_say_whose_and_where():
    claim = Claims()
    claim.paper("P2 Fig 1a", "First.")
    claim.at_most("its size", 1, 2)
    claim.panel = "B"
    claim.finding("beyond it", "Second.")
    claim.at_most("its size", 1, 2)
    claim.check("algebra", "Third.", "C")
    claim.at_most("its size", 1, 2)
    assert [(one.id, one.source, one.kind, one.text, one.panel) for one in claim] == [
        ("1", "P2 Fig 1a", "paper", "First.", ""),
        ("2", "beyond it", "finding", "Second.", "B"),
        ("3", "algebra", "check", "Third.", "C"),
    ]


def test_a_sentence_without_a_measurement_is_refused_and_so_is_the_reverse():
    with pytest.raises(RangeError, match="must follow a sentence"):
        Claims().at_most("its size", 1, 2)
    with pytest.raises(RangeError, match=r"needs a measured quantity, .*'It is so.' has none"):
        made()
    with pytest.raises(UnknownNameError, match="kind must be one of paper, finding, check"):
        made(("at_most", "its size", 2, 1), kind="theirs")


def test_a_verdict_is_compared_with_the_record():
    for fails, value, recorded in (("why", 2, True), ("why", 1, False), (None, 1, True), (None, 2, False)):
        assert made(("at_most", "its size", value, 1), fails=fails).as_recorded is recorded


@pytest.mark.parametrize(
    ("condition", "near"),
    [
        (("at_most", "x", 0.159, 0.15), True),  # fails, and would hold at 0.165
        (("at_most", "x", 0.14, 0.15), True),  # holds, and would fail at 0.135
        (("at_most", "x", 0.13, 0.15), False),
        (("at_least", "x", 0.9905, 0.99), True),  # a share: the distance counts from the whole
        (("at_least", "x", 0.95, 1), True),  # a ratio
        (("at_least", "x", 4, 4), False),  # a count
        (("within", "x", 0.81, (0.80, 0.82)), False),  # a tenth of the width
        (("at_most", "x", np.nan, 1), False),
        (("rising", "x", [1.0, 1.01], "depth"), False),
    ],
)
def test_a_verdict_near_its_threshold_says_so(condition, near) -> None:
    claim = made(condition)
    assert claim.near is near
    assert ("near its threshold" in verdict(claim)) is near
    assert not made(condition, kind="check").near
