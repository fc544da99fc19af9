import numpy as np
import pytest
from sklearn.datasets import load_digits

import neuralrace as nr
from neuralrace.statistics import shared_bases

ROUNDING = 1e-10  # singular vectors of statistics of size one, whose gaps are at least a tenth


def orthogonal(random, size):
    return np.linalg.qr(random.normal(size=(size, size)))[0]


def diagonal_problem(strengths, variances):
    """One linear path whose statistics are diagonal in bases that are known: (problem, U, V)."""
    random = np.random.default_rng(0)
    size = len(variances)
    U, V = orthogonal(random, size + 1), orthogonal(random, size)
    inputs = V * np.sqrt(size * np.array(variances))  # columns are examples: <x x^T> = V diag(variances) V^T
    targets = U[:, :size] * (np.array(strengths) * np.sqrt(size / np.array(variances)))
    architecture = nr.Architecture({"x": size, "h": 4, "y": size + 1}, [("x", "h"), ("h", "y")])
    return nr.Problem(architecture, nr.Task({"x": inputs.T}, {"y": targets.T})), U, V


def test_known_modes_are_found_strongest_first():
    problem, U, V = diagonal_problem([3.0, 2.0, 1.0], [1.0, 1.5, 0.7])
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    (path,) = problem.architecture.paths()
    assert bases.worst[1] < ROUNDING
    np.testing.assert_allclose(bases.strengths(statistics, path), [3, 2, 1], rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(bases.variances(statistics, path, path), [1, 1.5, 0.7], rtol=0, atol=ROUNDING)
    for found, wanted in ((bases.inputs["x"], V), (bases.outputs["y"], U[:, :3])):
        np.testing.assert_allclose(np.abs(found.T @ wanted), np.eye(3), rtol=0, atol=ROUNDING)


def test_equal_modes_may_be_rotated_but_stay_diagonal():
    problem, _, _ = diagonal_problem([2.0, 2.0, 1.0], [1.0, 1.0, 1.0])
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    (path,) = problem.architecture.paths()
    assert bases.worst[1] < ROUNDING
    np.testing.assert_allclose(bases.strengths(statistics, path), [2, 2, 1], rtol=0, atol=ROUNDING)


def test_every_path_of_the_routing_task_is_diagonal_in_the_same_bases():
    problem = nr.tasks.routing(4, 2).problem("shared", hidden=5)
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    assert bases.worst[1] < ROUNDING
    # P1 Fig 4: the singular values of the four items, averaged over 8 routes of 4 items each
    wanted = np.sqrt([185, 41, 9, 9]) / 32
    for path in statistics.open_paths:
        np.testing.assert_allclose(bases.strengths(statistics, path), wanted, rtol=0, atol=ROUNDING)
        np.testing.assert_allclose(bases.inputs[path.source].T @ bases.inputs[path.source], np.eye(4), atol=ROUNDING)


def test_bases_of_images_that_are_fewer_than_pixels_are_found_and_orthogonal():
    """Nothing is left to explain in many directions, but rounding: it must not be taken for modes without end."""
    digits = load_digits()
    images, classes = digits.data[:20] / 16, np.eye(10)[digits.target[:20]]
    problem = nr.tasks.routing(3, 2, inputs=images, targets=classes).problem("shared", hidden=2)
    for basis in shared_bases(problem.statistics()).inputs.values():
        products = basis.T @ basis
        np.testing.assert_allclose(products, np.diag(np.diag(products)), rtol=0, atol=ROUNDING)


def test_statistics_without_shared_bases_have_a_residual():
    """Input variances that are not diagonal in the singular vectors of the map."""
    random = np.random.default_rng(3)
    architecture = nr.Architecture({"x": 3, "h": 3, "y": 3}, [("x", "h"), ("h", "y")])
    task = nr.Task({"x": random.normal(size=(9, 3))}, {"y": random.normal(size=(9, 3))})
    statistic, residual = shared_bases(nr.Problem(architecture, task).statistics()).worst
    assert residual > 0.01
    assert "x->h . h->y" in statistic


@pytest.mark.parametrize("seed", range(3))
def test_the_residual_is_the_relative_size_of_what_is_off_the_diagonal(seed):
    problem = nr.tasks.random_problem(seed, sizes=(2, 3))
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    for path in statistics.open_paths:
        sigma = statistics.input_output(path)
        strengths = bases.strengths(statistics, path)
        rebuilt = (bases.outputs[path.target] * strengths) @ bases.inputs[path.source].T
        found = np.linalg.norm(sigma - rebuilt) / np.linalg.norm(sigma)  # the same sums in another order
        assert bases.residuals[f"Sigma_yx({path})"] == pytest.approx(found, abs=1e-12)
