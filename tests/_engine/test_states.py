import numpy as np
from scipy import sparse

import neuralrace as nr
from neuralrace._engine.example_rows import carrying_gates
from neuralrace._engine.states import node_states, row_basis

ROUNDING = 1e-12  # a singular value decomposition of a dozen rows


def dependent_rows():
    """Two parts that share no column, one of rank two with four rows, one of independent rows, and a row alone."""
    random = np.random.default_rng(0)
    first = random.normal(size=(4, 2)) @ random.normal(size=(2, 3))
    second = random.normal(size=(2, 4))
    whole = np.zeros((7, 8))
    whole[:4, :3], whole[4:6, 3:7], whole[6, 7] = first, second, 2.0
    return sparse.csr_matrix(whole[np.array([6, 0, 4, 1, 2, 5, 3])])


def test_a_basis_spans_the_rows_with_no_more_than_their_rank():
    """With weights the expansion is orthonormal where rows were reduced."""
    rows, mass = dependent_rows(), np.random.default_rng(1).uniform(0.5, 2, size=7)
    for weights in (None, mass):
        expansion, basis = row_basis(rows, weights)
        assert basis.shape[0] == 2 + 2 + 1
        np.testing.assert_allclose((expansion @ basis).toarray(), rows.toarray(), rtol=0, atol=ROUNDING)
    gram = (expansion.T @ sparse.diags(mass) @ expansion).toarray()
    np.testing.assert_allclose(gram - np.diag(np.diagonal(gram)), 0, rtol=0, atol=ROUNDING)
    np.testing.assert_allclose(np.diagonal(gram)[-2:], 1, rtol=0, atol=ROUNDING)


def test_a_node_costs_its_rank_however_many_examples_there_are():
    random = np.random.default_rng(2)
    architecture = nr.Architecture({"x": 3, "h": 50, "y": 2}, [("x", "h"), ("h", "y")])
    task = nr.Task({"x": random.normal(size=(400, 3))}, {"y": random.normal(size=(400, 2))})
    gates = nr.Gates({"h": random.integers(2, size=400)})
    carrying = carrying_gates(architecture, task, gates)
    found = node_states(architecture, task, carrying, reduce_outputs=True)
    assert [found[node].rows for node in ("x", "h", "y")] == [3, 3, 3]
    silent = gates.nodes["h"] == 0
    np.testing.assert_array_equal(found["h"].state < 0, silent)
    assert found["h"].per_example().shape == (400, 3)
    assert not found["h"].per_example()[np.flatnonzero(silent)].nnz
