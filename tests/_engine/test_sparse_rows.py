import jax
import numpy as np
import pytest
from scipy import sparse

from neuralrace._engine import plan
from neuralrace._engine.network import mapped
from neuralrace.arrays import float64


def matrix(kind):
    random = np.random.default_rng(0)
    if kind == "identity":
        return sparse.identity(6, format="csr")
    if kind == "selection":
        return sparse.csr_matrix((np.ones(4), ([0, 1, 2, 3], [5, 0, 5, 2])), shape=(4, 6))
    if kind == "scaled selection":
        return sparse.csr_matrix(([2.0, -1.0, 0.5], ([0, 1, 3], [5, 0, 2])), shape=(4, 6))
    if kind == "empty":
        return sparse.csr_matrix((4, 6))
    if kind == "uneven":  # one long row among short ones, so that padding would waste
        rows = np.concatenate([np.zeros(30, int), np.arange(1, 31)])
        return sparse.csr_matrix((random.normal(size=60), (rows, random.integers(0, 31, 60))), shape=(31, 31))
    return sparse.random(9, 7, density=0.2, random_state=1, format="csr")


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("kind", ["identity", "selection", "scaled selection", "empty", "uneven", "sparse"])
def test_every_way_of_applying_is_the_product(monkeypatch, kind, dense):
    if not dense:
        monkeypatch.setattr(plan, "DENSE_ENTRIES", 0)
        monkeypatch.setattr(plan, "DENSE_FRACTION", 2.0)
    map_rows = matrix(kind)
    random = np.random.default_rng(1)
    x, cotangent = random.normal(size=(map_rows.shape[1], 3)), random.normal(size=(map_rows.shape[0], 3))

    @float64
    @jax.jit
    def both(x, cotangent):
        value, back = jax.vjp(lambda rows: mapped(plan.constant_matrix(map_rows), rows), x)
        return value, back(cotangent)[0]

    value, slope = both(x, cotangent)
    # sums of at most thirty products
    np.testing.assert_allclose(value, map_rows @ x, rtol=0, atol=1e-13)
    np.testing.assert_allclose(slope, map_rows.T @ cotangent, rtol=0, atol=1e-13)
