"""In how many groups a neuron is active, counted by hand and at random."""

import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.analysis.selectivity import chance_by_groups, concentration, groups_active, share_by_groups
from neuralrace.errors import RangeError

LABELS = np.array([0, 0, 1, 1, 2, 2])
PATTERNS = np.array([[1, 1, 1, 1, 1, 1], [1, 1, 0, 1, 0, 0], [0, 0, 1, 1, 1, 1], [0] * 6], dtype=bool)


def test_counts():
    assert groups_active(PATTERNS, LABELS).tolist() == [3, 1, 2, 0]
    assert share_by_groups(PATTERNS, LABELS).tolist() == [0.25] * 4
    assert share_by_groups(PATTERNS, LABELS, np.array([1, 0, 3, 0])).tolist() == [0, 0, 0.75, 0.25]
    with pytest.raises(RangeError, match="one entry per example, 6"):
        groups_active(PATTERNS, LABELS[1:])


def test_on_for_any_example_and_share_of_activity():
    assert groups_active(PATTERNS, LABELS, more_than=0).tolist() == [3, 2, 2, 0]
    activity = np.array([[1, 1, 1, 1, 1, 1], [6, 2, 0, 1, 0, 1], [0, 0, 0, 0, 0, 5], [0] * 6], dtype=float)
    assert concentration(activity, LABELS).tolist() == pytest.approx([1 / 3, 0.8, 1, 0])


def test_chance_treats_on_and_off_alike():
    named = tasks.contextual(3)
    share = chance_by_groups(named.task.inputs["x"], named.groups["context"])
    assert share.sum() == pytest.approx(1)
    # with eight items half of them may be on, which counts as off: so low counts are the likelier, by that much
    assert share[0] > share[3] > 0.1
    assert np.array_equal(share, chance_by_groups(named.task.inputs["x"], named.groups["context"]))
