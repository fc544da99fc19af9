"""Many trainings at once against the package's own training, one by one."""

import dataclasses

import numpy as np
import optax
import pytest

import neuralrace as nr
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.experiments.figures._views_training import Conditions, draw_weights, lone_rows, rows, train_views

STEPS = 30
BASE = Conditions(depth=3, hidden=4, probability=0.8, scale=0.8)


def own_training(given, seed):
    """The outputs that nr.train ends with, in the order of the task's rows, and the classes and views of those."""
    made = nr.tasks.get("views", presence="chance", probability=given.probability, depth=given.depth)
    layers = [np.asarray(layer) for layer in draw_weights(given, seed)]
    if given.network == "gated":
        network = made.problem("views", given.hidden)
        chains = [path.edges for path in network.architecture.paths()]
        start = {edge: layers[i][m] for m, chain in enumerate(chains) for i, edge in enumerate(chain)}
    else:
        network = nr.ReLUNetwork(made.task, (given.hidden,) * (given.depth - 1))
        start = {edge: layers[i][0] for i, edge in enumerate(network.architecture.edges)}
    heavy = given.rule == "momentum"
    optimiser = optax.sgd(given.learning_rate * (1 - given.momentum), given.momentum) if heavy else None
    rate = None if heavy else given.learning_rate
    run = nr.train(network, start, rate, STEPS, loss=given.loss, optimiser=optimiser)
    return network.forward(run.weights(0))["y"], made, run.loss[0]


@pytest.fixture(scope="module")
def trained():
    gated = [BASE, dataclasses.replace(BASE, loss="cross-entropy", rule="momentum")]
    relu = [dataclasses.replace(BASE, network="relu", hidden=6, loss="cross-entropy")]
    data = [train_views(group, STEPS, 2, [0, 10, STEPS]) for group in (gated, relu)]
    return [*gated, *relu], [data[0].isel(training=0), data[0].isel(training=1), data[1].isel(training=0)]


