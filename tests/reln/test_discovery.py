"""Modules are found where they were planted, in trained networks, and the staged reconstruction follows the run."""

from dataclasses import replace

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import GateError, ProblemError, RangeError
from neuralrace.reln.passing import bare_gates, how_open, passing_of_run

LAW = nr.initial.gaussian(0.001)
RATE = 0.05
WIDE = 240  # modules are then wider than what enters and leaves them: however wide, one program solves them


def planted(noise, seed=0):
    random = np.random.default_rng(seed)
    patterns = np.array([[1] * 12, [0] * 4 + [1] * 8, [1] * 8 + [0] * 4], dtype=bool)
    samples = np.repeat(patterns, [300, 200, 100], axis=0)
    return patterns, samples ^ (random.random(samples.shape) < noise)


def test_planted_patterns_come_back_with_their_shares_and_noise():
    patterns, samples = planted(noise=0.05)
    silent = np.zeros((150, 12), dtype=bool)
    found = reln.find_modules(np.vstack([samples, silent]), 3)
    assert np.array_equal(found.patterns, patterns)
    # one sample in a hundred has two of its four telling bits turned and may go over; the flips have an error of 0.006
    np.testing.assert_allclose(found.share, [0.5, 1 / 3, 1 / 6], atol=0.02)
    np.testing.assert_allclose(found.consistency, 0.95, atol=0.02)
    assert found.silent == pytest.approx(0.2)
    assert found.nearest(np.vstack([patterns, silent[:1]])).tolist() == [0, 1, 2, -1]


def test_strong_neurons_can_count_more():
    _, samples = planted(noise=0.0)
    weights = np.repeat([1.0, 3.0, 30.0], [300, 200, 100])
    found = reln.find_modules(samples, 3, weights)
    np.testing.assert_allclose(found.share, np.array([30, 6, 3]) / 39)
    assert not found.patterns[0, -1]
    with pytest.raises(GateError, match="one number per sample"):
        reln.find_modules(samples, 3, weights[1:])
    with pytest.raises(RangeError, match="distinct patterns, 3; it was 4"):
        reln.find_modules(samples, 4)
    with pytest.raises(GateError, match="every one here is silent"):
        reln.find_modules(np.zeros((5, 3)), 1)


@pytest.fixture(scope="module")
def contextual():
    named = nr.tasks.contextual(3, items=4)
    network = nr.ReLUNetwork(named.task, hidden=(WIDE,))
    run = nr.train(network, LAW, RATE, 1200, seeds=2, record=("gate_patterns", "weights"), every=30)
    return named, network, run


@pytest.fixture(scope="module")
def four(contextual):
    return reln.discover(contextual[2], 4)


def test_modules_of_a_trained_network(contextual, four):
    named, _, _ = contextual
    assert len(repr(four)) < 600  # no gates, no members
    found = four
    assert found.patterns.all(axis=1).sum() == 1  # one module is always open
    assert all(reln.implementable(pattern, named.task.inputs["x"]) for pattern in found.patterns)
    assert found.members.shape == (2, WIDE)
    assert found.problem.architecture.hidden == ("m0", "m1", "m2", "m3")
    assert np.isfinite(found.agreement.normalized_l1)


@pytest.mark.parametrize("structure", ["hierarchy", "mixed"])
def test_discover_and_explain_report_the_same(structure):
    network = nr.ReLUNetwork(nr.tasks.contextual(3, structure).task, hidden=(24,))
    run = nr.train(network, LAW, RATE, 1200, seeds=2, record=("gate_patterns", "weights"), every=30)
    found, explained = reln.discover(run), nr.explain(run, quick=True, progress=False)
    np.testing.assert_array_equal(found.patterns, explained.layers["h1"].patterns)
    np.testing.assert_array_equal(found.members, explained.layers["h1"].members)
    assert found.agreement == explained.agreements["reconstruction"]
    rows = [(row.modules, row.stretches, row.agreement.normalized_l1) for row in explained.prices]
    assert [(row.modules, row.stretches, row.normalized_l1) for row in found.table] == rows


