"""Modules before any training: those of trained networks, with their sizes; the course and the matching of modules."""

from dataclasses import replace

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import GateError, ProblemError, RangeError, UnknownNameError, WeightError

LAW = nr.initial.gaussian(1e-4)
TIMES = np.linspace(0, 35, 36)
NETWORK = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(64,))


@pytest.fixture(scope="module")
def foreseen():
    return reln.foresee(NETWORK, LAW, TIMES, 4, draws=1)


def test_the_modules_of_xor_are_foreseen(foreseen):
    assert {tuple(row) for row in foreseen.patterns} == {tuple(row) for row in np.eye(4, dtype=bool)}
    assert foreseen.forecast.method == "representatives"
    assert foreseen.table == ()
    np.testing.assert_allclose(foreseen.course.share[:, -1], 0.25, atol=0.01)  # each has to learn as much
    assert foreseen.course.neurons[:, -1].sum() <= 64
    # each writes the target of its example, and nothing else
    written = foreseen.course.written[:, :, 0]
    np.testing.assert_allclose(written, foreseen.patterns * NETWORK.targets[:, 0], atol=0.02)


def test_trained_networks_form_them(foreseen):
    run = nr.train(NETWORK, LAW, 0.05, 700, seeds=1, record=("gate_patterns", "weights"), every=20)
    found = reln.modules_in(run, 4)
    pairs = reln.match(foreseen, foreseen.course, found, reln.course(run, found)[0])
    assert [pair.alike for pair in pairs] == [1.0] * 4
    assert min(pair.written for pair in pairs) > 0.99
    assert len({pair.second for pair in pairs}) == 4
    bare = replace(run, data=run.data.drop_vars(["weights[x->h1]", "weights[h1->y]"]))
    with pytest.raises(GateError, match="'gate_patterns', 'weights'"):
        reln.course(bare, found)


def test_no_draw_is_shared_with_training(foreseen):
    first = foreseen.forecast.weights(0.0)["x", "h1"]
    for key in range(3):
        assert not np.isin(np.round(first, 12), np.round(LAW(NETWORK, key)["x", "h1"], 12)).any()


def test_another_number_of_modules_needs_no_other_forecast(foreseen):
    two = foreseen.split(2)
    assert two.patterns.shape == (2, 4)
    assert two.forecast is foreseen.forecast
    with pytest.raises(RangeError, match="distinct patterns"):
        foreseen.split(500)
    with pytest.raises(ProblemError, match="ReLUNetwork"):
        reln.foresee(nr.tasks.xor().problem("xor"), LAW, TIMES, 4)
    network = nr.ReLUNetwork(nr.tasks.xor().task, 4)
    with pytest.raises(WeightError, match="initial must be a law"):
        reln.foresee(network, LAW(network, 0), TIMES)
    with pytest.raises(UnknownNameError, match="no option 'learningrate'; did you mean 'learning_rate'"):
        reln.foresee(network, LAW, TIMES, learningrate=0.1)


def test_when_a_module_parts():
    strength = np.array([[4.0, 4, 4, 4, 4], [0, 0, 0, 4, 4]])
    course = reln.Course(np.arange(5.0), strength, strength, np.zeros((2, 3, 1)))
    np.testing.assert_allclose(course.share[:, -1], 0.5)
    np.testing.assert_allclose(course.parted, [0, 2.5])
