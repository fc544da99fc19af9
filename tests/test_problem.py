import jax
import numpy as np
import pytest
from hypothesis import given, settings

import neuralrace as nr
import oracle
from neuralrace.activations import as_activation, named
from neuralrace.errors import GateError, ProblemError, UnknownNameError, WeightError
from random_problems import random_problem

CHAIN = nr.Architecture({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
ROWS, RESULTS = np.eye(2), [[1.0], [2.0]]
TASK = nr.Task({"x": ROWS}, {"y": RESULTS})
# sums of a few dozen products in another order: some hundred roundings of 1e-16, relative to the largest term
ROUNDING = 1e-12


@given(oracle.seeds)
def test_the_sum_over_gated_paths_is_the_forward_pass(seed):
    problem = random_problem(seed)
    weights = oracle.random_weights(problem.architecture, seed)
    found, wanted = problem.forward(weights), oracle.path_sum(problem, weights)
    assert list(found) == list(problem.architecture.outputs)
    oracle.assert_weights_close(found, wanted, ROUNDING)
    nodes = (*problem.architecture.hidden, *problem.architecture.outputs)
    by_definition = oracle.activities(problem, weights)
    oracle.assert_weights_close(problem.activity(weights), {node: by_definition[node] for node in nodes}, ROUNDING)


@given(oracle.seeds)
@settings(max_examples=4)
def test_loss_and_gradient_by_autodiff_statistics_and_finite_differences(seed):
    problem = random_problem(seed)
    weights = oracle.random_weights(problem.architecture, seed)
    statistics = problem.statistics()
    wanted = oracle.loss(problem, weights)
    assert problem.loss(weights) == pytest.approx(wanted, rel=ROUNDING)
    # the statistics subtract the explained from <y^2>, so an error is relative to the parts, not to the rest
    assert statistics.loss(weights) == pytest.approx(wanted, abs=ROUNDING * (wanted + statistics.target_energy))
    slope = problem.gradient(weights)
    assert list(slope) == list(problem.architecture.edges)
    oracle.assert_weights_close(statistics.gradient(weights), slope, ROUNDING)
    # with a step of 1e-5 truncation is of order 1e-10 and rounding of order 1e-11 of the loss
    differences = oracle.central_differences(lambda w: oracle.loss(problem, w), weights)
    oracle.assert_weights_close(slope, differences, 1e-6 * max(wanted, 1.0))
    oracle.assert_weights_close(slope, oracle.gradient(problem, weights), ROUNDING)
    assert_balance_is_conserved(problem.architecture, weights, slope)


def assert_balance_is_conserved(architecture, weights, slope):
    """sum_out W^T W - sum_in W W^T has no first derivative along the gradient, whatever the gates."""
    for node in architecture.hidden:
        leaving = sum(weights[e].T @ slope[e] for e in architecture.outgoing[node])
        entering = sum(slope[e] @ weights[e].T for e in architecture.incoming[node])
        scale = max(np.abs(leaving).max(), 1.0)
        np.testing.assert_allclose(leaving, entering, rtol=0, atol=ROUNDING * scale)


def with_activations(seed, biases=False):
    """A random problem, some of whose hidden and output nodes are rectified; gates there are not negative."""
    random = np.random.default_rng(seed)
    problem = random_problem(seed)
    nodes = [*problem.architecture.hidden, *problem.architecture.outputs]
    chosen = [node for node in nodes if random.uniform() < 0.6]
    kinds = [("relu", nr.leaky_relu(0.3), nr.leaky_relu(-0.2))[random.integers(3)] for _ in chosen]
    gates = {n: np.abs(gate) if n in chosen else gate for n, gate in problem.gates.nodes.items()}
    if seed % 3 == 0:  # a gate for every neuron of one node
        node = problem.architecture.hidden[0]
        gates[node] = random.normal(size=(len(problem.task), problem.architecture.nodes[node]))
    return nr.Problem(
        problem.architecture,
        problem.task,
        nr.Gates(gates, problem.gates.edges),
        dict(zip(chosen, kinds, strict=True)),
        biases,
    )


@given(oracle.seeds)
@settings(max_examples=4)
def test_activations_and_biases_at_any_node_of_any_graph(seed):
    problem = with_activations(seed, biases=seed % 2 == 1)
    weights = oracle.random_weights(problem.architecture, seed)
    nodes = (*problem.architecture.hidden, *problem.architecture.outputs)
    by_definition = oracle.activities(problem, weights)
    oracle.assert_weights_close(problem.activity(weights), {node: by_definition[node] for node in nodes}, ROUNDING)
    assert problem.loss(weights) == pytest.approx(oracle.loss(problem, weights), rel=ROUNDING)
    oracle.assert_weights_close(problem.gradient(weights), oracle.gradient(problem, weights), ROUNDING)
    for node, received in problem.preactivations(weights).items():
        slope = problem.activations[node].slope
        gate = oracle.node_gate(problem, node)  # one per node is folded in before the activation, which is homogeneous
        found = np.maximum(received, 0) + slope * np.minimum(received, 0)
        if gate.ndim == 2:
            found, gate = gate * found, np.ones(len(gate))
        np.testing.assert_allclose(found, by_definition[node], rtol=0, atol=1e-12 * (1 + np.abs(found).max()))
        assert (received[gate == 0] == 0).all()


def test_biases_are_the_weights_of_an_input_that_is_always_one():
    task = nr.Task({"x": [[1.0], [2.0]]}, {"y": [[0.0], [1.0]]})
    problem = nr.Problem(nr.Architecture({"x": 1, "h": 2, "y": 1}, [("x", "h"), ("h", "y")]), task, biases=True)
    weights = {
        ("x", "h"): np.array([[1.0], [-1.0]]),
        ("h", "y"): np.array([[1.0, 2.0]]),
        ("bias", "h"): np.array([[0.5], [1.0]]),
        ("bias", "y"): np.array([[3.0]]),
    }
    # y = (x + .5) + 2 (1 - x) + 3 = 5.5 - x
    np.testing.assert_allclose(problem.forward(weights)["y"], [[4.5], [3.5]], rtol=1e-15)


@pytest.mark.parametrize(
    ("activations", "gates", "error", "words"),
    [
        ({"h": "rellu"}, None, UnknownNameError, "did you mean 'relu'"),
        ({"k": "relu"}, None, UnknownNameError, "activations name unknown node 'k'"),
        ({"x": "relu"}, None, ProblemError, "nothing enters input node 'x'"),
        ("relu", None, ProblemError, "activations must be a Mapping"),
        ({"h": "relu"}, nr.Gates({"h": [-1.0, 1.0]}), GateError, "example 0 has -1"),
    ],
)
def test_activations_that_cannot_be(activations, gates, error, words):
    with pytest.raises(error, match=words):
        nr.Problem(CHAIN, TASK, gates, activations)


def test_examples_without_weight_do_not_matter_but_are_computed():
    """With one gate per node, and one per neuron."""
    random = np.random.default_rng(3)
    rows, wanted, mass = random.normal(size=(5, 2)), random.normal(size=(5, 1)), np.array([1.0, 0, 2, 0, 1])
    weights, kept = oracle.random_weights(CHAIN), np.flatnonzero(mass)
    for gate in (np.array([1.0, 0, 1, 0.5, 1]), random.uniform(size=(5, 3))):
        task, gates = nr.Task({"x": rows}, {"y": wanted}, mass), nr.Gates({"h": gate})
        whole, part = nr.Problem(CHAIN, task, gates), nr.Problem(CHAIN, task.take(kept), gates.take(kept))
        assert whole.loss(weights) == pytest.approx(part.loss(weights), rel=ROUNDING)
        assert whole.loss(weights) == pytest.approx(oracle.loss(whole, weights), rel=ROUNDING)
        oracle.assert_weights_close(whole.gradient(weights), part.gradient(weights), ROUNDING)
        np.testing.assert_allclose(whole.forward(weights)["y"], oracle.activities(whole, weights)["y"], rtol=ROUNDING)


def test_a_network_with_every_path_closed_is_silent():
    problem = nr.Problem(CHAIN, TASK, nr.Gates({"h": np.zeros(2)}))
    weights = oracle.random_weights(CHAIN)
    assert problem.loss(weights) == pytest.approx(0.5 * (1 + 4) / 2, rel=1e-15)
    assert not problem.forward(weights)["y"].any()
    assert not any(matrix.any() for matrix in problem.gradient(weights).values())
    assert problem.statistics().loss(weights) == pytest.approx(1.25, rel=1e-15)


# bad input


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ([{}, TASK], ProblemError, "architecture must be an Architecture; it was {"),
        ([CHAIN, TASK, {}], ProblemError, "gates must be a Gates; it was {"),
        ([CHAIN, nr.Task({"x": ROWS}, {"y": np.ones((2, 4))})], ProblemError, "'y' has size 1 and its output .* 4 col"),
        ([CHAIN, nr.Task({"x": ROWS, "xx": ROWS}, {"y": RESULTS})], UnknownNameError, "'xx', which is no input .*'x'"),
        ([CHAIN, nr.Task({"xx": ROWS}, {"y": RESULTS})], ProblemError, "node 'x' has none .*no edge enters it"),
    ],
)
def test_parts_that_do_not_fit_are_named(given, error, words):
    with pytest.raises(error, match=words):
        nr.Problem(*given)


