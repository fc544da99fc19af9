"""Recurrent, convolutional and tied networks: what they compute, and their modes against scalar equations."""

import itertools

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import neuralrace as nr
from neuralrace.errors import ProblemError, TaskError

VALUES, STRENGTHS, LENGTH = (0.9, 0.6), (3.0, 1.0), 4
SEQUENCE = nr.tasks.sequence(VALUES, STRENGTHS, LENGTH)
SMALL = nr.initial.gaussian(1e-3)


def random_sequence(outputs=1, seed=0):
    random = np.random.default_rng(seed)
    inputs = {f"x{t}": random.normal(size=(10, 3)) for t in range(1, 4)}
    return nr.Task(inputs, {f"y{t}": random.normal(size=(10, 2)) for t in range(outputs)})


@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("activation", [None, "relu"])
def test_a_recurrent_network_is_the_loop_over_time(outputs, activation):
    task = random_sequence(outputs)
    problem = nr.networks.recurrent(task, 5, activation)
    weights = nr.initial.xavier()(problem, 1)
    assert {name: value.shape for name, value in weights.items()} == {
        "input": (5, 3), "recurrent": (5, 5), "output": (2, 5)
    }  # fmt: skip
    state, said = np.zeros((10, 5)), []
    for rows in task.inputs.values():
        state = state @ weights["recurrent"].T + rows @ weights["input"].T
        state = np.maximum(state, 0) if activation else state
        said.append(state @ weights["output"].T)
    for rows, expected in zip(problem.forward(weights).values(), said[-outputs:], strict=True):
        np.testing.assert_allclose(rows, expected, atol=1e-12)


def test_a_convolutional_network_convolves():
    random = np.random.default_rng(0)
    rows = random.normal(size=(5, 6))
    problem = nr.networks.convolutional(nr.Task(rows, rows), kernel=3, depth=3)
    weights = nr.initial.xavier()(problem, 0)
    expected = np.fft.fft(rows, axis=1)
    for kernel in weights.values():
        impulse = np.zeros(6)
        impulse[[1, 0, -1]] = kernel[0, 0]  # place i receives from i - 1, i and i + 1
        expected *= np.fft.fft(impulse)
    np.testing.assert_allclose(problem.forward(weights)["y"], np.fft.ifft(expected, axis=1).real, atol=1e-12)
    several = nr.networks.convolutional(nr.Task(rows, rows), kernel=2, depth=2, channels=4, activation="relu")
    assert [value.shape for value in nr.initial.xavier()(several, 0).values()] == [(4, 1, 2), (1, 4, 2)]
    assert several.activations.keys() == {"h1"}


def recurrent_loss(weights, times):
    """Proca et al. 2025, mode by mode from the growing part of small weights."""
    directions = (weights["input"] + weights["output"].T) / 2  # columns: modes, the strongest first
    basis, triangle = np.linalg.qr(directions)
    basis *= np.sign(np.diag(triangle))
    past = np.arange(LENGTH)  # T - t
    total = np.zeros(len(times))
    for mode, (value, strength) in enumerate(zip(VALUES, STRENGTHS, strict=True)):
        wanted = strength * value**past

        def slope(_, state, wanted=wanted):
            a, b, c = state
            error = wanted - c * b**past * a
            turned = np.where(past > 0, past * b ** np.maximum(past - 1, 0), 0)
            return [c * b**past @ error, c * a * (turned @ error), a * b**past @ error]

        u = basis[:, mode]
        start = u @ directions[:, mode]
        begin = [start, u @ weights["recurrent"] @ u, start]
        a, b, c = solve_ivp(slope, (0, times[-1]), begin, "DOP853", times, rtol=1e-11, atol=1e-14).y
        total += 0.5 * np.sum((wanted[:, None] - c * b ** past[:, None] * a) ** 2, axis=0)
    return total


def test_recurrent_modes_follow_their_scalar_equations():
    problem = SEQUENCE.problem("recurrent", hidden=8)
    weights, times = SMALL(problem, 1), np.linspace(0, 20, 41)
    forecast = nr.predict(problem, weights, times, rtol=1e-9)
    assert forecast.method == "reduction"
    assert forecast.certificate.holds
    expected = recurrent_loss(weights, times)
    np.testing.assert_allclose(forecast.loss, expected, rtol=0, atol=1e-6 * expected[0])
    exact = nr.predict(problem, weights, times, method="flow")
    assert nr.agreement(forecast, exact).normalized_l1 < 0.005
    for edge in (("x1", "h1"), ("h1", "h2")):  # strengths of modes, and their order, by either method
        one, other = (curve.modes.edge(edge)[:2, -1] for curve in (forecast, exact))
        np.testing.assert_allclose(np.abs(one), other, atol=0.01)
    assert [one.mode for one in exact.order()] == [one.mode for one in forecast.order()]
    learned = forecast.weights(draw=0, time=20.0)["recurrent"]
    np.testing.assert_allclose(np.sort(np.linalg.eigvals(learned).real)[-2:], sorted(VALUES), atol=1e-3)
    run = nr.train(problem, weights, 0.01, 2000, every=50)
    np.testing.assert_allclose(
        np.sort(np.linalg.eigvals(run.weights()["recurrent"]).real)[-2:], sorted(VALUES), atol=0.01
    )


