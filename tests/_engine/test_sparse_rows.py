import jax
import numpy as np
import pytest
from scipy import sparse

from neuralrace._engine import plan
from neuralrace._engine.network import mapped
from neuralrace.arrays import float64

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
