"""The one clustering, against every way to put a few neurons into two modules, and where modules were planted."""

import itertools

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import GateError, ProblemError, RangeError, UnknownNameError
from neuralrace.reln.modules import cluster, neuron_samples, samples_of_run
from neuralrace.reln.replay import cut


@pytest.mark.parametrize("seed", range(3))
def test_two_modules_are_nearly_the_best_of_all(seed):
    """Descents from several starts need not find the best: a twentieth is allowed."""
    random = np.random.default_rng(seed)
    carried, on = random.exponential(size=(7, 5)), random.integers(0, 2, size=(7, 5)).astype(float)
    on[:, 0] = 1  # none is silent

    def changed(groups):
        total = 0.0
        for members in map(list, groups):
            whole, part = carried[members].sum(axis=0), (carried * on)[members].sum(axis=0)
            total += float(np.sum(part - part**2 / whole))  # with the best gate, part / whole
        return total

    found = cluster(carried, carried * on, 2)
    every = [c for size in range(1, 7) for c in itertools.combinations(range(7), size)]
    best = min(changed((set(chosen), set(range(7)) - set(chosen))) for chosen in every)
    assert changed([np.flatnonzero(found.members == m) for m in range(len(found))]) <= 1.05 * best


def test_planted_patterns_come_back_with_their_shares_and_noise():
    random = np.random.default_rng(0)
    patterns = np.array([[1] * 12, [0] * 4 + [1] * 8, [1] * 8 + [0] * 4], dtype=bool)
    samples = np.repeat(patterns, [300, 200, 100], axis=0)
    found = reln.find_modules(np.vstack([samples ^ (random.random(samples.shape) < 0.05), np.zeros((9, 12), bool)]), 3)
    assert np.array_equal(found.patterns, patterns)
    # one sample in a hundred has two of its four telling bits turned and may go over; the flips have an error of 0.006
    np.testing.assert_allclose(found.share, [0.5, 1 / 3, 1 / 6], atol=0.02)
    np.testing.assert_allclose(found.consistency, 0.95, atol=0.02)
    assert (found.members[-9:] == -1).all()  # those that are on for nothing
    weights = np.repeat([1.0, 3.0, 30.0], [300, 200, 100])[:, None] * np.ones(12)
    np.testing.assert_allclose(cluster(weights, weights * samples, 3).share, np.array([30, 6, 3]) / 39)
    assert len(reln.find_modules(samples, 9)) == 3  # no more than there are patterns
    assert len(reln.find_modules(np.zeros((3, 2)), 2)) == 0


def test_a_neuron_at_its_threshold_is_closed():
    """Whichever way the sign of next to nothing falls."""
    on = np.array([[1, 0, 1], [0, 1, 1]], dtype=float)
    carried = np.array([[1.0, 1.0, 1e-20], [1.0, 1.0, 1.0]])
    found = cluster(carried, carried * on, 2)
    assert sorted(found.gates.tolist()) == [[0, 1, 1], [1, 0, 0]]


@pytest.mark.parametrize(("samples", "words"), [([[0.0, 2.0]], "they go from 0 to 2"), ("on", "must be numbers")])
def test_samples_that_are_no_gates_are_refused(samples, words):
    with pytest.raises(GateError, match=words):
        reln.find_modules(samples, 1)


def test_stretches_have_equal_parts_of_the_change_and_nest():
    random = np.random.default_rng(0)
    network = nr.ReLUNetwork(nr.Task({"x": random.normal(size=(6, 2))}, {"y": np.ones((6, 1))}), hidden=4)
    entering = random.normal(size=(1, 9, 4, 2))
    entering[:, 5:] = entering[:, 4:5]  # nothing changes after record 4
    weights = {("x", "h1"): entering, ("h1", "y"): np.ones((1, 9, 1, 4))}
    cuts = cut(neuron_samples(network, weights), np.arange(9), (1, 2, 4))
    assert [part[:2] for part in cuts[1]] == [(0, 8)]
    bounds = [first for first, *_ in cuts[4]]
    assert bounds == sorted(set(bounds))
    assert cuts[2][1][0] == cuts[4][2][0] <= 4
    whole, passed = cuts[1][0][2]["h1"]
    np.testing.assert_allclose(whole, sum(part[2]["h1"][0] for part in cuts[4]))
    size = np.sum((entering[:, 0] @ network.task.inputs["x"].T) ** 2)
    assert (passed <= whole).all()
    first = neuron_samples(network, weights)["h1"][0][0]
    np.testing.assert_allclose(first, (entering[:, 0] @ network.task.inputs["x"].T) ** 2 / size)


def test_what_is_read_off_a_run():
    network = nr.ReLUNetwork(nr.tasks.contextual(2, items=2).task, hidden=(6,))
    run = nr.train(network, nr.initial.gaussian(0.3), 0.1, 4, record="gate_patterns", every=2)
    carried, on = samples_of_run(network, run)["h1"]  # without weights over time, what is carried is that of the end
    np.testing.assert_array_equal(carried[0], carried[2])
    np.testing.assert_array_equal(on[1], reln.gate_samples(run)[:, 1])
    with pytest.raises(UnknownNameError, match=r"gate_patterns\[h9\]' was not recorded"):
        reln.gate_samples(run, "h9")
    with pytest.raises(GateError, match=r"record=\('gate_patterns', 'weights'\)"):
        reln.discover(nr.train(network, nr.initial.gaussian(0.3), 0.1, 2), 2)


@pytest.mark.parametrize(
    ("edges", "options"),
    [
        ([("h", "y"), ("x", "h")], {"activations": {"h": "relu"}}),  # not in order
        ([("x", "h"), ("h", "y")], {}),  # linear
        ([("x", "h"), ("h", "y")], {"activations": {"h": "relu"}, "gates": nr.Gates({"h": np.ones(4)})}),
    ],
)
def test_other_networks_are_refused(edges, options):
    task = nr.tasks.contextual(2, items=2).task
    nodes = {"x": task.inputs["x"].shape[1], "h": 3, "y": task.targets["y"].shape[1]}
    problem = nr.Problem(nr.Architecture(nodes, edges), task, **options)
    with pytest.raises(ProblemError, match=r"a chain of ReLU layers of one slope .*: make one with ReLUNetwork"):
        reln.predict_modules(problem, nr.initial.gaussian(0.1), [0.0, 1.0])


def test_the_gated_network_of_several_layers():
    task = nr.tasks.contextual(2, items=2).task
    uneven = reln.gated_problem(task, [np.eye(4)[:3], np.eye(4)[:2]], [(1, 2, 3), (4, 5)])
    assert [uneven.architecture.nodes[node] for node in uneven.architecture.hidden] == [1, 2, 3, 4, 5]
    assert uneven.architecture.count_paths() == 6
    with pytest.raises(RangeError, match="one entry for each of 2 hidden layers"):
        reln.gated_problem(task, [np.eye(4), np.eye(4)], [3])
