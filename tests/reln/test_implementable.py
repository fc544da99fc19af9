"""Gate patterns of one neuron: witnesses and certificates hold, and the cells are all there."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralrace import reln, tasks
from neuralrace.errors import GateError, RangeError

SOLVER = 1e-7  # what HiGHS promises for a constraint


def second_kind(n, k):
    """Stirling numbers: the partitions of n things into k classes."""
    return sum((-1) ** j * math.comb(k, j) * (k - j) ** n for j in range(k + 1)) // math.factorial(k)


def nested(items, contexts):
    """0/1 tables without a checkerboard (poly-Bernoulli numbers): what a_item + b_context > 0 can be."""
    return sum(
        math.factorial(j) ** 2 * second_kind(items + 1, j + 1) * second_kind(contexts + 1, j + 1)
        for j in range(min(items, contexts) + 1)
    )


def table(items, contexts):
    return tasks.contextual(contexts, items=items).task.inputs["x"]


@given(seed=st.integers(0, 10_000), bias=st.booleans())
def test_witness_or_certificate(seed, bias):
    random = np.random.default_rng(seed)
    inputs = random.integers(-2, 3, size=(6, 3)).astype(float)
    pattern = random.integers(0, 2, size=6)
    found = reln.implementable(pattern, inputs, bias)
    rows = np.hstack([inputs, np.ones((6, 1))]) if bias else inputs
    on = pattern == 1
    if found:
        value = rows @ found.weights
        assert (value[on] >= 1 - SOLVER).all()
        assert (value[~on] <= SOLVER).all()
        assert found.certificate is None
    else:
        multipliers = found.certificate
        assert (multipliers >= 0).all()
        assert multipliers[on].sum() == pytest.approx(1, abs=SOLVER)
        np.testing.assert_allclose(multipliers[on] @ rows[on], multipliers[~on] @ rows[~on], atol=10 * SOLVER)
        assert found.weights is None


@pytest.mark.parametrize(("items", "contexts"), [(2, 2), (4, 2), (2, 3)])
def test_contextual_inputs_allow_every_table_without_a_checkerboard(items, contexts):
    patterns = reln.implementable_patterns(table(items, contexts), strict=True)
    assert len(patterns) == nested(items, contexts)
    assert len(np.unique(patterns, axis=0)) == len(patterns)


def test_cells_are_those_that_trying_everything_finds():
    inputs = np.array([[1.0, 0], [0, 1], [-1, -1], [2, 2], [-1, 0]])  # some parallel, some opposite
    for strict in (False, True):
        tried = [
            pattern
            for pattern in itertools.product((False, True), repeat=5)
            if (found := reln.implementable(pattern, inputs)) and (found.strict or not strict)
        ]
        assert reln.implementable_patterns(inputs, strict=strict).tolist() == [list(p) for p in tried]


def test_random_neurons_have_only_patterns_that_are_listed():
    inputs = np.random.default_rng(2).normal(size=(6, 3))
    listed = {tuple(pattern) for pattern in reln.implementable_patterns(inputs, strict=True)}
    drawn = np.random.default_rng(3).normal(size=(3000, 3)) @ inputs.T > 0
    assert {tuple(pattern) for pattern in drawn} <= listed
    # Cover's count of the cells of 6 planes in general position through the origin in 3 dimensions
    assert len(listed) == 2 * sum(math.comb(5, k) for k in range(3))


def test_what_does_not_fit_is_named():
    with pytest.raises(GateError, match=r"0 and 1 only; it holds 0\.5"):
        reln.implementable([0.5, 1], np.eye(2))
    with pytest.raises(RangeError, match="at most 100,000 patterns are listed"):
        reln.implementable_patterns(np.eye(17))
