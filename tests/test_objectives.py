"""Every objective of the registry keeps what it says of itself."""

import jax
import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.objectives import NAMED, as_objective

RANDOM = np.random.default_rng(0)
CLASSES = np.eye(3)[[0, 2, 1, 1]]  # targets that suit every objective
OUTPUTS = RANDOM.standard_normal((4, 3))
WEIGHTS = np.array([0.4, 0.3, 0.2, 0.1])
NAMES = list(NAMED)


@pytest.mark.parametrize("name", NAMES)
@float64
def test_it_sees_second_moments_only_if_it_says_so(name):
    """Rows that are turned into each other have the same second moments."""
    objective = as_objective(name)
    assert objective.name == name
    turn = np.linalg.qr(RANDOM.standard_normal((4, 4)))[0]
    plain = objective.rows(jax.numpy.asarray(OUTPUTS), jax.numpy.asarray(CLASSES)).sum()
    turned = objective.rows(jax.numpy.asarray(turn @ OUTPUTS), jax.numpy.asarray(turn @ CLASSES)).sum()
    assert (abs(float(plain - turned)) < 1e-12) == objective.compresses
