import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
import oracle
from neuralrace._engine.example_rows import label_rows
from random_problems import random_problem

EXACT = 1e-10  # relative, as the issue of the compression demands; rounding leaves about 1e-14


def repeated(seed, copies):
    """A random problem with many examples in each of its few gate configurations."""
    base = random_problem(seed, examples=copies * 6, configurations=3)
    random = np.random.default_rng(seed)
    noise = {node: rows + 0.1 * random.normal(size=rows.shape) for node, rows in base.task.inputs.items()}
    return nr.Problem(base.architecture, nr.Task(noise, base.task.targets, base.task.weights), base.gates)


@given(oracle.seeds, st.integers(min_value=1, max_value=20))
@settings(max_examples=6)
def test_few_rows_have_the_same_loss_and_gradient(seed, copies):
    problem = repeated(seed, copies)
    small, weights = problem.compress(), oracle.random_weights(problem.architecture, 1)
    assert oracle.loss(small, weights) == pytest.approx(oracle.loss(problem, weights), rel=EXACT)
    oracle.assert_weights_close(oracle.gradient(small, weights), oracle.gradient(problem, weights), EXACT)
    columns = sum(problem.architecture.nodes[n] for n in (*problem.architecture.inputs, *problem.architecture.outputs))
    gates = [*problem.gates.nodes.values(), *problem.gates.edges.values()]
    configurations = len(np.unique(np.array(gates).T, axis=0)) if gates else 1
    assert len(small.task) <= min(columns * configurations, len(problem.task))
    assert small.task.weights.sum() == pytest.approx(1, rel=1e-14)  # a sum of at most 120 weights
    assert len(small.compress().task) == len(small.task)
    assert small.compress() is small or (problem.task.weights == 0).any()


def test_a_large_data_set_costs_what_a_small_one_does():
    random = np.random.default_rng(0)
    architecture = nr.Architecture({"x": 3, "h": 4, "y": 2}, [("x", "h"), ("h", "y")])
    rows = random.normal(size=(100_000, 3))
    task = nr.Task({"x": rows}, {"y": rows[:, :2] + random.normal(size=(100_000, 2))})
    problem = nr.Problem(architecture, task, nr.Gates({"h": rows[:, 0] > 0}))
    # x and y while the gate is open, y alone while it is closed
    assert len(problem.compress().task) == 5 + 2
    weights = oracle.random_weights(architecture)
    assert problem.loss(weights) == pytest.approx(oracle.loss(problem, weights), rel=EXACT)


def test_examples_without_weight_are_dropped():
    architecture = nr.Architecture({"x": 2, "y": 1}, [("x", "y")])
    problem = nr.Problem(architecture, nr.Task({"x": np.eye(2)}, {"y": [[1.0], [2.0]]}, [0, 1]))
    small = problem.compress()
    assert len(small.task) == 1
    np.testing.assert_array_equal(small.task.inputs["x"], [[0.0, 1.0]])


@given(
    st.integers(min_value=0, max_value=12).flatmap(
        lambda rows: st.lists(st.lists(st.sampled_from([0.0, 1.0, -2.5]), min_size=rows, max_size=rows), max_size=6)
    )
)
@settings(max_examples=40)
def test_rows_agree_exactly_if_their_labels_do(columns):
    count = len(columns[0]) if columns else 3
    labels = label_rows(count, [np.array(column) for column in columns])
    rows = [tuple(column[i] for column in columns) for i in range(count)]
    for i in range(count):
        for j in range(count):
            assert (labels[i] == labels[j]) == (rows[i] == rows[j])
    assert sorted(set(labels)) == list(range(len(set(rows))))