@pytest.mark.parametrize("number", range(3))
def test_it_is_training(trained, number):
    conditions, data = trained
    outputs, made, loss = own_training(conditions[number], 1)
    labels, present = rows(3, 3)
    code = present @ [4, 2, 1] * 3 + labels
    own = np.stack([made.groups[f"view{m}"] for m in range(3)], axis=1) @ [4, 2, 1] * 3 + made.groups["class"]
    place = [int(np.flatnonzero(code == c)[0]) for c in own]
    # the same sums in another order: rounding, carried through thirty steps
    np.testing.assert_allclose(data[number]["outputs"].values[1][place], outputs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(data[number]["loss"].values[1], loss[[0, 10, STEPS]], rtol=1e-9)


def test_responses_are_contrasts_of_lone_views(trained):
    _, (data, _, _) = trained
    alone = data["outputs"].values[0][lone_rows(3, 3)]
    for k in range(3):
        others = [j for j in range(3) if j != k]
        expected = alone[k, :, k] - alone[k][:, others].mean(axis=-1)
        np.testing.assert_allclose(data["responses"].values[0, -1, k], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(data["strengths"].values[0, -1], np.linalg.norm(alone, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(data["time"].values, [0, 5, 15])


def test_the_activity_is_that_of_the_first_layer_at_the_end(trained):
    conditions, (*_, data) = trained
    before = train_views(conditions[2:], 1, 2, [0])["activity"].values[0, 1]  # one step from the start
    first = draw_weights(conditions[2], 1)[0][0]
    alone = np.maximum(first, 0).T.reshape(3, 3, -1)  # inputs class by class, view by view
    np.testing.assert_allclose(before[lone_rows(3, 3)], alone, atol=0.1)  # a step of 0.5 moves weights by less
    assert data["activity"].shape == (2, 24, 6)
    assert not np.allclose(data["activity"].values[1], before, atol=0.01)  # thirty steps move them on


def test_the_flow_is_the_limit_of_small_steps():
    """Descent at one step and at a quarter of it: the gap to Runge-Kutta is first order in the step."""
    base = dataclasses.replace(BASE, learning_rate=0.1)
    exact = train_views([dataclasses.replace(base, rule="flow")], 4 * STEPS, 1, [4 * STEPS])
    flow = exact["responses"].values[0, 0, -1]
    conditions = [dataclasses.replace(base, learning_rate=0.1 / finer) for finer in (1, 4)]
    ends = train_views(conditions, 16 * STEPS, 1, [4 * STEPS, 16 * STEPS])["responses"].values[:, 0]
    gaps = [np.abs(end - flow).max() for end in (ends[0, 0], ends[1, 1])]
    assert 3.5 < gaps[0] / gaps[1] < 4.5
    assert gaps[1] < 0.01


def test_mini_batches_are_drawn_anew_and_are_fair():
    """With batches of 4096 the path stays near that of the full batch; the same seed draws the same."""
    drawn = dataclasses.replace(BASE, rule="mini-batch", batch=4096)
    first, again = (train_views([drawn], STEPS, 2, [STEPS])["responses"].values[0] for _ in range(2))
    np.testing.assert_array_equal(first, again)
    full = train_views([BASE], STEPS, 2, [STEPS])["responses"].values[0]
    gap = np.abs(first - full)[:, -1].max()
    assert 0 < gap < 0.1  # thirty steps of gradients with a relative error of 1/64


def test_competition_is_the_gradient_of_its_penalty():
    """One small step changes the responses by the gradient of loss and penalty: two penalties, a linear answer."""
    step = 1e-4
    small = dataclasses.replace(BASE, learning_rate=step, scale=2.0)
    conditions = [dataclasses.replace(small, competition=penalty) for penalty in (0.1, 0.2, 0.4)]
    data = train_views(conditions, 1, 1, [0, 1])
    change = np.diff(data["responses"].values[:, 0], axis=1)[:, 0]
    # linear in the penalty but for the square of the step
    np.testing.assert_allclose(change[2] - change[1], 2 * (change[1] - change[0]), rtol=1e-2, atol=1e-8)
    squares = data["responses"].values[:, 0] ** 2
    pairs = 0.5 * (squares.sum(-1) ** 2 - (squares**2).sum(-1)).sum(-1)
    assert pairs[2, 1] - pairs[2, 0] < pairs[0, 1] - pairs[0, 0]  # more penalty, fewer pairs


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"network": "linear"}, UnknownNameError, "network must be one of gated, relu"),
        ({"rule": "adam"}, UnknownNameError, "rule must be one of flow"),
        ({"loss": "hinge"}, UnknownNameError, "loss must be one of"),
        ({"probability": 0.0}, RangeError, "probability must be .* above 0"),
        ({"probability": 1.5}, RangeError, "probability must be .* at most 1"),
        ({"depth": 1}, RangeError, "depth must be a whole number, at least 2"),
        ({"views": 1}, RangeError, "views must be a whole number, at least 2"),
        ({"momentum": 1.0}, RangeError, "momentum must be at least 0 and below 1"),
        ({"sizes": (1.0, 2.0)}, RangeError, "sizes must have one number per view, 3; it has 2"),
        ({"competition": -1.0}, RangeError, "competition must be .* at least 0"),
        ({"scale": 0.0}, RangeError, "scale must be .* above 0"),
    ],
)
def test_bad_conditions_are_refused(change, error, words):
    with pytest.raises(error, match=words):
        Conditions(**change)


def test_bad_calls_are_refused():
    with pytest.raises(RangeError, match="at least one training"):
        train_views([], 10, 1, [10])
    with pytest.raises(RangeError, match="looks between 0 and 10"):
        train_views([BASE], 10, 1, [20])
    with pytest.raises(RangeError, match="the same network, classes, views and width"):
        train_views([BASE, Conditions(views=2)], 10, 1, [10])
    with pytest.raises(RangeError, match="targets must be finite, one row per class"):
        train_views([dataclasses.replace(BASE, targets=np.zeros((2, 3)))], 10, 1, [10])
