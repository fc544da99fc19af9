"""Shares, coverage and intervals."""

import numpy as np
import pytest
from scipy.stats import bootstrap

from neuralrace import views
from neuralrace.errors import RangeError


def test_shares_and_coverage_at_the_ends():
    np.testing.assert_allclose(views.shares([[2.0, 1.0, -1.0], [0.0, 0.0, 0.0]]), [[2 / 3, 1 / 3, 0], [1 / 3] * 3])
    np.testing.assert_allclose(views.coverage([[1.0, 1.0, 1.0], [5.0, 0.0, 0.0]]), [1.0, 1 / 3])
    np.testing.assert_allclose(views.winner_share([[1.0, 3.0]]), [0.75])
    assert np.isnan(views.winner_share([[np.nan, 1.0]])).all()


def test_interval_is_that_of_the_bootstrap():
    values = np.random.default_rng(0).normal(2.0, 1.0, 200)
    found = views.interval(values)
    other = bootstrap((values,), np.mean, rng=np.random.default_rng(1), method="percentile").confidence_interval
    # two ways to one interval of width 0.28; the bootstrap's own noise is a few per cent of it
    assert found.low == pytest.approx(other.low, abs=0.03)
    assert found.high == pytest.approx(other.high, abs=0.03)
    assert views.interval([1.5]) == (1.5, 1.5, 1.5)
    assert str(views.interval([1.5])) == "1.5 [1.5, 1.5]"


def test_proportion_stays_between_zero_and_one():
    found = views.proportion([True] * 30)
    assert found.mean == 1
    assert found.low == pytest.approx(1 / (1 + 1.959964**2 / 30), rel=1e-6)  # Wilson at n of n


def test_nothing_to_measure_is_refused():
    with pytest.raises(RangeError, match="at least one value"):
        views.interval([])
    with pytest.raises(RangeError, match="at least one outcome"):
        views.proportion([])
    with pytest.raises(RangeError, match="at least two views"):
        views.shares([[1.0]])
