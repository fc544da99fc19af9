"""A forecast of a rectified network that ignores the step size of the run that it is compared with."""

import warnings

import numpy as np
import pytest

import neuralrace as nr


def test_a_forecast_that_ignores_the_learning_rate_is_warned_about():
    random = np.random.default_rng(0)
    task = nr.Task({"x": random.normal(size=(6, 2))}, {"y": random.normal(size=(6, 1))})
    network, initial = nr.ReLUNetwork(task, 4), nr.initial.gaussian(0.1)
    run = nr.train(network, initial, 0.05, 20, progress=False)
    with pytest.warns(UserWarning, match=r"predict with learning_rate=0\.05"):
        nr.agreement(nr.predict(network, initial, run.time), run)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nr.agreement(nr.predict(network, initial, run.time, learning_rate=0.05), run)
