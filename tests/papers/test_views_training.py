"""Trainings on views against descent written out by hand."""

import dataclasses
import itertools

import numpy as np
import pytest

from neuralrace.papers.views._measures import winner_share
from neuralrace.papers.views._training import (
    CLASSES,
    LONE,
    VIEWS,
    Conditions,
    draw_weights,
    train_views,
)

STEPS = 30
LOOKS = [0, 10, STEPS]
BASE = Conditions(depth=3, hidden=4, probability=0.8, scale=0.8)
ROWS = [(k, shown) for shown in itertools.product((1, 0), repeat=3) for k in range(3)]  # three classes and views
RANDOM = np.random.default_rng(5).dirichlet(np.ones(3), size=len(ROWS))
GATED = [
    BASE,
    dataclasses.replace(BASE, probability=1.0, sizes=(1.0, 0.8, 0.6)),
    dataclasses.replace(BASE, loss="cross-entropy", rule="momentum", competition=0.3),
    dataclasses.replace(BASE, loss="cross-entropy", targets=RANDOM),
]
RELU = [
    dataclasses.replace(BASE, network="relu", hidden=6, loss="cross-entropy"),
    dataclasses.replace(BASE, network="relu", hidden=6, rule="momentum", momentum=0.5, sizes=(1.0, 0.8, 0.6)),
]


def inputs_by_hand(given):
    """(pathways, rows, inputs): each pathway its own view, or one network all of them, class by class."""
    sizes = given.sizes or (1.0, 1.0, 1.0)
    apart = np.zeros((3, len(ROWS), 3))
    for row, (k, shown) in enumerate(ROWS):
        for m in range(3):
            apart[m, row, k] = sizes[m] * shown[m]
    if given.network == "gated":
        return apart
    return np.stack([apart[m, :, k] for k in range(3) for m in range(3)], axis=1)[None]


def forward_by_hand(given, layers):
    """The activity of every layer, (pathways, rows, units) each, and the outputs."""
    activity = [inputs_by_hand(given)]
    for layer in layers[:-1]:
        received = activity[-1] @ layer.swapaxes(1, 2)
        activity.append(np.maximum(received, 0) if given.network == "relu" else received)
    return activity, (activity[-1] @ layers[-1].swapaxes(1, 2)).sum(axis=0)


def loss_by_hand(given, outputs):
    """The loss, and its slope with the penalty's along the outputs."""
    chances = [given.probability ** sum(shown) * (1 - given.probability) ** (3 - sum(shown)) / 3 for _, shown in ROWS]
    targets = np.eye(3)[[k for k, _ in ROWS]] if given.targets is None else given.targets
    if given.loss == "squared":
        losses, slope = 0.5 * ((outputs - targets) ** 2).sum(axis=1), outputs - targets
    else:
        chance = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
        losses, slope = -(targets * np.log(chance)).sum(axis=1), chance - targets
    slope = np.array(chances)[:, None] * slope
    for k in range(3):
        alone = [ROWS.index((k, tuple(int(m == n) for n in range(3)))) for m in range(3)]
        contrast = np.where(np.arange(3) == k, 1.0, -0.5)
        response = outputs[alone] @ contrast
        for m in range(3):
            others = (response**2).sum() - response[m] ** 2
            slope[alone[m]] += given.competition / 3 * 2 * response[m] * others * contrast
    return float(np.dot(chances, losses)), slope


def gradient_by_hand(given, layers, activity, slope):
    found = []
    back = np.broadcast_to(slope, (len(layers[0]), *slope.shape))
    for layer, entering in zip(layers[::-1], activity[::-1], strict=True):
        found.append(back.swapaxes(1, 2) @ entering)
        back = back @ layer
        if given.network == "relu":
            back = back * (entering > 0)
    return found[::-1]


def train_by_hand(given, seed):
    """The loss at the looks, outputs and activity of the first layer at the end."""
    layers, heavy = draw_weights(given, seed), given.momentum if given.rule == "momentum" else 0.0
    velocity, losses = [np.zeros_like(layer) for layer in layers], []
    for _ in range(STEPS + 1):
        activity, outputs = forward_by_hand(given, layers)
        loss, slope = loss_by_hand(given, outputs)
        losses.append(loss)
        slopes = gradient_by_hand(given, layers, activity, slope)
        velocity = [heavy * v + g for v, g in zip(velocity, slopes, strict=True)]
        layers = [w - given.learning_rate * (1 - heavy) * v for w, v in zip(layers, velocity, strict=True)]
    return np.array(losses)[LOOKS], outputs, activity[1][0]


@pytest.fixture(scope="module")
def trained():
    data = [train_views(group, STEPS, 2, LOOKS) for group in (GATED, RELU)]
    return [data[0].isel(training=i) for i in range(len(GATED))] + [data[1].isel(training=i) for i in range(len(RELU))]


@pytest.mark.parametrize("number", range(len(GATED) + len(RELU)))
def test_it_is_descent(trained, number):
    given = [*GATED, *RELU][number]
    loss, outputs, activity = train_by_hand(given, 1)
    # the same sums in another order: rounding, carried through thirty steps
    np.testing.assert_allclose(trained[number]["outputs"].values[1], outputs, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(trained[number]["loss"].values[1], loss, rtol=1e-9)
    if given.network == "relu":
        np.testing.assert_allclose(trained[number]["activity"].values[1], activity, rtol=1e-9, atol=1e-12)


def test_a_lone_row_shows_one_view():
    for k, m in np.ndindex(3, 3):
        assert ROWS[LONE[k, m]] == (k, tuple(int(m == n) for n in range(3)))


def test_responses_are_contrasts_of_lone_views(trained):
    data = trained[0]
    alone = data["outputs"].values[0][LONE]
    for k in range(3):
        others = [j for j in range(3) if j != k]
        expected = alone[k, :, k] - alone[k][:, others].mean(axis=-1)
        np.testing.assert_allclose(data["responses"].values[0, -1, k], expected, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(data["strengths"].values[0, -1], np.linalg.norm(alone, axis=-1), rtol=1e-12)
    np.testing.assert_allclose(data["time"].values, [0, 5, 15])


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


def test_long_steps_undo_the_race_beyond_depth_two():
    """A minimum of sharpness H is stable below a step of 2/H: L/K where one view has all, less where all are even."""
    for depth in (2, 4):
        won, even = np.eye(VIEWS)[[0] * depth], np.full((depth, VIEWS), VIEWS ** (-1 / depth))
        slopes = [[np.delete(end, place, 0).prod(axis=0) for place in range(depth)] for end in (won, even)]
        sharpness = np.square(slopes).sum(axis=(1, 2)) / CLASSES  # the Hessian of a fit is that of its outputs, squared
        np.testing.assert_allclose(sharpness, depth / CLASSES * np.array([1, VIEWS ** -(1 - 2 / depth)]))
    base = Conditions(depth=4, scale=0.25)
    steps = [dataclasses.replace(base, learning_rate=step) for step in (0.5, 1.425, 2.265)]  # the edge is 2K/L = 1.5
    found = train_views(steps, 1000, 3, [1000])["responses"].values[:, :, -1]
    short, below, above = winner_share(found).mean(axis=(1, 2))
    assert abs(below - short) < 0.05
    assert above < short - 0.2
