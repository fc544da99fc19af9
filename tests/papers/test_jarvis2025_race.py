"""The patterns and gatings that are raced are all there are, each once."""

import itertools

import numpy as np
import pytest

from neuralrace import reln, tasks
from neuralrace.papers.jarvis2025.race import all_gatings, allowed, checkerboards, staircases
from neuralrace.tasks import NamedTask


def patterns_of(named: NamedTask) -> np.ndarray:
    patterns = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    return patterns[patterns.any(axis=1)]


def as_set(gating: np.ndarray) -> frozenset[tuple[bool, ...]]:
    return frozenset(tuple(row) for row in gating)


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (2, 3), (4, 2)])
def test_staircases_are_the_implementable_patterns(items: int, contexts: int) -> None:
    named = tasks.contextual(contexts, items=items)
    listed = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    assert as_set(staircases(items, contexts)) == as_set(listed)


def test_every_gating_is_raced_once_up_to_exchanges() -> None:
    named = tasks.contextual(2, items=2)
    patterns = patterns_of(named)
    grid = np.arange(4).reshape(2, 2)
    orders = [one.ravel() for one in (grid, grid[::-1], grid[:, ::-1], grid[::-1, ::-1])]
    raced = [{as_set(gating[:, order]) for order in orders} for gating in all_gatings(patterns, named, 3)]
    every = {as_set(np.array(rows)) for size in (1, 2, 3) for rows in itertools.combinations(patterns, size)}
    assert set().union(*raced) == every
    assert sum(map(len, raced)) == len(every)


def test_what_the_lemma_allows_and_what_its_proof_excludes() -> None:
    """All patterns of two items in two contexts, the first two examples being those of one context."""
    patterns = np.array(list(itertools.product((False, True), repeat=4)))
    words = np.array(["".join(str(int(bit)) for bit in row) for row in patterns])
    assert set(words[checkerboards(patterns, 2)]) == {"1001", "0110"}
    assert set(words[allowed(patterns, 2)]) == {"0000", "1100", "0011", "1111", "1000", "0100", "0010", "0001"}
    by_seed = patterns.reshape(4, 4, 4)
    assert np.array_equal(allowed(by_seed, 2), allowed(patterns, 2).reshape(4, 4))