def test_the_fewest_modules_that_explain_are_taken(contextual):
    _, _, run = contextual
    found = reln.discover(run)
    assert found.problem.architecture.outputs == ("y",)
    meet = [row for row in found.table if row.normalized_l1 <= 0.1 and row.log10_gap <= 0.3]
    if meet:
        assert found.agreement.normalized_l1 == min(meet, key=lambda row: (row.stretches, row.modules)).normalized_l1
    with pytest.raises(RangeError, match="whole number or 'auto'"):
        reln.discover(run, "many")


def test_the_elbow_of_bare_gates(contextual):
    """P2's algorithm to the letter."""
    found = reln.discover(contextual[2], bare=True, draws=1)
    assert [row.modules for row in found.table] == [1, 2, 3, 4, 5, 6]
    least = min(row.normalized_l1 for row in found.table)
    assert found.agreement.normalized_l1 <= 1.5 * least
    with pytest.raises(RangeError, match=r"at most the number of distinct patterns, \d+; it was 5000"):
        reln.discover(contextual[2], 5000, bare=True)


@pytest.fixture(scope="module")
def given(contextual):
    """A network from given weights, for which there is no law to forecast from."""
    _, network, run = contextual
    return nr.train(network, run.initial_weights(1), RATE, 600, record=("gate_patterns", "weights"), every=120)


def test_a_run_from_given_weights_is_replayed_from_them(given):
    found = reln.discover(given, 2)
    assert found.reconstruction.loss[0] == pytest.approx(given.loss[0, 0], rel=1e-5)  # the outputs are tiny
    bare = reln.discover(given, 2, bare=True)  # which is solved from the initializer
    assert (bare.reconstruction, bare.table) == (None, ())
    with pytest.raises(GateError, match=r"initial=\.\.\."):
        reln.discover(given, bare=True)
    with pytest.raises(ProblemError, match="from initial weights 'given'"):
        reln.staged_reconstruction(given, found)


def test_of_another_loss_a_number_of_modules_is_asked_for_and_serves():
    task = nr.Task({"x": np.eye(3)}, {"y": np.eye(3)})
    run = nr.train(nr.ReLUNetwork(task, 8), LAW, RATE, 5, loss="cross-entropy", record=("gate_patterns", "weights"))
    with pytest.raises(GateError, match=r"descended the cross-entropy loss: give a number of modules$"):
        reln.discover(run)
    assert len(reln.discover(run, 1).patterns) == 1


def test_a_run_that_was_saved_tells_the_same(contextual, given, tmp_path):
    named, _, _ = contextual
    loaded = nr.Trajectory.load(given.save(tmp_path / "run.nc"))
    np.testing.assert_array_equal(loaded.task.inputs["x"], named.task.inputs["x"])
    np.testing.assert_array_equal(reln.discover(loaded, 4).patterns, reln.discover(given, 4).patterns)


def test_strength_is_what_enters_times_what_leaves(given):
    strengths, weights = reln.neuron_strengths(given, "h1"), given.weights(0)
    assert strengths[0, 7] == pytest.approx(
        np.linalg.norm(weights["x", "h1"][7]) * np.linalg.norm(weights["h1", "y"][:, 7]), rel=1e-12
    )


def test_two_hidden_layers_have_modules_each():
    network = nr.ReLUNetwork(nr.tasks.contextual(2, items=2).task, hidden=(12, 9))
    weights = nr.initial.gaussian(0.1)(network, 0)
    found = reln.discover(nr.train(network, weights, RATE, 200, record="gate_patterns", every=20), 2)
    assert [layer.name for layer in found.layers] == ["h1", "h2"]
    assert found.patterns.shape == (4, 4)
    assert found.problem.architecture.hidden == ("h1_m0", "h1_m1", "h2_m0", "h2_m1")
    assert found.problem.architecture.count_paths() == 4
    with pytest.raises(GateError, match="there are 2"):
        _ = found.members
    uneven = reln.gated_problem(found.task, [np.eye(4)[:3], np.eye(4)[:2]], [(1, 2, 3), (4, 5)])
    assert [uneven.architecture.nodes[node] for node in uneven.architecture.hidden] == [1, 2, 3, 4, 5]


