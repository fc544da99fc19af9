import json

import jax
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import ProblemError, RangeError, UnknownNameError, WeightError
from neuralrace.initial import as_data, from_data


@pytest.fixture
def problem():
    return nr.tasks.xor(0.5).problem("linear", hidden=40)


def test_gaussian_has_the_standard_deviation_asked_for(problem):
    weights = nr.initial.gaussian(0.3)(problem, 0)
    assert list(weights) == list(problem.architecture.edges)
    values = np.concatenate([matrix.ravel() for matrix in weights.values()])
    assert values.dtype == np.float64
    # 320 entries: the standard error of the deviation is 0.3 / sqrt(640) = 0.012; four of them
    assert values.std() == pytest.approx(0.3, abs=0.048)
    assert values.mean() == pytest.approx(0, abs=0.068)


@pytest.mark.parametrize("make", [nr.initial.gaussian, nr.initial.xavier])
def test_one_number_per_edge(problem, make):
    scales = {edge: 2.0**i for i, edge in enumerate(problem.architecture.edges)}  # products are exact
    per_edge, alike = make(scales)(problem, 7), make(1.0)(problem, 7)
    for edge, scale in scales.items():
        np.testing.assert_array_equal(per_edge[edge], scale * alike[edge])


@pytest.mark.parametrize("make", [nr.initial.gaussian, nr.initial.orthogonal, nr.initial.xavier])
def test_an_initializer_for_other_edges_has_the_sizes_of_those_that_they_are_like(make):
    initial, edges = make({"in": 0.1, "out": 0.2}), {"first": "in", "second": "in", "last": "out"}
    assert initial.like(edges) == make({"first": 0.1, "second": 0.1, "last": 0.2})
    assert initial.like({"in": "out", "out": "in"}) is initial  # of these edges itself
    assert make(0.3).like(edges) == make(0.3)


def test_orthogonal_has_every_singular_value_equal_to_the_gain(problem):
    for matrix in nr.initial.orthogonal(0.2)(problem, 1).values():
        # a QR of a well-conditioned matrix is orthogonal to rounding
        np.testing.assert_allclose(np.linalg.svd(matrix, compute_uv=False), 0.2, rtol=1e-13)


def test_the_same_key_gives_the_same_weights_and_edges_differ(problem):
    for make in (nr.initial.gaussian, nr.initial.orthogonal):
        one, again, other = make(1.0)(problem, 3), make(1.0)(problem, jax.random.key(3)), make(1.0)(problem, 4)
        for edge in one:
            np.testing.assert_array_equal(one[edge], again[edge])
            assert (one[edge] != other[edge]).all()
        first, second = list(one.values())[:2]
        assert (first != second).all()


@pytest.mark.parametrize("hidden", [5, 2])
def test_decoupled_weights_are_diagonal_in_the_modes(hidden):
    """W_p = U diag(product of strengths) V^T; a narrow hidden node carries the strongest modes only."""
    problem = nr.tasks.routing(2, 2).problem("shared", hidden=hidden)
    weights = nr.initial.decoupled(0.3)(problem, 0)
    sigma = np.array([[6, 4, 0, 3, 0, 0, 0], [6, 4, 0, 0, 3, 0, 0], [6, 0, 4, 0, 0, 3, 0], [6, 0, 4, 0, 0, 0, 3]]).T
    left, _, right = np.linalg.svd(sigma, full_matrices=False)
    product = weights["h2", "y0"] @ weights["h1", "h2"] @ weights["x1", "h1"]
    rotated = left.T @ product @ right.T
    modes = min(hidden, 4)
    # orthogonal factors from decompositions of statistics of size one, exact to some hundred roundings
    if modes == 4:
        np.testing.assert_allclose(rotated, 0.3**3 * np.eye(4), rtol=0, atol=1e-12)
    else:  # the two equal modes are not among the two strongest
        np.testing.assert_allclose(rotated, np.diag([0.3**3] * 2 + [0] * 2), rtol=0, atol=1e-12)


def test_xavier_is_uniform_within_the_bound_of_its_edge(problem):
    weights = nr.initial.xavier(2.0)(problem, 0)
    for edge, matrix in weights.items():
        bound = 2.0 * np.sqrt(6 / (matrix.shape[0] + matrix.shape[1]))
        assert np.abs(matrix).max() <= bound, edge
        # a uniform distribution deviates by bound / sqrt(3); 80 entries, five standard errors of about 5 %
        assert matrix.std() == pytest.approx(bound / np.sqrt(3), rel=0.25)


