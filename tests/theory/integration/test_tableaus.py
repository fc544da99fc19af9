"""The coefficients of the stabilized methods: order conditions and stability."""

import numpy as np
import pytest

from neuralrace.theory.integration import tableaus


def grown(matrix, z):
    """Every stage of the method on dy/dt = z y, from 1."""
    stages = np.ones((len(matrix), len(z)))
    for j in range(1, len(stages)):
        stages[j] = 1 + z * (matrix[j, :j] @ stages[:j])
    return stages


@pytest.mark.parametrize("stages", tableaus.STAGES)
def test_the_stabilized_methods_are_of_fourth_order_and_stable(stages):
    method = tableaus.make_method(stages)
    matrix = method.matrix
    # sums of a hundred terms of order one
    np.testing.assert_allclose(tableaus.order_conditions(matrix), tableaus.EXACT, atol=1e-13)
    z = np.linspace(-method.extent, 0.0, 4001)
    inner = grown(matrix, z)
    assert np.abs(inner[-1][z < -tableaus.NEAR]).max() < 0.96  # what is fast dies out
    assert np.abs(inner).max() < 2  # and no stage on the way is much larger than the start
    small = np.array([-0.01, 0.01])
    near = grown(matrix, small)
    assert np.abs(near[-1] - np.exp(small)).max() < 0.01**5 / 120
    np.testing.assert_allclose(small * (method.error @ near[-5:]), small**4 / 384, rtol=0.05)  # the next order is 1 %
