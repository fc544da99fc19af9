"""The patterns that are counted and ranked are all there are, each once."""

import itertools

import numpy as np
import pytest

from neuralrace import reln, tasks
from neuralrace.papers.jarvis2025.race import by_context, checkerboards, staircases


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (2, 3), (4, 2)])
def test_staircases_are_the_implementable_patterns(items: int, contexts: int) -> None:
    named = tasks.contextual(contexts, items=items)
    listed = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    found = staircases(items, contexts)
    assert len(found) == len(listed)
    assert {tuple(row) for row in found} == {tuple(row) for row in listed}


def test_what_the_lemma_allows_and_what_its_proof_excludes() -> None:
    """All patterns of two items in two contexts, the first two examples being those of one context."""
    patterns = np.array(list(itertools.product((False, True), repeat=4)))
    words = np.array(["".join(str(int(bit)) for bit in row) for row in patterns])
    assert set(words[checkerboards(patterns, 2)]) == {"1001", "0110"}
    assert set(words[by_context(patterns, 2)]) == {"0000", "1100", "0011", "1111"}
