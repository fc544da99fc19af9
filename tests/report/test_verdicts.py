"""Claims in words and counts: whose they are stays apart."""

import pytest

from neuralrace.papers.claim import Claim
from neuralrace.report import counted, counts, reason, tally, verdict


def claim(kind: str, holds: bool, on_record: str = "holds") -> Claim:
    return Claim("So it is.", "here", kind, "1", "1", holds, on_record)


@pytest.mark.parametrize(
    ("one", "words"),
    [
        (claim("paper", True), "holds"),
        (claim("paper", False, "refuted: for a reason"), "refuted"),
        (claim("ours", False, "does not hold: for a reason"), "does not hold"),
        (claim("ours", False), "does not hold, other than recorded"),
        (claim("paper", True, "refuted: for a reason"), "holds, other than recorded"),
    ],
)
def test_verdicts_in_words(one: Claim, words: str) -> None:
    assert verdict(one) == words
    assert reason(one) == ("for a reason" if ":" in one.on_record else "")


def test_counts_keep_kinds_apart() -> None:
    claims = [claim("ours", True), claim("paper", False, "refuted: so"), claim("paper", True), claim("check", False)]
    assert counts(claims) == {
        "paper": {"hold": 1, "do_not": 1, "other_than_recorded": 0},
        "ours": {"hold": 1, "do_not": 0, "other_than_recorded": 0},
        "check": {"hold": 0, "do_not": 1, "other_than_recorded": 1},
    }
    assert tally(claims) == (
        "paper: 1 holds, 1 refuted; ours: 1 holds; check: 1 does not hold. 1 came out other than recorded."
    )


@pytest.mark.parametrize(
    ("kind", "held", "failed", "words"),
    [("paper", 30, 11, "30 hold, 11 refuted"), ("ours", 1, 2, "1 holds, 2 do not hold"), ("check", 0, 0, "0 hold")],
)
def test_one_kind_in_words(kind: str, held: int, failed: int, words: str) -> None:
    assert counted(kind, {"hold": held, "do_not": failed}) == words