def test_a_law_with_a_size_for_every_edge_is_that_of_the_modules_too():
    network = nr.ReLUNetwork(nr.tasks.contextual(2, items=2).task, hidden=(12, 9))
    sizes = {("x", "h1"): 0.1, ("h1", "h2"): 0.2, ("h2", "y"): 0.3}
    run = nr.train(network, nr.initial.gaussian(sizes), RATE, 60, record="gate_patterns", every=20)
    found = reln.discover(run, 2)
    drawn = found.law(nr.initial.gaussian(sizes))(found.problem, 0)
    spread = {edge: matrix.std() for edge, matrix in drawn.items()}
    for whole, size in sizes.items():
        parts = [s for edge, s in spread.items() if all(e.startswith(w) for e, w in zip(edge, whole, strict=True))]
        assert np.mean(parts) == pytest.approx(size, rel=0.5)  # of some ten numbers each; the sizes differ by more
    own = nr.initial.gaussian(dict.fromkeys(found.problem.architecture.edges, 0.1))
    assert found.law(own) is own  # of the gated network itself


def test_the_staged_reconstruction_follows_the_network(contextual, four):
    _, _, run = contextual
    staged = reln.staged_reconstruction(run, four)
    assert 0 < staged.handover < 600
    assert staged.loss.shape == run.loss.shape
    # until the handover the only error is that of one gate pattern for all; after it that of four, of which neurons
    # of so small a task agree with theirs to three quarters
    assert staged.agreement.normalized_l1 < 0.2


@pytest.mark.parametrize("delta", [0.0, 0.5])
def test_xor_has_a_module_for_each_example(delta):
    """P2 Fig 2: the four pathways of the gated network, found in ReLU networks.

    Without a margin every neuron sits at its threshold for two examples, and bare gates show pairs of examples.
    """
    network, law = nr.ReLUNetwork(nr.tasks.xor(delta).task, hidden=(64,)), nr.initial.gaussian(1e-4)
    run = nr.train(network, law, 0.05, 700, seeds=2, record=("gate_patterns", "weights"), every=10)
    found = reln.discover(run, 4)
    each = {tuple(row) for row in np.eye(4, dtype=bool)}
    assert {tuple(row) for row in found.patterns} == each
    # strengths of so few neurons differ from draw to draw, and the gated network has draws of its own
    gated = nr.predict(found.problem, found.law(law), run.time, method="flow")
    assert nr.agreement(gated, run).normalized_l1 < 0.05
    without = replace(run, data=run.data.drop_vars([f"weights[{edge}]" for edge in ("x->h1", "h1->y")]))
    by_the_end = passing_of_run(without, "h1")
    assert {tuple(row) for row in reln.find_modules(by_the_end.open, 4, by_the_end.strength).patterns} == each
    if delta == 0:
        bare = bare_gates(run, "h1")
        assert (reln.find_modules(bare.open, 4, bare.strength).patterns.sum(axis=1) == 2).all()
        assert len(reln.discover(run, 99).modules) < 99  # no more than there are patterns


def test_what_passes_decides_how_open_a_neuron_is():
    received = np.array([[1.0, 1e-9, -1.0, 1.0], [1e-9, -1e-9, 0.0, 1e-9], [0.05, 1.0, 1.0, -1.0], [0.0] * 4])
    found = how_open(received)
    np.testing.assert_array_equal(found[[0, 1, 3]], [[1, 0, 0, 1], [1, 0, 0, 1], [0, 0, 0, 0]])
    assert found[2, 0] == pytest.approx(0.05 / (0.1 * np.sqrt(3.0025 / 4)), abs=1 / 16)  # told apart in eighths
    np.testing.assert_array_equal(how_open(1e-5 * received), found)


