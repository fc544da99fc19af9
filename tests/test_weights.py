"""Weights that are functions of parameters, against matrices and flows that are written out by hand."""

import itertools
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import neuralrace as nr
import oracle
from neuralrace import weights as kinds
from neuralrace.errors import NeuralRaceError, ProblemError, RangeError, UnknownNameError, WeightError
from random_problems import random_problem

SIZE = 4  # of every node of a random graph, so that every parametrization fits everywhere
RANDOM = np.random.default_rng(0)
CONSTANT, BASIS = RANDOM.normal(size=(SIZE, SIZE)), RANDOM.normal(size=(3, SIZE, SIZE))
EDGES = [("x", "h"), ("h", "y")]
FIRST, SECOND = EDGES


@dataclass(frozen=True)
class Diagonal(kinds.Parametrization):
    """A number for each neuron: a parametrization of one's own."""

    kind: ClassVar = "diagonal"

    def shape(self, rows, columns):
        return (min(rows, columns),)

    def matrix(self, parameter, rows, columns):
        return parameter[..., :, None] * np.eye(rows, columns)


def convolved(theta, periodic):
    """Place i receives kernel entry k from place i - width // 2 + k, channel by channel."""
    outputs, inputs, width = theta.shape
    places = SIZE // inputs
    made = np.zeros((outputs * places, inputs * places))
    for o, c, k, i in itertools.product(range(outputs), range(inputs), range(width), range(places)):
        j = i - width // 2 + k
        if periodic or 0 <= j < places:
            made[o * places + i, c * places + j % places] += theta[o, c, k]
    return made


def blocks(theta):
    made = np.zeros((SIZE, SIZE))
    for i, block in enumerate(theta):
        rows, columns = block.shape
        made[i * rows : (i + 1) * rows, i * columns : (i + 1) * columns] = block
    return made


# a parametrization, the shape of its parameter, and its matrix by hand
BY_HAND = {
    "circulant": (kinds.circulant(3), (1, 1, 3), lambda w: convolved(w, True)),
    "circulant of all places": (kinds.circulant(SIZE), (1, 1, SIZE), lambda w: convolved(w, True)),
    "circulant with channels": (kinds.circulant(2, 2, 2), (2, 2, 2), lambda w: convolved(w, True)),
    "toeplitz": (kinds.toeplitz(3), (1, 1, 3), lambda w: convolved(w, False)),
    "block diagonal": (kinds.block_diagonal(2), (2, 2, 2), blocks),
    "kron": (kinds.kron_identity(2), (2, 2), lambda w: np.kron(w, np.eye(2))),
    "scaled identity": (kinds.scaled_identity("a"), (), lambda w: w * np.eye(SIZE)),
    "frozen": (kinds.frozen(CONSTANT), None, lambda w: CONSTANT),
    "linear": (kinds.linear(BASIS), (3,), lambda w: sum(a * b for a, b in zip(w, BASIS, strict=True))),
    "shared": (kinds.shared("b"), (SIZE, SIZE), lambda w: w),
    "own": (Diagonal(), (SIZE,), np.diag),
    "free": (None, (SIZE, SIZE), lambda w: w),
}


