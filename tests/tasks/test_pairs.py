import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from neuralrace import tasks
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.tasks.pairs import PAIRS, trained_pairs

REGULAR = [name for name in PAIRS if name != "hubs"]


def parts(pattern):
    """How many connected pieces the bipartite graph of the pairs has."""
    return connected_components(csr_array(np.block([[0 * pattern, pattern], [0 * pattern.T, 0 * pattern]])))[0]


@pytest.mark.parametrize(("domains", "trained"), [(1, 1), (2, 1), (5, 1), (5, 2), (6, 5), (6, 6), (7, 4)])
def test_neighbors_by_their_definition(domains, trained):
    expected = np.zeros((domains, domains), dtype=bool)
    for i in range(domains):
        for j in range(-((trained - 1) // 2), trained // 2 + 1):
            expected[i, (i + j) % domains] = True
    np.testing.assert_array_equal(trained_pairs("neighbors", domains, trained), expected)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize(("domains", "trained"), [(1, 1), (2, 2), (9, 1), (11, 2), (20, 17)])
def test_every_pattern_has_k_pairs_for_each_domain_on_average(name, domains, trained):
    for key in range(3):
        pattern = trained_pairs(name, domains, trained, key)
        assert pattern.shape == (domains, domains)
        assert pattern.dtype == bool
        assert pattern.sum() == domains * trained
        assert pattern.any(axis=0).all()
        assert pattern.any(axis=1).all()
        if name in REGULAR:
            np.testing.assert_array_equal(pattern.sum(axis=0), trained)
            np.testing.assert_array_equal(pattern.sum(axis=1), trained)
        if name in ("blocks", "hubs", "circulant") and trained > 1:
            assert parts(pattern) == 1
    if name == "hubs" and domains == 20:
        assert pattern.all(axis=0).any()
        assert pattern.all(axis=1).any()


@pytest.mark.parametrize("name", ["circulant", "regular", "blocks", "hubs"])
def test_the_key_decides(name):
    np.testing.assert_array_equal(trained_pairs(name, 12, 3, 4), trained_pairs(name, 12, 3, 4))
    assert (trained_pairs(name, 12, 3, 4) != trained_pairs(name, 12, 3, 5)).any()


@pytest.mark.parametrize("trained", [4, 8, 16])
def test_the_spectrum_of_a_circulant_is_known(trained):
    expected = np.sin(np.pi * trained / 40) / (trained * np.sin(np.pi / 40))
    found = np.linalg.svdvals(trained_pairs("circulant", 40, trained, 1).astype(float))
    np.testing.assert_allclose([found[0], found[1] / found[0]], [trained, expected], rtol=1e-12)


def test_random_regular_pairs_are_uniform():
    """Six domains, two pairs each: every pair is as likely as any other, and the graphs are not all one cycle.

    Of 300 draws a pair is in 100 on average, with a standard deviation of 8.2: within five of them.
    """
    patterns = [trained_pairs("regular", 6, 2, key) for key in range(300)]
    counts = np.sum(patterns, axis=0)
    assert abs(counts - 100).max() < 41
    # Of the 67950 such graphs 43200 are one cycle of twelve, 190.7 of 300 with a standard deviation of 8.3.
    assert abs(sum(parts(pattern) == 1 for pattern in patterns) - 190.7) < 41


def test_the_routing_task_takes_pairs_by_name():
    named = tasks.routing(6, 2, pairs="regular", key=3)
    shown = np.zeros((6, 6), dtype=bool)
    shown[named.groups["input domain"], named.groups["output domain"]] = True
    np.testing.assert_array_equal(shown, trained_pairs("regular", 6, 2, 3))
    assert tasks.routing(6, 2, "regular", 3, "all").groups["trained"].sum() == 4 * 12
    assert named.settings["pairs"] == "regular"


def test_mistakes_are_named():
    with pytest.raises(UnknownNameError, match="did you mean 'regular'"):
        trained_pairs("regulr", 4, 2)
    with pytest.raises(RangeError, match="at most the number of domains, 4; it was 5"):
        trained_pairs("hubs", 4, 5)
    with pytest.raises(RangeError, match="trained must be a whole number, at least 1"):
        trained_pairs("blocks", 4, 0)