def test_modules_may_be_fractional_and_are_never_empty():
    samples = np.eye(4) * 0.5
    found = reln.find_modules(samples, 1)
    np.testing.assert_allclose(found.gates, [[0.125] * 4])
    assert found.patterns.all()
    with pytest.raises(GateError, match="between 0 and 1; they go from 0 to 2"):
        reln.find_modules(4 * samples, 1)


def test_biases_are_part_of_the_reconstruction():
    network = nr.ReLUNetwork(nr.tasks.contextual(2, items=2).task, hidden=(10,), biases=True)
    run = nr.train(network, nr.initial.gaussian(0.3), RATE, 100, record="gate_patterns", every=10)
    found = reln.discover(run, 2)
    assert {("bias", "m0"), ("bias", "m1"), ("bias", "y")} <= set(found.problem.architecture.edges)
    assert set(found.task.inputs) == {"x"}
    assert np.isfinite(found.agreement.normalized_l1)
    assert np.isfinite(reln.staged_reconstruction(run, found).agreement.normalized_l1)


def test_a_run_without_patterns_is_refused():
    run = nr.train(nr.ReLUNetwork(nr.tasks.xor().task, hidden=(4,)), LAW, 0.1, 2)
    with pytest.raises(GateError, match="record='gate_patterns'"):
        reln.discover(run, 2)


def test_the_race_of_gatings_agrees_with_the_closed_form():
    times = np.linspace(0, 60, 121)
    for delta, winner in ((0.3, "xor"), (1.5, "linear")):
        named = nr.tasks.xor(delta)
        candidates = {name: named.problem(name, hidden=8) for name in ("xor", "linear")}
        found = reln.race(
            named.task, candidates, initial=nr.initial.gaussian(0.01), times=times, criterion=0.2, draws=1
        )
        assert found.winner == winner
        assert winner in str(found)
        rates = nr.theory.exact.xor_gating(delta), nr.theory.exact.linear_gating(delta)
        assert found["xor"].rate == pytest.approx(float(rates[0].singular_value), rel=1e-12)
        assert found["linear"].rate == pytest.approx(float(rates[1].singular_value), rel=1e-12)


def test_a_race_needs_no_more_than_a_task_and_candidates():
    named = nr.tasks.xor(0.3)
    found = reln.race(named.task, {name: named.problem(name, hidden=8) for name in ("linear", "xor")}, draws=1)
    assert found.winner == "xor"
    winner = found["xor"]
    assert 0 < winner.time <= winner.forecast.time[-1] / 2
    assert found.criterion == pytest.approx(0.5 * winner.forecast.loss[0])


def test_in_a_race_every_module_has_the_law_of_its_layer():
    named, times = nr.tasks.xor(0.3), np.linspace(0, 60, 121)
    candidates = {name: named.problem(name, hidden=8) for name in ("xor", "linear")}
    laws = [nr.initial.gaussian(0.01), nr.initial.gaussian({("x", "h1"): 0.01, ("h1", "y"): 0.01})]
    one, each = (reln.race(named.task, candidates, initial=law, times=times, criterion=0.2, draws=1) for law in laws)
    assert [runner.time for runner in one.runners] == [runner.time for runner in each.runners]


def test_gatings_that_respect_groups():
    labels = nr.tasks.contextual(3, items=2).groups["context"]
    gatings = reln.gatings_of_groups(labels)
    assert {name: len(patterns) for name, patterns in gatings.items()} == {
        "common": 1,
        "common + open in 1 of 3": 4,
        "common + open in 2 of 3": 4,
    }
    with pytest.raises(RangeError, match="below the number of groups, 3"):
        reln.gatings_of_groups(labels, sizes=[3])
    with pytest.raises(ProblemError, match="at least one candidate"):
        reln.race(nr.tasks.xor().task, {}, initial=LAW, times=[0.0, 1.0])
