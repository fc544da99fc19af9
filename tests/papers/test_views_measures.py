"""Shares, coverage, and what P3 assumes of gates."""

import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.papers.views import _measures as measures


def test_shares_and_coverage_at_the_ends():
    np.testing.assert_allclose(measures.shares([[2.0, 1.0, -1.0], [0.0, 0.0, 0.0]]), [[2 / 3, 1 / 3, 0], [1 / 3] * 3])
    np.testing.assert_allclose(measures.coverage([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]), [1.0, 1 / 3])
    np.testing.assert_allclose(measures.winner_share([[1.0, 3.0]]), [0.75])
    assert np.isnan(measures.winner_share([[np.nan, 1.0]])).all()
    with pytest.raises(RangeError, match="at least two views"):
        measures.shares([[1.0]])


def test_gates_of_views_with_units_of_their_own():
    alone = np.array([[1.0, 2.0, 0.0, 0.0], [0.0, 0.0, 3.0, 4.0]])
    assert measures.gates_apart(alone, alone.sum(axis=0)) == 1
    assert measures.gates_added(alone, alone.sum(axis=0)) == 1


def test_gates_that_are_shared_or_closed_by_the_other_view():
    alone = np.array([[1.0, 5.0], [1.0, 0.0]])  # the first unit for both, the second for the first view alone
    together = np.array([2.0, 0.0])  # in which the second unit is closed
    assert measures.gates_apart(alone, together) == pytest.approx(5 / 7)  # by the most that each unit does
    assert measures.gates_added(alone, together) == pytest.approx(2 / 7)
