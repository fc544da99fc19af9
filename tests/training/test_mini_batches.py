import jax
import numpy as np
import pytest
from scipy.special import softmax

import neuralrace as nr
import oracle
from neuralrace._engine.network import as_numpy
from neuralrace.arrays import float64
from neuralrace.objectives import as_objective
from neuralrace.training.learner import make_learner
from random_problems import random_problem

ROUNDING = 1e-12  # a few dozen steps whose sums are taken in another order


def linear(count=6):
    """One weight per example: a step moves exactly those of the examples in its batch."""
    task = nr.Task({"x": np.eye(count)}, {"y": np.ones((count, 1))}, np.arange(1.0, count + 1))
    return nr.Problem(nr.Architecture({"x": count, "y": 1}, [("x", "y")]), task)


def moved(run):
    """(steps, examples): which examples each step used."""
    weights = run.values("weights[x->y]")[0, :, 0]
    return np.diff(weights, axis=0) != 0


@pytest.mark.parametrize("size", [2, 6])
def test_each_epoch_goes_once_through_a_new_order(size):
    problem = linear()
    run = nr.train(problem, {("x", "y"): np.zeros((1, 6))}, 0.01, 24, batch_size=size, record="weights")
    used = moved(run)
    assert (used.sum(axis=1) == size).all()
    epochs = used.reshape(-1, 6 // size, 6)
    assert (epochs.sum(axis=1) == 1).all()
    if size < 6:
        assert len(np.unique(epochs[:, 0], axis=0)) > 1


def test_what_does_not_fill_a_batch_waits():
    run = nr.train(linear(7), {("x", "y"): np.zeros((1, 7))}, 0.01, 30, batch_size=3, record="weights")
    epochs = moved(run).reshape(-1, 2, 7)
    assert (epochs.sum(axis=(1, 2)) == 6).all()
    assert (epochs.sum(axis=1) <= 1).all()
    assert (epochs.sum(axis=(0, 1)) > 0).all()


@pytest.mark.parametrize("kind", ["gated", "gated neurons", "relu"])
def test_a_batch_of_all_examples_is_the_full_batch(kind):
    problem = random_problem(19, examples=8)
    network = nr.ReLUNetwork(problem.task, 5) if kind == "relu" else problem
    if kind == "gated neurons":
        node = problem.architecture.hidden[0]
        own = np.random.default_rng(0).random((8, problem.architecture.nodes[node]))
        gates = nr.Gates({**problem.gates.nodes, node: own}, problem.gates.edges)
        network = nr.Problem(problem.architecture, problem.task, gates)
    weights = oracle.random_weights(network.architecture, 1, 0.4)
    whole = nr.train(network, weights, 0.05, 20)
    batch = nr.train(network, weights, 0.05, 20, batch_size=8)
    np.testing.assert_allclose(batch.loss, whole.loss, rtol=ROUNDING)
    oracle.assert_weights_close(batch.weights(0), whole.weights(0), ROUNDING)


@pytest.mark.parametrize(("relu", "kind"), [(False, "cross-entropy"), (True, "squared")])
def test_the_gradient_is_unbiased(relu, kind):
    """The mean over all single examples is the gradient of the whole."""
    problem = random_problem(19, examples=5)
    probable = {node: softmax(rows, axis=1) for node, rows in problem.task.targets.items()}
    task = nr.Task(problem.task.inputs, probable, problem.task.weights)
    network = nr.ReLUNetwork(problem.task, 4) if relu else nr.Problem(problem.architecture, task, problem.gates)
    learner = make_learner(network, as_objective(kind, network.task), batch_size=1)
    weights = oracle.random_weights(network.architecture, 1)

    def both():
        parameters = learner.pack(weights)
        whole = jax.jit(lambda p: learner.loss_and_gradient(p))(parameters)[1]
        batch = jax.jit(lambda p, chosen: learner.batch_gradient(p, chosen, by_weight=True))
        singles = [batch(parameters, np.array([i])) for i in range(5)]
        mean = jax.tree.map(lambda *parts: np.mean(parts, axis=0), *singles)
        return [learner.unpack(part) for part in (as_numpy(whole), mean)]

    whole, mean = float64(both)()
    oracle.assert_weights_close(mean, whole, ROUNDING)
