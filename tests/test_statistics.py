import numpy as np
import pytest
from hypothesis import given, settings
from sklearn.datasets import load_digits

import neuralrace as nr
import oracle
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.statistics import PathStatistics, shared_bases, untied
from random_problems import random_problem
from theory_problems import chain

ROUNDING = 1e-12  # averages over a few dozen examples, in another order
GAPS = 1e-10  # singular vectors of statistics of size one, whose gaps are at least a tenth


def average(problem, gate, left, right):
    """<g a b^T> example by example."""
    return sum(
        weight * g * np.outer(a, b) for weight, g, a, b in zip(problem.task.weights, gate, left, right, strict=True)
    )


@given(oracle.seeds)
@settings(max_examples=20)
def test_every_statistic_is_an_average_over_examples(seed):
    problem = random_problem(seed)
    statistics = problem.statistics()
    paths = problem.architecture.paths()[:12]
    gates = {path: oracle.path_gate(problem, path) for path in paths}
    inputs, targets = problem.task.inputs, problem.task.targets
    scale = max(1.0, *(np.abs(g).max() for g in gates.values())) ** 2
    for path in paths:
        wanted = average(problem, gates[path], targets[path.target], inputs[path.source])
        np.testing.assert_allclose(statistics.input_output(path), wanted, rtol=0, atol=ROUNDING * scale)
        for other in paths:
            wanted = average(problem, gates[other] * gates[path], inputs[other.source], inputs[path.source])
            np.testing.assert_allclose(statistics.input(other, path), wanted, rtol=0, atol=ROUNDING * scale)


@given(oracle.seeds)
@settings(max_examples=20)
def test_partners_are_the_paths_that_share_an_example(seed):
    problem = random_problem(seed, gates="binary")
    statistics = problem.statistics()
    paths = problem.architecture.paths()

    def carries(path):
        return (oracle.path_gate(problem, path) != 0) & problem.task.inputs[path.source].any(axis=1)

    reached = {path: carries(path) for path in paths}
    assert set(statistics.open_paths) == {path for path in paths if reached[path].any()}
    for path in paths[:8]:
        shared = {p for p in paths if p.target == path.target and (reached[p] & reached[path]).any()}
        assert set(statistics.partners(path)) == shared


def test_large_routing_stores_no_pairs():
    """2,500 paths have six million pairs; each path has one partner, itself."""
    problem = nr.tasks.routing(50, 1).problem("shared", hidden=2)
    statistics = problem.statistics()
    assert problem.architecture.count_paths() == 2500
    assert len(statistics.open_paths) == 50
    path = next(iter(statistics.open_paths))
    assert statistics.partners(path) == (path,)
    closed = next(p for p in problem.architecture.paths() if p not in statistics.open_paths)
    assert statistics.partners(closed) == ()
    assert not statistics.input_output(closed).any()
    assert not statistics.input(closed, path).any()


def test_too_many_open_paths_and_paths_of_another_network():
    problem = nr.tasks.xor().problem("linear", hidden=2)
    limited = PathStatistics.of_examples(problem.architecture, problem.task, problem.gates, limit=1)
    with pytest.raises(RangeError, match=r"at most 1 open paths .*\(2 paths in all\): raise the limit"):
        _ = limited.open_paths
    stranger = nr.Path((("x", "elsewhere"),), "x", "y")
    with pytest.raises(UnknownNameError, match="a path of this architecture is required; x->elsewhere is not one"):
        problem.statistics().input_output(stranger)


def test_statistics_hold_moments_and_no_example():
    """23 examples in three configurations: no array has an axis of 23."""
    random = np.random.default_rng(0)
    architecture = nr.Architecture({"x": 3, "h": 2, "g": 2, "y": 4}, [("x", "h"), ("x", "g"), ("h", "y"), ("g", "y")])
    task = nr.Task({"x": random.normal(size=(23, 3))}, {"y": random.normal(size=(23, 4))})
    gates = nr.Gates(nodes={"h": np.arange(23) % 3 != 0, "g": np.arange(23) % 3 != 1})
    statistics = nr.Problem(architecture, task, gates).statistics()
    arrays = [
        *statistics.edge_gates.values(),
        *(part for here in statistics.moments for part in (here.inputs, *here.outputs.values())),
    ]
    assert {array.shape for array in arrays} == {(3,), (3, 3), (4, 3)}


