"""Networks played again from moments, against gradient descent over the examples, neuron by neuron."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.reln.gating import LayerGating
from neuralrace.reln.playing import play
from neuralrace.reln.watched import Stretch, Watched, stretches_of

RATE = 0.1


def by_hand(watched, plan, stretches):
    """Descent of each network whose neuron n, in module m, is multiplied by the gate of m for every example."""
    network, rows = watched.network, watched.inputs
    wanted, amount = network.targets, network.task.weights
    losses, ends = [], []
    for seed in range(len(watched.incoming)):
        first, last = watched.incoming[seed, 0].copy(), watched.outgoing[seed, 0].T.copy()
        offset = np.zeros(wanted.shape[1]) if watched.offset is None else watched.offset[seed, 0].copy()
        curve = []
        for stretch, gating in zip(stretches, plan, strict=True):
            members = gating.members[seed]
            gates = network.slope + (1 - network.slope) * gating.gates[members]
            gates[members < 0] = 0
            for record in range(stretch.first, stretch.last + 1):
                if record > stretch.first:
                    for _ in range(watched.steps[record] - watched.steps[record - 1]):
                        hidden = (rows @ first.T) * gates.T
                        error = (hidden @ last.T + offset - wanted) * amount[:, None]
                        back = (error @ last) * gates.T
                        last, first = last - RATE * error.T @ hidden, first - RATE * back.T @ rows
                        offset = offset - (RATE * error.sum(axis=0) if watched.offset is not None else 0)
                hidden = (rows @ first.T) * gates.T
                loss = 0.5 * amount @ np.sum((hidden @ last.T + offset - wanted) ** 2, axis=1)
                if record < stretch.last or stretch is stretches[-1]:
                    curve.append(loss)
        losses.append(curve)
        ends.append(hidden @ last.T + offset)
    return np.array(losses), np.array(ends)


@pytest.mark.parametrize(("biases", "slope"), [(False, 0.0), (True, 0.1)])
def test_moments_are_enough(biases, slope):
    random = np.random.default_rng(3)
    task = nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 2))}, random.uniform(1, 2, size=9))
    network = nr.ReLUNetwork(task, hidden=7, slope=slope, biases=biases)
    law = nr.initial.gaussian(dict.fromkeys(network.architecture.edges, 0.4))
    run = nr.train(network, law, RATE, 12, seeds=2, record=("gate_patterns", "weights"), at=[0, 1, 3, 7, 12])
    watched = Watched.of(run, network)
    stretches = (Stretch(0, 2, np.zeros(0), np.zeros(0)), Stretch(2, 4, np.zeros(0), np.zeros(0)))

    def gating(modules):
        members = random.integers(-1, modules, size=(2, 7))
        return LayerGating(random.uniform(size=(modules, 9)), members, np.ones(modules), np.ones(modules))

    plans = [[gating(2), gating(3)], [gating(1), gating(1)]]
    played = play(watched, plans, stretches, RATE, 4)
    for plan, losses, outputs in zip(plans, *played, strict=True):
        # the loss from moments is a difference of numbers of order one
        wanted, ends = by_hand(watched, plan, stretches)
        np.testing.assert_allclose(losses, wanted.mean(axis=0), rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(outputs, ends, rtol=1e-10, atol=1e-12)


def test_stretches_have_equal_parts_of_the_change_and_nest():
    random = np.random.default_rng(0)
    task = nr.Task({"x": random.normal(size=(6, 2))}, {"y": np.ones((6, 1))})
    network = nr.ReLUNetwork(task, hidden=4)
    incoming = random.normal(size=(1, 9, 4, 2))
    incoming[:, 5:] = incoming[:, 4:5]  # nothing changes after record 4
    watched = Watched(network, np.arange(9), incoming, np.ones((1, 9, 4, 1)), None)
    cuts = stretches_of(watched, (1, 2, 4))
    assert [(s.first, s.last) for s in cuts[1]] == [(0, 8)]
    bounds = [s.first for s in cuts[4]]
    assert bounds == sorted(set(bounds))
    assert cuts[2][1].first == cuts[4][2].first <= 4
    np.testing.assert_allclose(cuts[1][0].carried, sum(s.carried for s in cuts[4]))
    assert (cuts[1][0].passed <= cuts[1][0].carried).all()
