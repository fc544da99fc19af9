"""Any optax optimizer sees one matrix per edge, as a user would hand them over."""

import jax
import numpy as np
import optax
import pytest

import neuralrace as nr
import oracle
from neuralrace.arrays import float64
from neuralrace.errors import WeightError
from random_problems import random_problem

HAND = 1e-11  # fifty steps; adam divides by the root of a mean square, which magnifies rounding
STEPS = 50


def by_hand(problem, weights, optimizer):
    names = {edge: str(i) for i, edge in enumerate(weights)}
    tree = {names[edge]: matrix for edge, matrix in weights.items()}
    state, losses, update = optimizer.init(tree), [], jax.jit(optimizer.update)
    for _ in range(STEPS):
        current = {edge: np.asarray(tree[name]) for edge, name in names.items()}
        losses.append(oracle.loss(problem, current))
        slope = oracle.gradient(problem, current)
        updates, state = update({names[e]: s for e, s in slope.items()}, state, tree)
        tree = {name: leaf + np.asarray(updates[name]) for name, leaf in tree.items()}
    final = {edge: tree[name] for edge, name in names.items()}
    return [*losses, oracle.loss(problem, final)], final


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [
        ("xor", optax.sgd(0.05, momentum=0.9)),
        ("xor", optax.adam(0.01)),
        # per matrix, so it would tell stacked edges from single ones
        ("random", optax.chain(optax.clip_by_block_rms(0.02), optax.sgd(1.0))),
    ],
    ids=["momentum", "adam", "clipped"],
)
def test_as_by_hand(name, optimizer):
    # in the first a hidden node of forty units would be narrowed, which holds for plain descent only
    problem = nr.tasks.xor(0.5).problem("linear", hidden=40) if name == "xor" else random_problem(7)
    weights = oracle.random_weights(problem.architecture, 1, 0.3)
    losses, final = float64(by_hand)(problem, weights, optimizer)
    run = nr.train(problem, weights, steps=STEPS, optimizer=optimizer)
    np.testing.assert_allclose(run.loss[0], losses, rtol=HAND)
    oracle.assert_weights_close(run.weights(0), final, HAND)
    np.testing.assert_array_equal(run.time, np.arange(STEPS + 1))


def test_something_else_is_refused():
    problem = nr.tasks.xor().problem("xor", hidden=2)
    for given, words in (
        (3, r"such as optax.adam\(1e-3\); it was int"),
        (optax.lbfgs(), "and this one fails: .*'value'"),
    ):
        with pytest.raises(WeightError, match=words):
            nr.train(problem, nr.initial.gaussian(1.0), optimizer=given, progress=False)
