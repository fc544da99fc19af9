"""Foreseen modules beside found ones: pairs, what is left over, and what is said of them."""

import numpy as np

from neuralrace.explanation.foretold import matches
from neuralrace.explanation.verdicts import of_foretold
from neuralrace.reln.gating import LayerGating

EVERY, LEFT, RIGHT = (np.array(row, dtype=float) for row in ([1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]))
WEIGHTS = np.array([0.4, 0.4, 0.1, 0.1])


def gating(*gates):
    share = np.full(len(gates), 1 / max(len(gates), 1))
    return {"h1": LayerGating(np.reshape(gates, (-1, 4)), np.zeros((1, 2), dtype=int), share, share)}


def compared(foreseen, found):
    rows = matches(gating(*foreseen), gating(*found), WEIGHTS, lambda pattern: f"{pattern.sum():.0f} on")
    return rows, of_foretold(rows)


def test_modules_are_paired_by_their_gates_whatever_their_order():
    rows, told = compared([LEFT, EVERY], [EVERY, LEFT])
    assert {(row.foreseen, row.found) for row in rows} == {(0, 1), (1, 0)}
    assert [row.responds for row in rows] == ["2 on", "4 on"]
    assert all(row.same for row in rows)
    assert "the 2 found are these" in told


def test_examples_count_by_their_weights():
    (row,), told = compared([EVERY], [LEFT])
    assert row.alike == 0.8
    assert not row.same
    assert "of the 1 found 0 are among them" in told


def test_what_is_left_over_is_told():
    rows, told = compared([LEFT], [EVERY, LEFT, RIGHT])
    assert sorted((row.foreseen, row.found) for row in rows if row.foreseen is not None) == [(0, 1)]
    assert {row.found for row in rows if row.foreseen is None} == {0, 2}
    assert "of the 3 found 1 is among them" in told
    rows, _ = compared([LEFT], [])
    assert [(row.foreseen, row.found) for row in rows] == [(0, None)]