def strengths_of(statistics, bases, path):
    """S(p), the diagonal of U^T Sigma_yx(p) V."""
    return np.diagonal(bases.outputs[path.target].T @ statistics.input_output(path) @ bases.inputs[path.source])


def test_known_modes_are_found_strongest_first():
    problem = chain(strengths=(3.0, 2.0, 1.0), variances=np.array([1.0, 1.5, 0.7]), outputs=4)
    statistics = problem.statistics()
    bases, (path,) = shared_bases(statistics), problem.architecture.paths()
    assert bases.worst[1] < GAPS
    np.testing.assert_allclose(strengths_of(statistics, bases, path), [3, 2, 1], rtol=0, atol=GAPS)
    variances = np.diagonal(bases.inputs["x"].T @ statistics.input(path, path) @ bases.inputs["x"])
    np.testing.assert_allclose(variances, [1, 1.5, 0.7], rtol=0, atol=GAPS)
    left, _, right = np.linalg.svd(problem.task.targets["y"].T @ problem.task.inputs["x"])
    for found, wanted in ((bases.inputs["x"], right.T), (bases.outputs["y"], left[:, :3])):
        np.testing.assert_allclose(np.abs(found.T @ wanted), np.eye(3), rtol=0, atol=GAPS)


@pytest.mark.parametrize("domains", [4, 12])  # of the larger ring the ends are twelve paths apart
def test_every_path_of_the_routing_task_is_diagonal_in_the_same_bases(domains):
    statistics = nr.tasks.routing(domains, 2).problem("shared", hidden=5).statistics()
    bases = shared_bases(statistics)
    assert bases.worst[1] < GAPS
    # P1 Fig 4: the singular values of the four items, averaged over the routes of 4 items each
    wanted = np.sqrt([185, 41, 9, 9]) / (8 * domains)
    for path in statistics.open_paths:
        np.testing.assert_allclose(strengths_of(statistics, bases, path), wanted, rtol=0, atol=GAPS)
        np.testing.assert_allclose(bases.inputs[path.source].T @ bases.inputs[path.source], np.eye(4), atol=GAPS)


def test_bases_of_images_that_are_fewer_than_pixels_are_found_and_orthogonal():
    """Nothing is left to explain in many directions, but rounding: it must not be taken for modes without end."""
    digits = load_digits()
    images, classes = digits.data[:20] / 16, np.eye(10)[digits.target[:20]]
    chain = nr.Architecture({"x": 64, "h": 2, "y": 10}, [("x", "h"), ("h", "y")])
    problem = nr.Problem(chain, nr.Task({"x": images}, {"y": classes}))
    for basis in shared_bases(problem.statistics()).inputs.values():
        products = basis.T @ basis
        np.testing.assert_allclose(products, np.diag(np.diag(products)), rtol=0, atol=GAPS)


@pytest.mark.parametrize("seed", range(3))
def test_the_residual_is_the_relative_size_of_what_is_off_the_diagonal(seed):
    problem = random_problem(seed, sizes=(2, 3))
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    assert bases.worst[1] > 0.01
    for path in statistics.open_paths:
        sigma = statistics.input_output(path)
        strengths = strengths_of(statistics, bases, path)
        rebuilt = (bases.outputs[path.target] * strengths) @ bases.inputs[path.source].T
        found = np.linalg.norm(sigma - rebuilt) / np.linalg.norm(sigma)  # the same sums in another order
        assert bases.residuals[f"Sigma_yx({path})"] == pytest.approx(found, abs=1e-12)


def test_modes_of_equal_strength_do_not_depend_on_the_library_that_found_them() -> None:
    """Any basis of a shared subspace is turned into the same one, up to signs."""
    random = np.random.default_rng(0)
    vectors = np.linalg.qr(random.normal(size=(6, 4)))[0]
    values = np.array([2.0, 1.0, 1.0, 1.0])
    turned = vectors.copy()
    turned[:, 1:] = vectors[:, 1:] @ np.linalg.qr(random.normal(size=(3, 3)))[0]
    first, second = (each @ untied(values, each) for each in (vectors, turned))
    np.testing.assert_allclose(np.abs(first), np.abs(second), atol=1e-12)
    np.testing.assert_allclose(first @ first.T, vectors @ vectors.T, atol=1e-12)
