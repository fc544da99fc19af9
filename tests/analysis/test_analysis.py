"""Agreement, similarity and the tangent kernel against direct computation."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.analysis import Line, agreement, cosine_similarity, kernel_change, similarity, tangent_kernel
from neuralrace.errors import RangeError


def test_agreement_by_hand() -> None:
    time = np.array([0.0, 1.0, 3.0])
    run = Line(time, np.array([[2.0, 1.0, 1.0], [4.0, 1.0, 1.0]]))  # mean 3, 1, 1: area 2 + 2
    found = agreement(Line(time, np.array([3.0, 2.0, 0.1])), run)
    # gaps 0, 1, .9: area .5 + 1.9; exact arithmetic, so only rounding is allowed
    assert found.normalized_l1 == pytest.approx(2.4 / 4, rel=1e-12)
    assert found.log10_gap == pytest.approx((np.log10(2) + 1) / 3, rel=1e-12)
    assert found.max_gap == pytest.approx(1 / 3, rel=1e-12)


def test_equal_curves_agree() -> None:
    line = Line(np.array([0.0, 1.0]), np.array([1.0, 0.0]))
    assert agreement(line, line) == nr.analysis.Agreement(0.0, 0.0, 0.0)
    nothing = Line(line.time, np.zeros(2))
    assert agreement(nothing, nothing) == nr.analysis.Agreement(0.0, 0.0, 0.0)
    assert agreement(nothing, line).log10_gap == np.inf  # the logarithm of zero


@pytest.mark.parametrize("loss", [np.nan, np.inf])
def test_what_diverged_is_infinitely_far(loss: float) -> None:
    time = np.array([0.0, 1.0])
    wild = Line(time, np.array([[1.0, 0.5], [1.0, loss]]))
    far = nr.analysis.Agreement(np.inf, np.inf, np.inf)
    assert agreement(Line(time, np.array([1.0, 0.5])), wild) == agreement(wild, Line(time, np.ones(2))) == far


def test_curves_of_two_losses_are_refused() -> None:
    problem = nr.tasks.xor().problem("linear", hidden=2)
    law = nr.initial.gaussian(0.1)
    classes = nr.Problem(problem.architecture, nr.Task(problem.task.inputs, {"y": np.ones((4, 1))}))
    run = nr.train(classes, law, 0.1, 2, loss="cross-entropy", progress=False)
    forecast = nr.predict(classes, law, run.time, draws=1)
    with pytest.raises(RangeError, match="forecast is of the squared and the run of the cross-entropy loss"):
        agreement(forecast, run)
    assert agreement(run, run).max_gap == 0


def test_other_times_are_refused() -> None:
    with pytest.raises(RangeError, match="share their times"):
        agreement(Line(np.arange(3.0), np.ones(3)), Line(np.arange(4.0), np.ones(4)))


def test_similarity() -> None:
    activity = np.array([[3.0, 4.0], [0.0, 0.0], [-3.0, -4.0]])
    assert np.array_equal(similarity(activity), activity @ activity.T)
    assert np.allclose(cosine_similarity(activity), [[1, 0, -1], [0, 0, 0], [-1, 0, 1]], atol=1e-15)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_tangent_kernel_equals_that_of_the_jacobian(seed: int) -> None:
    problem = nr.tasks.random_problem(seed, examples=6)
    weights = nr.initial.gaussian(0.7)(problem, seed)

    def outputs(given: dict[int, np.ndarray]) -> np.ndarray:
        activity = {n: problem.gates.nodes.get(n, np.ones(6))[:, None] * x for n, x in problem.task.inputs.items()}
        for node in problem.architecture.order:
            if node not in activity:
                total = 0.0
                for place, edge in enumerate(problem.architecture.edges):
                    if problem.architecture.target(edge) == node:
                        gate = problem.gates.edges.get(edge, np.ones(6))[:, None]
                        total = total + gate * (activity[problem.architecture.source(edge)] @ given[place].T)
                activity[node] = problem.gates.nodes.get(node, np.ones(6))[:, None] * total
        return np.hstack([activity[node] for node in problem.architecture.outputs]).ravel()

    given = dict(enumerate(weights.values()))
    columns = []
    for place, matrix in given.items():
        for entry in range(matrix.size):  # a path has an edge once, so a difference is the derivative
            unit = np.eye(matrix.size)[entry].reshape(matrix.shape)
            columns.append(outputs(given | {place: matrix + unit}) - outputs(given))
    rows = np.stack(columns, axis=1)
    kernel = tangent_kernel(problem, weights)
    assert np.allclose(kernel, rows @ rows.T, rtol=1e-10, atol=1e-12)  # rounding of a few dozen products
    traced = np.einsum("nama->nm", kernel.reshape(6, len(kernel) // 6, 6, len(kernel) // 6))
    assert np.allclose(tangent_kernel(problem, weights, traced=True), traced, rtol=1e-10, atol=1e-12)


def test_kernel_change() -> None:
    kernel = np.diag([1.0, 2.0])
    assert kernel_change(kernel, 3 * kernel) == pytest.approx(0.0, abs=1e-15)
    assert kernel_change(np.diag([1.0, 0.0]), np.diag([0.0, 1.0])) == 1.0
