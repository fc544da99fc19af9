import jax
import numpy as np
import pytest
from scipy import sparse

import neuralrace as nr
from neuralrace._engine import plan
from neuralrace._engine.network import mapped
from neuralrace._engine.plan import make_network
from neuralrace.arrays import float64


def rows_multiplied(network):
    """How many rows each edge multiplies, padding among them."""
    count, rows_of = {}, dict(network.blocks)
    for group in network.groups:
        gathered = rows_of.get(group.source) if group.gather is None else group.gather.shape[0]  # None: all rows
        rows = gathered if group.constant is None else group.constant.shape[1]
        each = rows if group.constant is not None else rows // len(group.edges)
        count |= dict.fromkeys(group.edges, each)
    return count


def test_edges_of_one_shape_and_role_are_one_product():
    problem = nr.tasks.routing(12, 3).problem("shared", hidden=4)
    network = make_network(problem.architecture, problem.task, problem.gates)
    assert sorted(len(group.edges) for group in network.groups) == [1, 12, 12]
    # each multiplies only the rows that it is open for
    count = rows_multiplied(network)
    assert len(problem.task) == 12 * 3 * 4
    # an encoder sees the four items of its domain; a decoder what three encoders sent, never all twelve
    assert {count[edge] for edge in problem.architecture.edges if edge[1] == "h1"} == {4}
    assert {count[edge] for edge in problem.architecture.edges if edge[0] == "h2"} == {12}


def test_edges_that_are_always_closed_are_idle():
    problem = nr.tasks.routing(6, 1).problem("P=1", hidden=2)
    network = make_network(problem.architecture, problem.task, problem.gates)
    open_edges = {edge for group in network.groups for edge in group.edges}
    assert open_edges.isdisjoint(network.idle)
    assert open_edges | set(network.idle) == set(problem.architecture.edges)
    # one hidden matrix per pair of domains, of which six pairs are trained
    assert len(open_edges) == 3 * 6


MATRICES = {
    "identity": sparse.identity(6, format="csr"),
    "selection": sparse.csr_matrix((np.ones(4), ([0, 1, 2, 3], [5, 0, 5, 2])), shape=(4, 6)),
    "empty": sparse.csr_matrix((4, 6)),
    "sums": sparse.random(9, 7, density=0.2, random_state=1, format="csr"),
}


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kind", MATRICES)
def test_every_way_of_applying_is_the_product(monkeypatch, kind, dense):
    if not dense:
        monkeypatch.setattr(plan, "DENSE_ENTRIES", 0)
        monkeypatch.setattr(plan, "DENSE_FRACTION", 20.0)
    matrix, random = MATRICES[kind], np.random.default_rng(1)
    x, cotangent = random.normal(size=(matrix.shape[1], 3)), random.normal(size=(matrix.shape[0], 3))

    @float64
    @jax.jit
    def both(x, cotangent):
        value, back = jax.vjp(lambda rows: mapped(plan.constant_matrix(matrix), rows), x)
        return value, back(cotangent)[0]

    value, slope = both(x, cotangent)
    # sums of a few products
    np.testing.assert_allclose(value, matrix @ x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope, matrix.T @ cotangent, rtol=0, atol=1e-13)
