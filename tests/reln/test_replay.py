"""Networks replayed from moments, against gradient descent over the examples, neuron by neuron."""

import numpy as np
import pytest

import neuralrace as nr
import oracle
from neuralrace.analysis import Agreement, Line
from neuralrace.explanation.result import of_modules
from neuralrace.reln.modules import Modules
from neuralrace.reln.replay import Replay, distance_learned, fewest, play, train_gated

RATE, STEPS = 0.1, np.array([0, 1, 3, 7, 12])


def by_hand(network, weights, gatings, seed):
    """Descent of a network whose neurons have the gates of their module; gatings: first step -> layer -> modules."""
    curve, problem = [], None
    for step in range(STEPS[-1] + 1):
        if step in gatings:
            gates = {}
            for layer, found in gatings[step].items():
                members = found.members[seed]
                leak = network.activations[layer].slope
                gates[layer] = leak + (1 - leak) * found.gates[members].T
                gates[layer][:, members < 0] = 0
            problem = nr.Problem(network.architecture, network.task, nr.Gates(nodes=gates), biases=network.biases)
        if step in STEPS:
            curve.append(oracle.loss(problem, weights))
        if step < STEPS[-1]:
            slope = oracle.gradient(problem, weights)
            weights = {edge: matrix - RATE * slope[edge] for edge, matrix in weights.items()}
    return np.array(curve), oracle.activities(problem, weights)["y"]


@pytest.mark.parametrize(("biases", "slope", "hidden"), [(False, 0.0, (7,)), (True, 0.1, (7,)), (True, 0.1, (6, 5))])
def test_replays_are_descent_under_imposed_gates(biases, slope, hidden):
    random = np.random.default_rng(3)
    task = nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 2))}, random.uniform(1, 2, size=9))
    network = nr.ReLUNetwork(task, hidden=hidden, slope=slope, biases=biases)
    drawn = nr.initial.gaussian(dict.fromkeys(network.architecture.edges, 0.4))
    initial = [drawn(network, key) for key in range(2)]

    def gating(count):
        layers = zip(network.architecture.hidden, hidden, strict=True)
        members = {layer: random.integers(-1, count, size=(2, width)) for layer, width in layers}
        return {
            k: Modules(random.uniform(size=(count, 9)), m, np.ones(count), np.ones(count)) for k, m in members.items()
        }

    plans = [[gating(2), gating(3)], [gating(1), gating(1)]]
    if len(hidden) == 1:
        played = play(network, initial, plans, [(0, 2), (2, 4)], STEPS, RATE, 4)
    else:
        plans = [[plan[0]] for plan in plans]
        played = [train_gated(network, initial, plan[0], STEPS, RATE) for plan in plans]
    for plan, (loss, outputs) in zip(plans, played, strict=True):
        gatings = dict(zip((0, 3), plan, strict=False))
        wanted = [by_hand(network, weights, gatings, seed) for seed, weights in enumerate(initial)]
        # the loss from moments is a difference of numbers of order one
        np.testing.assert_allclose(loss, np.mean([curve for curve, _ in wanted], axis=0), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(outputs, [end for _, end in wanted], rtol=1e-10, atol=1e-12)


def row(modules, stretches, distance, log=0.0):
    apart = Agreement(distance, log, 0.0)
    return Replay(modules, stretches, apart, ({"h1": None},), np.zeros(1), np.zeros((1, 1, 1)))


def test_the_fewest_modules_with_as_few_stretches_as_any():
    rows = [row(1, 1, 0.9), row(2, 1, 0.2), row(2, 2, 0.05), row(5, 1, 0.09), row(6, 1, 0.01)]
    chosen = fewest(rows)
    assert (chosen.modules, chosen.stretches) == (5, 1)
    told = of_modules(rows, chosen)
    assert told.startswith("5 modules with gates that never change explain these networks")
    assert "So do 2 modules with gates that change between 2 stretches of time." in told


@pytest.mark.parametrize("near", [row(3, 1, 0.10022), row(3, 1, 0.01, 0.31), row(3, 1, float("nan"))])
def test_the_verdict_follows_the_criterion(near):
    rows = [row(2, 1, 0.5), near]
    assert not fewest(rows).explains
    assert of_modules(rows, fewest(rows)).startswith("At most 3 modules were tried and none explain")
    if near.agreement.normalized_l1 == 0.10022:
        assert "0.1002," in of_modules(rows, fewest(rows))  # .100 would hide why it is not enough


def test_a_curve_that_never_falls_is_far_from_one_that_falls_a_little():
    """Most of the loss is noise that no network removes; it must not count as agreement."""
    time = np.linspace(0, 10, 1001)
    run = Line(time, 0.8 + 0.2 * np.exp(-time))
    flat = distance_learned(Line(time, np.ones_like(time)), run)
    assert flat.normalized_l1 > 5  # .184 of the whole area
    assert flat.max_gap == pytest.approx(1, abs=1e-3)
    assert distance_learned(run, run).normalized_l1 == 0