IN, OUT = ("x", "h"), ("h", "y")


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({IN: np.ones((2, 3))}, WeightError, r"\('x', 'h'\) must have shape .* = \(3, 2\); they have \(2, 3\)"),
        ({IN: np.full((3, 2), np.nan)}, WeightError, r"\('x', 'h'\) must be finite; it has nan at row 0, column 0"),
        ({OUT: "abc"}, WeightError, r"\('h', 'y'\) must be an array of numbers; it was str"),
        ({("h", "z"): np.ones((1, 1))}, UnknownNameError, r"unknown edge \('h', 'z'\); did you mean .*'y'"),
    ],
)
@pytest.mark.parametrize("method", ["forward", "loss", "gradient"])
def test_weights_that_do_not_fit_name_their_edge(method, change, error, words):
    problem = nr.Problem(CHAIN, TASK)
    weights = {**oracle.random_weights(problem.architecture), **change}
    with pytest.raises(error, match=words):
        getattr(problem, method)(weights)


def test_a_resized_problem_is_made_once_and_takes_gates_of_single_neurons():
    problem = nr.Problem(CHAIN, TASK)
    wider = {**problem.architecture.nodes, "h": 7}
    assert problem.resized(wider) is problem.resized(dict(wider))
    assert problem.resized(wider).architecture.nodes == wider
    assert problem.resized(wider, {"h": np.ones((2, 7))}).gates.neurons["h"].shape == (2, 7)


@nr.float64
def test_every_named_activation_keeps_what_it_says_of_itself():
    received = np.array([-2.0, -0.3, 0.0, 0.7, 3.0])
    assert named().keys() >= {"relu", "leaky_relu"}
    for name in named():
        activation = as_activation(name)
        assert as_activation(activation.as_data()) == activation
        assert float(activation(jax.numpy.zeros(()))) == 0.0
        scaled = np.array([activation(g * received) - g * activation(received) for g in (0.5, 3.0)])
        assert (np.abs(scaled) < 1e-12).all() == activation.homogeneous
