"""Claims in words and counts: whose they are stays apart."""

import pytest

from neuralrace.papers.claims import Claim, Quantity
from neuralrace.report import counted, counts, tally, verdict


def claim(kind: str, holds: bool, fails: str = "") -> Claim:
    return Claim(
        "1", kind, "here", "So it is.", quantities=(Quantity("x", (0.0 if holds else 2.0,), high=1.0),), fails=fails
    )


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (claim("paper", True), "holds"),
        (claim("paper", False, "for a reason"), "refuted"),
        (claim("finding", False, "for a reason"), "does not hold"),
        (claim("finding", False), "does not hold, other than recorded"),
        (claim("paper", True, "for a reason"), "holds, other than recorded"),
    ],
)
def test_verdicts_in_words(one: Claim, words: str) -> None:
    assert verdict(one) == words


def test_counts_keep_kinds_apart() -> None:
    claims = [claim("finding", True), claim("paper", False, "so"), claim("paper", True), claim("check", False)]
    assert counts(claims) == {
        "paper": {"hold": 1, "do_not": 1, "other_than_recorded": 0},
        "finding": {"hold": 1, "do_not": 0, "other_than_recorded": 0},
        "check": {"hold": 0, "do_not": 1, "other_than_recorded": 1},
    }
    assert tally(claims) == (
        "paper: 1 holds, 1 refuted; finding: 1 holds; check: 1 does not hold. 1 came out other than recorded."
    )


@pytest.mark.parametrize(
    ("kind", "held", "failed", "words"),
    [("paper", 30, 11, "30 hold, 11 refuted"), ("finding", 1, 2, "1 holds, 2 do not hold"), ("check", 0, 0, "0 hold")],
)
def test_one_kind_in_words(kind: str, held: int, failed: int, words: str) -> None:
    assert counted(kind, {"hold": held, "do_not": failed}) == words
