"""Training of gated and ReLU networks against gradient descent written by hand in numpy."""

import numpy as np
import pytest
from scipy.special import softmax

import neuralrace as nr
import oracle
from neuralrace._engine.subspace import project_hidden
from random_problems import random_problem

# fifty steps, each exact to rounding; compression and projection change the order of sums
HAND = 1e-12
STEPS = 50


def probable(problem, seed=0):
    """The same problem with targets that are probabilities; one row asks for nothing."""
    random = np.random.default_rng(seed)
    targets = {}
    for node, rows in problem.task.targets.items():
        drawn = random.uniform(size=rows.shape)
        targets[node] = drawn / drawn.sum(axis=1, keepdims=True)
        targets[node][-1] = 0
    return nr.Problem(problem.architecture, nr.Task(problem.task.inputs, targets, problem.task.weights), problem.gates)


def linear(hidden):
    """A chain with a hidden node of the given width between three inputs and two outputs, half of it gated."""
    random = np.random.default_rng(4)
    architecture = nr.Architecture(
        {"x": 3, "h": hidden, "g": 4, "y": 2}, [("x", "h"), ("h", "y"), ("x", "g"), ("g", "y"), ("x", "y")]
    )
    task = nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 2))}, random.uniform(size=9))
    return nr.Problem(architecture, task, nr.Gates({"g": random.integers(2, size=9), "h": random.normal(size=9)}))


def assert_trained_as_by_hand(problem, kind="squared", gradient_at=None, rate=0.05, **options):
    weights = oracle.random_weights(problem.architecture, 1, 0.4)
    wanted = oracle.descend(gradient_at or (lambda w: oracle.gradient(problem, w, kind)), weights, rate, STEPS)
    run = nr.train(problem, weights, rate, STEPS, loss=kind, record="weights", **options)
    np.testing.assert_allclose(run.loss[0], [oracle.loss(problem, w, kind) for w in wanted], rtol=HAND)
    oracle.assert_weights_close(run.weights(0), wanted[-1], HAND)
    oracle.assert_weights_close(run.weights(0, record=STEPS // 2), wanted[STEPS // 2], HAND)
    np.testing.assert_allclose(run.time, rate * np.arange(STEPS + 1), rtol=1e-15)


@pytest.mark.parametrize("seed", [7, 33])
def test_random_problems(seed):
    assert_trained_as_by_hand(random_problem(seed))


def test_a_random_problem_with_cross_entropy():
    assert_trained_as_by_hand(probable(random_problem(12, examples=9)), "cross-entropy", rate=0.2)


@pytest.mark.parametrize("kind", ["squared", "cross-entropy"])
def test_wide_hidden_nodes(kind):
    """Forty units between three inputs and two outputs are trained as five."""
    problem = linear(40)
    assert_trained_as_by_hand(probable(problem) if kind == "cross-entropy" else problem, kind)


@pytest.mark.parametrize(
    ("hidden", "slope", "kind"),
    [(6, 0.0, "squared"), ((5, 4), -0.5, "squared"), ((5, 4, 3), 0.1, "cross-entropy")],
)
def test_relu_networks_of_every_depth_slope_and_loss(hidden, slope, kind):
    """Inputs and outputs of two nodes stand side by side; inputs repeat, targets do not."""
    random = np.random.default_rng(0)
    rows, wanted = random.normal(size=(6, 3))[[0, 1, 2, 3, 4, 5, 0, 0, 2]], random.normal(size=(9, 3))
    inputs, targets = {"x": rows[:, :2], "z": rows[:, 2:]}, {"y": wanted[:, :1], "w": wanted[:, 1:]}
    targets = {"y": softmax(wanted, axis=1)} if kind == "cross-entropy" else targets
    network = nr.ReLUNetwork(nr.Task(inputs, targets, random.uniform(size=9)), hidden, slope)
    np.testing.assert_array_equal(network.task.inputs["x"], rows)
    assert_trained_as_by_hand(network, kind, rate=0.1)


@pytest.mark.parametrize(("hidden", "kind"), [(30, "squared"), (3, "cross-entropy")])
def test_residual_coupling(hidden, kind):
    """FACTS, P2: the common pathway descends its own loss, the others that of what it leaves."""
    problem = nr.tasks.contextual(contexts=2, items=2).problem("common + all-but-one", hidden=hidden)
    problem = probable(problem) if kind == "cross-entropy" else problem
    common = [edge for edge in problem.architecture.edges if "common" in edge]

    def by_hand(weights):
        alone = {edge: matrix if edge in common else 0 * matrix for edge, matrix in weights.items()}
        own = oracle.gradient(problem, alone, kind)
        # with the output of the common pathway held constant the rest sees the gradient of the whole loss
        rest = oracle.gradient(problem, weights, kind)
        return {edge: own[edge] if edge in common else rest[edge] for edge in weights}

    assert_trained_as_by_hand(problem, kind, by_hand, coupling="residual")


def test_neurons_with_equal_gates_are_trained_at_the_width_that_they_can_use():
    """Four groups, of which two are smaller than what enters and leaves them, and one is always closed."""
    problem, random = linear(hidden=60), np.random.default_rng(3)
    shares = np.column_stack([random.random((len(problem.task), 3)), np.zeros(len(problem.task))])
    members = np.repeat([0, 1, 2, 3], [45, 4, 1, 10])[random.permutation(60)]
    gates = nr.Gates({**problem.gates.nodes, "h": shares[:, members]})
    gated = nr.Problem(problem.architecture, problem.task, gates)
    weights = {edge: matrix[None] for edge, matrix in oracle.random_weights(gated.architecture, 5, 0.3).items()}
    bases = project_hidden(gated.architecture, weights, (), gated.gates.neurons)[1]
    assert bases["h"].shape == (1, 60, 4 * 5)
    assert_trained_as_by_hand(gated)


def test_edges_that_are_always_closed_stay():
    problem = nr.tasks.routing(3, 1).problem("P=1", hidden=2)
    weights = oracle.random_weights(problem.architecture)
    final = nr.train(problem, weights, 0.05, 5).weights(0)
    closed = [e for e, slope in oracle.gradient(problem, weights).items() if not slope.any()]
    assert len(closed) == 18
    for edge in closed:
        np.testing.assert_array_equal(final[edge], weights[edge])
