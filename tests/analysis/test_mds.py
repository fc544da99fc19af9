"""Classical scaling keeps distances, fixes signs, and turns each moment onto the next."""

import numpy as np
import pytest

from neuralrace.analysis.mds import aligned_mds, mds
from neuralrace.errors import RangeError

ROUNDING = 1e-10


def distances(points):
    return np.linalg.norm(points[:, None] - points[None], axis=-1)


def test_full_rank_keeps_every_distance():
    activity = np.random.default_rng(0).normal(size=(6, 9))
    found = mds(activity, dimensions=5)
    np.testing.assert_allclose(distances(found.points), distances(activity), atol=ROUNDING)
    assert float(found.explained) == pytest.approx(1)


def test_a_rotated_and_moved_activity_gives_the_same_picture():
    random = np.random.default_rng(1)
    activity = random.normal(size=(7, 4))
    turn = np.linalg.qr(random.normal(size=(4, 4)))[0]
    np.testing.assert_allclose(mds(activity @ turn + 3).points, mds(activity).points, atol=ROUNDING)


def test_moments_are_turned_onto_the_next():
    random = np.random.default_rng(2)
    flat = random.normal(size=(8, 2)) * [3, 1]
    quarter = np.array([[0.0, -1], [1, 0]])
    found = aligned_mds(np.array([flat @ quarter, -flat, flat]))
    for moment in found.points:
        np.testing.assert_allclose(moment, mds(flat).points, atol=ROUNDING)


def test_silence_and_single_examples():
    assert not mds(np.zeros((3, 2))).points.any()
    with pytest.raises(RangeError, match="at least two examples"):
        mds(np.zeros((1, 2)))
