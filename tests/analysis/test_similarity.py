"""Alignment with the modes of a matrix, against explicit sums over its singular vectors."""

import numpy as np
import pytest

from neuralrace.analysis import alignment


def test_of_modes_that_differ() -> None:
    generator = np.random.default_rng(0)
    wanted, outputs = generator.normal(size=(4, 3)), generator.normal(size=(2, 5, 4, 3))
    left, _, right = np.linalg.svd(wanted, full_matrices=False)
    along = sum(np.einsum("i,...ij,j->...", left[:, m], outputs, right[m]) ** 2 for m in range(3))
    np.testing.assert_allclose(alignment(outputs, wanted), along / np.sum(outputs**2, axis=(-2, -1)), rtol=1e-12)


def test_what_is_wanted_is_aligned_with_itself_whatever_the_strengths() -> None:
    generator = np.random.default_rng(1)
    left, right = (np.linalg.qr(generator.normal(size=(5, 3)))[0] for _ in range(2))
    wanted = left @ np.diag([3.0, 2.0, 1.0]) @ right.T
    assert alignment(left @ np.diag([1.0, -7.0, 0.5]) @ right.T, wanted) == pytest.approx(1.0)
    assert alignment(left[:, [1, 2, 0]] @ right.T, wanted) == pytest.approx(0.0, abs=1e-25)  # modes that are mixed up
    assert alignment(np.zeros((2, 5, 5)), wanted).tolist() == [0.0, 0.0]


def test_equal_modes_may_turn_into_each_other() -> None:
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(2, 2)))[0]
    outputs = np.zeros((3, 3))
    outputs[:2, :2] = turn
    assert alignment(outputs, np.diag([2.0, 2.0, 1.0])) == pytest.approx(1.0)
    assert alignment(outputs, np.diag([2.0, 1.0, 1.0])) < 0.99
