"""Few neurons for many: scaling by 2-homogeneity, exact second moments, and the size of the first output."""

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.initial import gaussian
from neuralrace.theory.representatives import Spans, drawn_neurons, initial_output, whitened

RANDOM = np.random.default_rng(0)
TASK = nr.Task({"x": RANDOM.normal(size=(9, 4)) @ np.diag([1, 1, 1, 0])}, {"y": RANDOM.normal(size=(9, 1)) @ [[3, 4]]})


def test_spans_keep_the_loss_and_the_outputs():
    problem = nr.ReLUNetwork(TASK, hidden=(6,), biases=True)
    spans = Spans.of(problem)
    assert (spans.bases["x"].shape, spans.bases["bias"].shape, spans.bases["y"].shape) == ((4, 3), (1, 1), (2, 1))
    narrow = spans.network(6)
    inner = gaussian(0.5)(narrow, 0)
    outer = spans.lift(inner)
    assert narrow.loss(inner) == pytest.approx(problem.loss(outer), rel=1e-12)
    again = spans.weights(spans.neurons(inner), inner)
    assert all(np.array_equal(again[edge], inner[edge]) for edge in inner)


def test_a_neuron_scaled_by_the_root_counts_that_often():
    problem = nr.ReLUNetwork(TASK, hidden=(10,), slope=0.2)
    spans = Spans.of(problem)
    one = spans.neurons(gaussian(0.5)(spans.network(2), 0))
    five = np.repeat(one, 5, axis=0)
    few, many = spans.network(2), spans.network(10)
    assert few.loss(spans.weights(np.sqrt(5) * one, {})) == pytest.approx(many.loss(spans.weights(five, {})), rel=1e-12)


def test_drawn_neurons_have_the_second_moments_of_the_layer():
    spans = Spans.of(nr.ReLUNetwork(TASK, hidden=(1000,)))
    law = gaussian({("x", "h1"): 0.1, ("h1", "y"): 0.3})
    drawn = spans.neurons(drawn_neurons(spans, law, 50, 1000, jax.random.key(0)))
    np.testing.assert_allclose(drawn.T @ drawn, 1000 * np.diag([0.01] * 3 + [0.09]), atol=1e-10)
    np.testing.assert_allclose(drawn[:25], -drawn[25:], atol=1e-12)  # so that every half space has half of them
    # as many as there are: a plain draw, whose moments vary as those of a network do
    whole = spans.neurons(drawn_neurons(spans, law, 1000, 1000, jax.random.key(0)))
    assert 1e-3 < np.abs(whole.T @ whole / 1000 - np.diag([0.01] * 3 + [0.09])).max() < 0.05
    few = RANDOM.normal(size=(5, 4))
    assert whitened(few, np.ones(4)) is few  # five neurons cannot have all moments


def test_the_first_output_is_foreseen():
    problem = nr.ReLUNetwork(TASK, hidden=(400,), slope=0.3)
    law = gaussian(0.1)
    size = np.sqrt((TASK.targets["y"] ** 2).sum(axis=1).mean())
    outputs = [problem.forward(law(problem, key))["y"] for key in range(40)]
    measured = np.sqrt(np.mean([(rows**2).sum(axis=1).mean() for rows in outputs])) / size
    assert initial_output(problem, law) == pytest.approx(measured, rel=0.3)  # forty draws, few directions