@pytest.mark.parametrize("biases", [False, True])
def test_relative_is_a_fraction_of_the_deviation_of_xavier_at_every_edge(biases):
    network = nr.ReLUNetwork(nr.tasks.xor().task, (40, 8), biases=biases)
    graph, initial = network.architecture, nr.initial.relative(0.3)
    stds = {e: 0.3 * np.sqrt(2 / sum(graph.shape(e))) * (source != "bias") for e, (source, _) in graph.edges.items()}
    drawn, expected = initial(network, 5), nr.initial.gaussian(stds)(network, 5)
    for edge in graph.edges:
        np.testing.assert_allclose(drawn[edge], expected[edge], rtol=1e-14)


def test_a_forecast_of_few_neurons_keeps_the_relative_scale_of_the_whole_layer():
    network, times = nr.ReLUNetwork(nr.tasks.xor().task, 64), np.linspace(0, 4, 5)
    stds = {e: 0.02 * np.sqrt(2 / sum(network.architecture.shape(e))) for e in network.architecture.edges}
    method = nr.theory.Representatives(most=8)
    found, expected = (
        nr.predict(network, initial, times, method, draws=2)
        for initial in (nr.initial.relative(0.02), nr.initial.gaussian(stds))
    )
    assert found.certificate["independent normal neurons"].holds
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-12)


# initializers as data

INITIALIZERS = [
    nr.initial.gaussian(0.1),
    nr.initial.relative(0.1),
    nr.initial.orthogonal({("x", "h"): 0.25, "bridge": 1e-300}),
    nr.initial.xavier(np.float64(3)),
    nr.initial.decoupled({("x", "h"): [0.1, 0.2], ("h", "y"): 0.3}),
]


@pytest.mark.parametrize("initial", INITIALIZERS, ids=lambda initial: type(initial).__name__)
def test_an_initializer_comes_back_from_its_data(initial):
    assert from_data(json.loads(json.dumps(as_data(initial)))) == initial


def test_weights_and_initializers_of_your_own_are_named_as_such(problem):
    weights = nr.initial.gaussian(1.0)(problem, 0)
    for given in (weights, [weights, weights]):
        assert as_data(given) == {"name": "given"}
        assert from_data(as_data(given)) is None

    class Mine:
        def __repr__(self):
            return "Mine(gaussian(std=0.1))"

    assert as_data(Mine())["repr"] == "Mine(gaussian(std=0.1))"
    assert from_data(as_data(Mine())) is None


# bad input


@pytest.mark.parametrize("make", [nr.initial.gaussian, nr.initial.orthogonal])
@pytest.mark.parametrize("value", [-1.0, np.nan, np.inf, "wide", None])
def test_a_scale_out_of_range(problem, make, value):
    name = "std" if make is nr.initial.gaussian else "gain"
    with pytest.raises(RangeError, match=f"{name} must be a finite number, at least 0"):
        make(value)(problem, 0)


def test_scales_by_edge_must_name_every_edge_and_no_other(problem):
    first, *rest = problem.architecture.edges
    with pytest.raises(WeightError, match="std must have a value for every edge; x->positive has none"):
        nr.initial.gaussian(dict.fromkeys(rest, 1.0))(problem, 0)
    with pytest.raises(UnknownNameError, match=r"std names unknown edge \('x', 'positve'\); did you mean .*positive"):
        nr.initial.gaussian({("x", "positve"): 1.0})(problem, 0)
    with pytest.raises(
        RangeError, match=r"std of edge x->positive must be a finite number, at least 0 and .*; it was -1"
    ):
        nr.initial.gaussian({**dict.fromkeys(rest, 1.0), first: -1})(problem, 0)


def test_decoupled_weights_need_modes():
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(4,))
    with pytest.raises(ProblemError, match="statistics require linear nodes"):
        nr.initial.decoupled(0.1)(network, 0)
    random = np.random.default_rng(0)
    architecture = nr.Architecture({"x": 3, "y": 3}, [("x", "y")])
    mixed = nr.Problem(architecture, nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 3))}))
    with pytest.raises(WeightError, match=r"diagonal in shared bases; Sigma_\w+\(.* is off by .*start from gaussian"):
        nr.initial.decoupled(0.1)(mixed, 0)


def test_decoupled_strengths_that_do_not_fit():
    problem = nr.tasks.routing(2, 2).problem("shared", hidden=3)
    edges = problem.architecture.edges
    with pytest.raises(WeightError, match=r"x0->h1 must be one number or one per mode, 4; .*shape \(9,\)"):
        nr.initial.decoupled(dict.fromkeys(edges, np.ones(9)))(problem, 0)


@pytest.mark.parametrize("key", [1.5, "seed", None, True])
def test_a_key_must_be_a_seed_or_a_jax_key(problem, key):
    with pytest.raises(WeightError, match="key must be an integer seed or a JAX key"):
        nr.initial.gaussian(1.0)(problem, key)
