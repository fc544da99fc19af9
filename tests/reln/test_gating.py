"""Modules by what a replaced gate would change: against every way to put a few neurons into two modules."""

import itertools

import numpy as np
import pytest

from neuralrace.reln.gating import find_gating
from neuralrace.reln.watched import Stretch


def stretch(carried, passed):
    return Stretch(0, 1, np.asarray(carried)[None], np.asarray(passed)[None])


def changed(carried, passed, groups):
    """The least sum of |carried| (on - g)^2 when the neurons of a group share a gate for each example."""
    total = 0.0
    for members in groups:
        whole, part = carried[list(members)].sum(axis=0), passed[list(members)].sum(axis=0)
        gate = np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)
        total += float(np.sum(part - 2 * part * gate + whole * gate**2))
    return total


@pytest.mark.parametrize("seed", range(5))
def test_two_modules_are_nearly_the_best_of_all(seed):
    """Descents from several starts need not find the best: a twentieth is allowed."""
    random = np.random.default_rng(seed)
    carried = random.exponential(size=(7, 5))
    passed = carried * random.integers(0, 2, size=(7, 5))
    passed[:, 0] = carried[:, 0]  # nobody is silent
    found = find_gating(stretch(carried, passed), 2)
    best = min(
        changed(carried, passed, (set(chosen), set(range(7)) - set(chosen)))
        for size in range(1, 7)
        for chosen in itertools.combinations(range(7), size)
    )
    mine = [np.flatnonzero(found.members[0] == module) for module in range(len(found))]
    assert changed(carried, passed, mine) <= 1.05 * best


def test_equal_patterns_are_one_module_and_silent_neurons_none():
    on = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0]], dtype=float)
    carried = np.array([[1.0], [2.0], [5.0], [3.0]]) * np.ones(4)
    found = find_gating(stretch(carried, carried * on), 4)
    assert found.members.tolist() == [[1, 1, 0, -1]]  # the stronger module first
    np.testing.assert_array_equal(found.gates, [[0, 0, 1, 1], [1, 1, 0, 0]])
    np.testing.assert_array_equal(found.consistency, [1, 1])
    np.testing.assert_allclose(found.share, [20 / 32, 12 / 32])


def test_where_all_are_silent_there_are_no_modules():
    found = find_gating(stretch(np.ones((3, 2)), np.zeros((3, 2))), 2)
    assert len(found) == 0
    assert (found.members == -1).all()
    assert found.patterns.shape == (0, 2)


def test_a_neuron_counts_by_what_it_carries():
    """A neuron at its threshold carries nothing there: on or off for that example, it is in the module of its like."""
    on = np.array([[1, 0], [1, 1]], dtype=float)
    carried = np.array([[1.0, 1.0], [1.0, 1e-8]])
    found = find_gating(stretch(carried, carried * on), 1)
    assert found.gates[0] == pytest.approx([1, 0], abs=1e-7)


def test_a_module_is_closed_to_examples_at_its_threshold():
    """Whichever way the sign of next to nothing falls."""
    on = np.array([[1, 0, 1], [0, 1, 1]], dtype=float)
    carried = np.array([[1.0, 1.0, 1e-20], [1.0, 1.0, 1.0]])
    found = find_gating(stretch(carried, carried * on), 2)
    assert sorted(found.gates.tolist()) == [[0, 1, 1], [1, 0, 0]]