def test_unaligned_sequences_are_left_to_the_flow():
    problem, times = nr.networks.recurrent(random_sequence(), 4), np.linspace(0, 3, 7)
    forecast = nr.predict(problem, SMALL, times, draws=1)
    failed = {one.method: one.failed.name for one in forecast.certificate.declined}
    assert forecast.method == "flow"
    assert failed["reduction"] == "mutual diagonalizability"
    large = nr.predict(SEQUENCE.problem("recurrent", 8), nr.initial.gaussian(0.3), times, draws=1)
    assert large.method == "flow"


def test_sequences_of_another_length_take_the_same_weights():
    short, long = (nr.tasks.sequence(VALUES, STRENGTHS, length).problem("recurrent", 6) for length in (3, 8))
    run = nr.train(short, nr.initial.gaussian(0.05), 0.04, 4000, every=4000)
    assert run.loss[0, -1] < 1e-5 * run.loss[0, 0]
    assert long.loss(run.weights()) < 1e-3 * long.statistics().target_energy


def test_tasks_of_sequences_have_their_known_response():
    inputs, targets = SEQUENCE.task.inputs.values(), SEQUENCE.task.targets["y"]
    for t, rows in enumerate(inputs):
        np.testing.assert_allclose(rows.T @ rows / len(rows), np.eye(2), atol=1e-12)  # white
        expected = np.diag(np.array(STRENGTHS) * np.array(VALUES) ** (LENGTH - 1 - t))
        np.testing.assert_allclose(targets.T @ rows / len(rows), expected, atol=1e-12)
    for one, other in itertools.combinations(inputs, 2):
        assert not (one.T @ other).any()


def test_a_mode_of_a_tied_autoencoder_is_logistic():
    """L = (s - w^4 ...): from W = w u v^T, dw/dt = 2 s w (1 - w^2), so w^2 follows a logistic curve at rate 4 s."""
    random = np.random.default_rng(0)
    left = np.linalg.qr(random.normal(size=(40, 3)))[0]
    sizes = np.array([2.0, 1.0, 0.5])  # variances
    rows = np.sqrt(40 * sizes) * left
    problem = nr.networks.autoencoder(nr.Task(rows, rows), 5)
    assert list(problem.architecture.parameters) == [("x", "h")]
    weights, times = nr.initial.gaussian(1e-3)(problem, 2), np.linspace(0, 8, 33)
    forecast = nr.predict(problem, weights, times)
    assert forecast.method == "closed_form"
    assert forecast.certificate.holds
    begun = np.diag(np.linalg.qr(weights["x", "h"])[1]) ** 2  # growing directions, made orthogonal strongest first
    grown = begun * np.exp(4 * np.multiply.outer(times, sizes))
    expected = 0.5 * np.sum(sizes * (1 - grown / (1 - begun + grown)) ** 2, axis=1)
    np.testing.assert_allclose(forecast.loss, expected, atol=1e-5)
    exact = nr.predict(problem, weights, times, method="flow")
    np.testing.assert_allclose(forecast.loss, exact.loss, atol=0.002 * expected[0])
    untied = nr.networks.autoencoder(nr.Task(rows, rows), 5, tied=False)
    assert list(untied.architecture.parameters) == [("x", "h"), ("h", "y")]


def test_modes_without_correlation_do_not_count_as_small_ones():
    """Their strengths in the basis that both ends share are rounding."""
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(4, 4)))[0]
    inputs = 2 * np.eye(4)
    problem = nr.networks.autoencoder(nr.Task(inputs, inputs @ (turn[:, :2] * [3.0, 1.0]) @ turn[:, :2].T), 6)
    forecast = nr.predict(problem, nr.initial.gaussian(1e-4), np.linspace(0, 8, 17), draws=1)
    assert forecast.method == "closed_form"


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: nr.networks.recurrent(3, 4), TaskError, "task must be a Task"),
        (lambda: nr.networks.recurrent(random_sequence(2), 4), ProblemError, "3 inputs and 2 outputs"),
        (
            lambda: nr.networks.recurrent(nr.Task({"a": np.eye(2), "b": np.ones((2, 1))}, {"y": np.eye(2)}), 4),
            ProblemError,
            "nodes that share weights must have one size",
        ),
        (
            lambda: nr.networks.recurrent(nr.Task({"h1": np.eye(2)}, {"y": np.eye(2)}), 4),
            ProblemError,
            "the task has a node 'h1': rename it",
        ),
        (lambda: nr.networks.recurrent(random_sequence(), 0), nr.NeuralRaceError, "hidden must be a whole number"),
        (lambda: nr.networks.convolutional(random_sequence(), 2), ProblemError, "one input node and one output node"),
        (lambda: nr.networks.convolutional(nr.Task(np.eye(2), np.ones(2)), 2), ProblemError, "2 inputs and 1 outputs"),
        (lambda: nr.networks.convolutional(nr.Task(np.eye(2), np.eye(2)), 3), ProblemError, "at most as wide"),
        (lambda: nr.networks.convolutional(nr.Task(np.eye(2), np.eye(2)), 1, 0), nr.NeuralRaceError, "depth"),
        (lambda: nr.networks.autoencoder(nr.Task(np.eye(2), np.ones(2)), 2), ProblemError, "as many outputs as inputs"),
        (lambda: nr.tasks.sequence((0.5,), (1.0, 2.0)), TaskError, "one number for each mode; there are 1 and 2"),
        (lambda: nr.tasks.sequence(length=0), nr.NeuralRaceError, "length must be a whole number"),
    ],
)
def test_what_is_no_such_network_is_refused(make, error, words):
    with pytest.raises(error, match=words):
        make()