def random_tied(seed):
    """A random gated graph with a random parametrization on every edge, and its matrices by hand."""
    random, plain = np.random.default_rng(seed), random_problem(seed, sizes=(SIZE, SIZE), examples=9, gates="binary")
    graph, chosen, turned = plain.architecture, {}, {}
    names = random.permutation([*BY_HAND] * (len(graph.edges) // len(BY_HAND) + 1))
    for edge, name in zip(graph.edges, names, strict=False):
        chosen[edge] = str(name)
    weights = {edge: BY_HAND[name][0] for edge, name in chosen.items() if name != "free"}
    listed = list(graph.edges)
    if len(listed) > 1:  # the last edge is the transpose of the first
        turned[listed[-1]] = listed[0]
        weights[listed[-1]] = kinds.transposed(listed[0])
    tied = nr.Architecture(graph.nodes, graph.listed_edges, weights)
    relu = {node: nr.leaky_relu(0.1) for node in graph.hidden[::2]} if seed % 2 else {}
    problem = nr.Problem(tied, plain.task, plain.gates, relu, biases=bool(seed % 3 == 1))

    def matrices(parameters):
        made = {}
        for edge in problem.architecture.edges:
            if edge not in chosen:  # a bias
                made[edge] = parameters[edge]
                continue
            kind, _, by_hand = BY_HAND[chosen[turned.get(edge, edge)]]
            key = (kind and kind.name) or turned.get(edge, edge)
            made[edge] = by_hand(parameters.get(key))
            made[edge] = made[edge].T if edge in turned else made[edge]
        return made

    return problem, matrices, set(chosen.values())


def test_gradients_are_those_of_the_matrices_written_by_hand():
    """On random graphs with gates, biases and activations."""
    seen = set()
    for seed in (1, 2, 4, 9, 12):
        problem, by_hand, names = random_tied(seed)
        weights = nr.initial.xavier(1.5)(problem, seed)
        made, wanted = problem.edge_matrices(weights), by_hand(weights)
        assert list(made) == list(problem.architecture.edges)
        for edge, matrix in wanted.items():
            np.testing.assert_allclose(made[edge], matrix, rtol=0, atol=1e-15, err_msg=str(edge))
        assert problem.loss(weights) == pytest.approx(oracle.loss(problem, wanted), rel=1e-12)
        numeric = oracle.central_differences(lambda w, p=problem, m=by_hand: oracle.loss(p, m(w)), weights)
        oracle.assert_weights_close(problem.gradient(weights), numeric, 1e-7)
        if not problem.activations:
            statistics = problem.statistics()
            assert statistics.loss(weights) == pytest.approx(problem.loss(weights), rel=1e-10)
            oracle.assert_weights_close(statistics.gradient(weights), numeric, 1e-7)
        seen |= names
    assert seen == set(BY_HAND)


@pytest.mark.parametrize("name", BY_HAND)
def test_parameters_have_the_shape_that_their_matrices_need(name):
    kind, shape, _ = BY_HAND[name]
    graph = nr.Architecture({"x": SIZE, "h": SIZE, "y": 2}, EDGES, {} if kind is None else {FIRST: kind})
    key = FIRST if kind is None or kind.name is None else kind.name
    assert graph.parameters == ({} if shape is None else {key: shape}) | {SECOND: (2, SIZE)}
    if kind is not None:
        assert kinds.as_parametrization(kind.as_data()) == kind
        assert hash(kinds.as_parametrization(kind.as_data())) == hash(kind)


def test_rectangular_matrices():
    """Channels, blocks and Kronecker factors between nodes of different sizes."""
    theta = RANDOM.normal(size=(2, 1, 3))
    one, two = (kind.matrix(theta, 2 * SIZE, SIZE) for kind in (kinds.circulant(3, 1, 2), kinds.toeplitz(3, 1, 2)))
    np.testing.assert_array_equal(one, convolved(theta, True))
    np.testing.assert_array_equal(two, convolved(theta, False))
    small = RANDOM.normal(size=(3, 2))
    np.testing.assert_array_equal(kinds.kron_identity(2).matrix(small, 6, 4), np.kron(small, np.eye(2)))
    wide = kinds.block_diagonal(2).matrix(np.stack([small, 2 * small]), 6, 4)
    np.testing.assert_array_equal(wide, np.kron(np.diag([1.0, 2.0]), small))


def flow_by_hand(problem, by_hand, weights, times):
    """Integrate the parameters: their derivative is the adjoint of the map to the matrices, written as a Jacobian."""
    shapes = {key: value.shape for key, value in weights.items()}

    def unpack(flat):
        parts = np.split(flat, np.cumsum([int(np.prod(shape)) for shape in shapes.values()])[:-1])
        return {key: part.reshape(shape) for (key, shape), part in zip(shapes.items(), parts, strict=True)}

    def pack(values):
        return np.concatenate([np.ravel(value) for value in values])

    start = pack(weights.values())
    origin = pack(by_hand(unpack(0 * start)).values())
    jacobian = np.stack([pack(by_hand(unpack(unit)).values()) - origin for unit in np.eye(len(start))], axis=1)

    def slope(_, flat):
        gradient = oracle.gradient(problem, by_hand(unpack(flat)))
        return -jacobian.T @ pack(gradient.values())

    states = solve_ivp(slope, (0, times[-1]), start, "DOP853", times, rtol=1e-10, atol=1e-12).y.T
    return np.array([oracle.loss(problem, by_hand(unpack(state))) for state in states])


@pytest.mark.parametrize("seed", [2, 8])
def test_the_flow_is_that_of_the_parameters(seed):
    problem, by_hand, _ = random_tied(seed)
    weights, times = nr.initial.gaussian(0.3)(problem, seed), np.linspace(0, 1.0, 6)
    forecast = nr.predict(problem, weights, times, method="flow", rtol=1e-9)
    expected = flow_by_hand(problem, by_hand, weights, times)
    np.testing.assert_allclose(forecast.loss, expected, rtol=0, atol=1e-6 * expected[0])
    if not problem.activations:
        again = nr.predict(problem.statistics(), weights, times, method="flow", rtol=1e-9)
        np.testing.assert_allclose(again.loss, expected, rtol=0, atol=1e-6 * expected[0])


def chain(kind, edge=FIRST, size=SIZE, seed=0):
    random = np.random.default_rng(seed)
    graph = nr.Architecture({"x": size, "h": size, "y": size}, EDGES, {} if kind is None else {edge: kind})
    rows = random.normal(size=(9, size))
    return nr.Problem(graph, nr.Task({"x": rows}, {"y": rows @ random.normal(size=(size, size))}))


def test_trivial_ties_train_as_free_matrices_do():
    free, rate = chain(None), {"learning_rate": 0.05, "steps": 40}
    weights = nr.initial.gaussian(0.4)(free, 3)
    plain = nr.train(free, weights, **rate)
    units = np.eye(SIZE * SIZE).reshape(SIZE * SIZE, SIZE, SIZE)
    pairs = np.broadcast_to(weights[FIRST][:, :, None], (SIZE, SIZE, 1))
    for kind, parameter in (
        (kinds.shared("only"), weights[FIRST]),
        (kinds.circulant(1, SIZE, SIZE), pairs),  # one place, so that every neuron is a channel
        (kinds.toeplitz(1, SIZE, SIZE), pairs),
        (kinds.block_diagonal(1), weights[FIRST][None]),
        (kinds.kron_identity(1), weights[FIRST]),
        (kinds.linear(units), weights[FIRST].ravel()),
    ):
        tied = chain(kind)
        begin = {kind.name or FIRST: parameter, SECOND: weights[SECOND]}
        run = nr.train(tied, begin, **rate)
        np.testing.assert_allclose(run.loss, plain.loss, rtol=1e-10)
    exact = nr.predict(free, weights, [0.0, 1.0, 2.0], "flow").loss
    np.testing.assert_allclose(nr.predict(tied, begin, [0.0, 1.0, 2.0], "flow").loss, exact, rtol=1e-5)


def test_frozen_weights_stay_and_given_ones_go_on():
    """Fine-tuning: the first layer of a trained network is constant, the second goes on."""
    free = chain(None)
    before = nr.train(free, nr.initial.gaussian(0.3), 0.05, 30)
    tuned = chain(kinds.frozen(before.weights()[FIRST]))
    run = nr.train(tuned, {SECOND: before.weights()[SECOND]}, 0.05, 30, record="weight_singular_values")
    assert run.loss[0, 0] == pytest.approx(before.loss[0, -1])
    assert list(run.weights()) == [SECOND]
    first = run.data["weight_singular_values[x->h]"].values
    np.testing.assert_allclose(first, np.broadcast_to(first[:, :1], first.shape), rtol=1e-12)
    by_hand = lambda w: {FIRST: before.weights()[FIRST], SECOND: w[SECOND]}  # noqa: E731
    expected = flow_by_hand(free, by_hand, run.initial_weights(0), [0.0, 1.5])
    np.testing.assert_allclose(nr.predict(tuned, run.initial_weights(0), [0.0, 1.5]).loss, expected, rtol=1e-5)


RECURRENT = nr.tasks.sequence(values=(0.8, 0.5), strengths=(2.0, 1.0), length=3).problem("recurrent", 4)
TIED = nr.Problem(
    nr.Architecture(
        {"x": 4, "h": 6, "k": 6, "y": 4},
        [("x", "h"), ("h", "k"), ("k", "y")],
        {("h", "k"): Diagonal(), ("x", "h"): kinds.linear(RANDOM.normal(size=(5, 6, 4)))},
    ),
    nr.Task({"x": RANDOM.normal(size=(8, 4))}, {"y": RANDOM.normal(size=(8, 4))}),
    activations={"k": "relu"},
    biases=True,
)


@pytest.mark.parametrize("problem", [RECURRENT, TIED], ids=["recurrent", "own"])
def test_runs_record_resume_load_and_go_on(tmp_path, problem):
    initial, keys = nr.initial.relative(0.5), tuple(problem.architecture.parameters)
    options = {"seeds": 2, "batch_size": 4, "record": ("weights", "path_singular_values", "outputs"), "every": 5}
    path = tmp_path / "run.npz"
    run = nr.train(problem, initial, 0.05, 20, checkpoint=path, **options)
    np.testing.assert_array_equal(nr.train(problem, initial, 0.05, 20, checkpoint=path, **options).loss, run.loss)
    assert run.edges == keys
    weights = run.weights(1, record=2)
    assert {key: value.shape for key, value in weights.items()} == dict(problem.architecture.parameters)
    assert problem.loss(run.weights(1)) == pytest.approx(run.loss[1, -1])
    longest = max(problem.architecture.paths(), key=lambda one: len(one.edges))
    made = longest.product(problem.edge_matrices(weights))
    recorded = run.data[f"path_singular_values[{longest}]"].values[1, 2]
    np.testing.assert_allclose(recorded, np.linalg.svd(made, compute_uv=False)[: len(recorded)], atol=1e-12)
    run.save(tmp_path / "run.nc")
    loaded = nr.Trajectory.load(tmp_path / "run.nc")
    assert loaded.problem.architecture == problem.architecture
    assert loaded.problem.loss(loaded.weights(1)) == pytest.approx(run.loss[1, -1])
    further = nr.train(problem, loaded, 0.05, 5, evaluate={"same": problem})
    np.testing.assert_allclose(further.loss[:, 0], run.loss[:, -1])
    np.testing.assert_allclose(further.evaluated["same"].loss, further.loss)
    assert len(run.learned(by="output")) == run.data["outputs[y]"].shape[-1]


@pytest.mark.parametrize("name", ["xavier", "orthogonal", "relative", "gaussian"])
def test_initializers_draw_parameters(name):
    graph = nr.Architecture({"x": 8, "h": 8, "y": 8}, EDGES, {FIRST: kinds.circulant(4), SECOND: kinds.shared("b")})
    problem = nr.Problem(graph, nr.Task(np.eye(8), np.eye(8)))
    many = np.array([nr.initial.__dict__[name](0.7)(problem, key)[FIRST] for key in range(200)])
    assert many.shape == (200, 1, 1, 4)
    fans = 4 + 4
    wanted = {"xavier": 0.7**2 * 2 / fans, "relative": 0.7**2 * 2 / fans, "gaussian": 0.7**2, "orthogonal": 0.7**2 / 4}
    assert np.mean(many**2) == pytest.approx(wanted[name], rel=0.15)
    if name == "orthogonal":
        square = nr.initial.orthogonal(0.7)(problem, 0)["b"]
        np.testing.assert_allclose(square @ square.T, 0.49 * np.eye(8), atol=1e-12)
    sizes = {FIRST: 0.0, "b": 0.5}
    assert not nr.initial.__dict__[name](sizes)(problem, 0)[FIRST].any()


def test_single_precision_and_sweeps(tmp_path):
    problem = chain(kinds.scaled_identity("a"))
    run = nr.train(problem, nr.initial.gaussian(0.3), 0.05, 10, precision="single")
    double = nr.train(problem, nr.initial.gaussian(0.3), 0.05, 10)
    np.testing.assert_allclose(run.loss, double.loss, rtol=1e-5)

    def last(width):
        one = chain(kinds.circulant(width))
        return {"loss": nr.train(one, nr.initial.gaussian(0.1), 0.05, 5, progress=False).loss[0, -1]}

    assert len(nr.sweep(last, {"width": [1, 3]}, out=tmp_path, workers=1, progress=False).table) == 2


def test_checkpoints_of_shared_weights_are_read_by_name():
    run = nr.train(RECURRENT, nr.initial.gaussian(0.3), 0.01, 20, record="weights", every=10)
    sets = [run.weights(0, record) for record in range(3)]
    read = nr.Trajectory.from_checkpoints(RECURRENT, [0, 10, 20], sets)
    np.testing.assert_allclose(read.time, run.time, rtol=0.01)
    np.testing.assert_allclose(read.losses, run.losses)


def test_a_drawing_names_what_is_shared():
    axis = RECURRENT.architecture.draw()
    shown = [text.get_text() for text in axis.texts]
    assert [shown.count(name) for name in ("input", "recurrent", "output")] == [3, 2, 1]
    graph = nr.Architecture({"x": 2, "h": 4, "y": 2}, EDGES, {SECOND: kinds.transposed(FIRST)})
    assert "transposed x->h" in [text.get_text() for text in graph.draw().texts]


# bad input


@pytest.mark.parametrize(
    ("weights", "error", "words"),
    [
        (3, ProblemError, "weights must map edges to parametrizations"),
        ({FIRST: 3}, ProblemError, "weights of an edge must be a Parametrization; it was 3"),
        ({("x", "g"): kinds.shared("a")}, UnknownNameError, r"weights name unknown edge \('x', 'g'\)"),
        ({FIRST: kinds.transposed(("x", "g"))}, UnknownNameError, r"transpose of unknown edge \('x', 'g'\)"),
        ({FIRST: kinds.transposed(FIRST)}, ProblemError, "is a transpose of itself"),
        (
            {FIRST: kinds.transposed(SECOND), SECOND: kinds.transposed(FIRST)},
            ProblemError,
            r"is a transpose of itself \(x->h, h->y\): leave one of these edges free",
        ),
        ({FIRST: kinds.transposed(SECOND)}, ProblemError, r"shape \(6, 4\), which does not fit the transpose"),
        ({FIRST: kinds.scaled_identity()}, ProblemError, "a multiple of the identity joins nodes of one size"),
        ({FIRST: kinds.circulant(2)}, ProblemError, "a convolution keeps the number of places"),
        ({FIRST: kinds.circulant(3, 2, 3)}, ProblemError, "a kernel must be at most as wide as its input, 2; it was 3"),
        ({FIRST: kinds.toeplitz(1, 3, 1)}, ProblemError, "3 does not divide 4"),
        ({FIRST: kinds.block_diagonal(4)}, ProblemError, "4 does not divide 6"),
        ({FIRST: kinds.kron_identity(3)}, ProblemError, "3 does not divide 4"),
        ({FIRST: kinds.frozen(np.eye(4))}, ProblemError, r"must have shape \(target, source\) = \(6, 4\)"),
        ({FIRST: kinds.linear(np.ones((6, 4)))}, ProblemError, r"a basis must have shape \(parameters, target, source"),
        ({FIRST: kinds.shared("a"), SECOND: kinds.shared("a")}, ProblemError, "'a' is .* use another name"),
    ],
)
def test_what_does_not_fit_is_refused(weights, error, words):
    with pytest.raises(error, match=words):
        nr.Architecture({"x": 4, "h": 6, "y": 5}, EDGES, weights)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: kinds.frozen([[np.nan]]), ProblemError, "frozen weights must be finite; it has nan at row 0"),
        (lambda: kinds.linear([[[np.inf]]]), ProblemError, "basis must be finite"),
        (lambda: kinds.circulant(0), RangeError, "width must be a whole number, at least 1; it was 0"),
        (lambda: kinds.block_diagonal(1.5), RangeError, "blocks must be a whole number"),
        (lambda: kinds.shared(""), ProblemError, "name of shared weights"),
        (lambda: kinds.shared("a/b"), ProblemError, "name of shared weights"),
        (
            lambda: kinds.as_parametrization({"kind": "spiral"}),
            UnknownNameError,
            "there is no parametrization 'spiral'",
        ),
        (lambda: kinds.frozen([[1.0, 2.0], [3.0]]), ProblemError, "rows are of different lengths"),
    ],
)
def test_a_faulty_parametrization_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_given_parameters_are_checked():
    weights = nr.initial.gaussian(0.1)(RECURRENT, 0)
    for given, words in (
        ({**weights, "recurrent": np.eye(3)}, r"'recurrent' must have shape \(4, 4\); they have \(3, 3\)"),
        ({key: weights[key] for key in ("input", "output")}, "'recurrent'; it is missing"),
        ({**weights, ("x1", "h1"): np.eye(4)}, r"unknown edge \('x1', 'h1'\)"),
        ({**weights, "input": np.full((4, 2), np.nan)}, "'input' must be finite"),
    ):
        with pytest.raises((WeightError, UnknownNameError), match=words):
            RECURRENT.loss(given)
    with pytest.raises(NeuralRaceError, match="std must have a value for every edge; recurrent has none"):
        nr.initial.gaussian({"input": 1.0, "output": 1.0})(RECURRENT, 0)


def test_what_needs_free_matrices_says_so():
    weights = nr.initial.gaussian(0.1)(TIED, 0)
    for call in (
        lambda: nr.initial.decoupled(0.1)(RECURRENT, 0),
        lambda: nr.analysis.tangent_kernel(TIED, weights),
        lambda: nr.reln.equivalent(TIED, weights),
        lambda: nr.train(RECURRENT, nr.initial.gaussian(0.1), 0.1, 1, coupling="residual"),
    ):
        with pytest.raises(NeuralRaceError, match="free"):
            call()


def test_a_network_without_parameters_is_refused():
    graph = {"nodes": {"x": 2, "y": 2}, "edges": [("x", "y")]}
    with pytest.raises(ProblemError, match="at least one edge must have weights that are trained; here all are frozen"):
        nr.Architecture(**graph, weights={("x", "y"): kinds.frozen(np.eye(2))})
