"""The matrix flow against scipy, autodiff, gradient descent and the examples."""

import numpy as np
import pytest

from neuralrace import initial
from neuralrace.architecture import Architecture
from neuralrace.errors import RangeError
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import predict
from oracle import loss, random_weights
from theory_problems import chain, descent, flatten, scipy_flow, tangled

TIMES = np.linspace(0.0, 6.0, 25)
PROBLEM = tangled()
WEIGHTS = random_weights(PROBLEM.architecture, 0, 0.3)


def test_flow_is_the_solution_of_scipy():
    exact = scipy_flow(PROBLEM, WEIGHTS, TIMES, rtol=1e-11, atol=1e-13)
    forecast = predict(PROBLEM, WEIGHTS, TIMES, "flow", rtol=1e-8)
    losses = [loss(PROBLEM, weights) for weights in exact]
    np.testing.assert_allclose(forecast.loss, losses, rtol=1e-6)


def test_gradient_descent_comes_nearer_at_first_order():
    gaps = []
    for rate in (0.04, 0.02, 0.01):
        steps = round(2.0 / rate)
        losses, _ = descent(PROBLEM, WEIGHTS, rate, steps)
        forecast = predict(PROBLEM, WEIGHTS, rate * np.arange(steps + 1), "flow", rtol=1e-9)
        gaps.append(np.abs(losses - forecast.loss).max())
    orders = np.log2(np.array(gaps[:-1]) / gaps[1:])
    np.testing.assert_allclose(orders, 1.0, atol=0.15)  # the next order is a few per cent at these rates


def test_statistics_alone_give_the_same_forecast():
    whole = predict(PROBLEM, WEIGHTS, TIMES, "flow").loss
    np.testing.assert_allclose(predict(PROBLEM.statistics(), WEIGHTS, TIMES, "flow").loss, whole, rtol=1e-12)
    np.testing.assert_allclose(predict(PROBLEM.compress(), WEIGHTS, TIMES, "flow").loss, whole, rtol=1e-9)


def test_descent_that_diverges_is_no_number_and_its_certificate_says_so():
    graph = Architecture({"x": 2, "h": 4, "y": 7}, [("x", "h"), ("h", "y")])
    few = Problem(graph, Task({"x": np.eye(2)}, {"y": np.eye(2, 7)}))  # fewer directions than outputs
    times = 5.0 * np.arange(0, 61, 20)
    weights = random_weights(graph, 0, 0.3)
    forecast = predict(few, weights, times, "flow", learning_rate=5.0, dynamics="descent")
    assert np.isnan(forecast.loss[-1])
    assert forecast.certificate["flow regime"].residual == np.inf
    assert "1 of 1 draws diverge" in forecast.certificate.notes[-1]


def test_descent_of_whole_matrices_is_gradient_descent():
    losses, last = descent(PROBLEM, WEIGHTS, 0.05, 40)
    times = 0.05 * np.arange(41)
    forecast = predict(PROBLEM, WEIGHTS, times, "flow", learning_rate=0.05, dynamics="descent")
    np.testing.assert_allclose(forecast.loss, losses, rtol=1e-11)
    np.testing.assert_allclose(flatten(PROBLEM, forecast.weights(2.0)), flatten(PROBLEM, last), atol=1e-11)


def test_flow_is_exact_from_weights_of_1e_12():
    problem = chain(hidden=(4,))
    times = np.linspace(0, 60, 200)
    formula = predict(problem, initial.decoupled(1e-12), times, "closed_form").loss
    found = predict(problem, initial.decoupled(1e-12), times, "flow", rtol=1e-8).loss
    # a relative error of 1e-8 per step over e-folds of 27 shifts the transitions by less than 1e-6
    np.testing.assert_allclose(found, formula, atol=1e-5)


def test_too_few_steps_say_what_to_do():
    with pytest.raises(RangeError, match="max_steps"):
        predict(PROBLEM, WEIGHTS, [500.0], "flow", max_steps=10)
