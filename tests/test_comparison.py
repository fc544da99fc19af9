"""The picture of a forecast and a run."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.analysis import Line
from neuralrace.errors import RangeError


def test_a_forecast_and_a_run_with_their_distance():
    run = nr.train(nr.tasks.xor().problem("linear", hidden=2), nr.initial.gaussian(0.1), 0.1, 4, seeds=2)
    forecast = Line(run.time, np.full(5, 0.4))
    axis = nr.compare(forecast, run).axes[0]
    assert f"normalized L1 {nr.agreement(forecast, run).normalized_l1:.2g}" in axis.get_title()
    training, theory = axis.get_lines()
    np.testing.assert_array_equal(training.get_ydata(), run.loss.mean(axis=0))
    np.testing.assert_array_equal(theory.get_ydata(), forecast.loss)
    with pytest.raises(RangeError, match=r"predict at times=run\.time"):
        nr.compare(Line(run.time[1:], forecast.loss[1:]), run)
