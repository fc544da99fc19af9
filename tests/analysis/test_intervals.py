"""Means and proportions with their intervals."""

import numpy as np
import pytest
from scipy.stats import binomtest, bootstrap

from neuralrace.analysis.intervals import interval, proportion
from neuralrace.errors import RangeError


def test_interval_is_that_of_the_bootstrap():
    values = np.random.default_rng(0).normal(2.0, 1.0, 200)
    found = interval(values)
    other = bootstrap((values,), np.mean, rng=np.random.default_rng(1), method="percentile").confidence_interval
    # two ways to one interval of width 0.28; the bootstrap's own noise is a few per cent of it
    assert found.low == pytest.approx(other.low, abs=0.03)
    assert found.high == pytest.approx(other.high, abs=0.03)
    assert interval([1.5]) == (1.5, 1.5, 1.5)
    assert str(interval([1.5])) == "1.5 [1.5, 1.5]"
    assert f"{interval([1.5]):.2f}" == "1.50 [1.50, 1.50]"


def test_proportion_stays_between_zero_and_one():
    found = proportion([True] * 30)
    assert found.mean == 1
    assert found.low == pytest.approx(1 / (1 + 1.959964**2 / 30), rel=1e-6)  # Wilson at n of n


@pytest.mark.parametrize("hits", [0, 1, 4, 7])
def test_proportion_is_that_of_scipy(hits):
    other = binomtest(hits, 7).proportion_ci(method="wilson")
    # the same formula: a few roundings apart
    assert proportion(np.arange(7) < hits) == pytest.approx((hits / 7, other.low, other.high), rel=1e-15, abs=0)


def test_nothing_to_measure_is_refused():
    with pytest.raises(RangeError, match="at least one value"):
        interval([])
    with pytest.raises(RangeError, match="at least one outcome"):
        proportion([])
