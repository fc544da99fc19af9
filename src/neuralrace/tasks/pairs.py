"""Which of the M x M pairs of an input and an output domain are trained: a graph, made by name from a key.

A pattern is a boolean matrix (input domains, output domains) with K M pairs. What the network makes of the others
is decided by its singular values; see docs/theory/pairs.md.
"""

import itertools
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from neuralrace.errors import RangeError, require_count, require_known

TRADES = 20  # trades of the random regular graph, per input domain


def neighbors(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """Input i with outputs (i + j) mod M, j from -floor((K-1)/2) to floor(K/2), as in P1 section 4."""
    place = np.arange(domains)
    return np.asarray((place - place[:, None] + (trained - 1) // 2) % domains < trained)


def circulant(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """The neighbors with the outputs in random order, as in P1 section 5; where j begins is lost in the order."""
    return neighbors(domains, trained, generator)[:, generator.permutation(domains)]


def regular(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """K pairs in every row and column, else at random.

    Two inputs trade at random the outputs that only one of them has. This walk on the graphs with given degrees has
    the uniform law as its limit.
    """
    pattern = neighbors(domains, trained, generator)
    for _ in range(TRADES * domains if domains > 1 else 0):
        one, other = generator.choice(domains, 2, replace=False)
        traded = np.flatnonzero(pattern[one] != pattern[other])
        pattern[one, traded] = generator.permutation(pattern[one, traded])
        pattern[other, traded] = ~pattern[one, traded]
    return pattern


def blocks(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """floor(M/K) blocks of nearly equal size with K pairs in every row and column, joined in a chain by exchanges.

    A block and the next exchange the outputs of one pair each, so all degrees stay K. For K of two or more the whole
    is connected: a regular bipartite graph has no bridge, so what is joined stays whole when it gives up a pair.
    Inputs and outputs are then put in random order.
    """
    pattern = np.zeros((domains, domains), dtype=bool)
    places = np.array_split(np.arange(domains), domains // trained)
    for place in places:
        pattern[np.ix_(place, place)] = neighbors(len(place), trained, generator)
    for before, after in itertools.pairwise(places):
        one, other = (_a_pair(pattern, place, generator) for place in (before, after))
        pattern[one], pattern[other] = False, False
        pattern[one[0], other[1]], pattern[other[0], one[1]] = True, True
    return pattern[generator.permutation(domains)][:, generator.permutation(domains)]


def _a_pair(pattern: np.ndarray, place: np.ndarray, generator: np.random.Generator) -> tuple[int, int]:
    pairs = np.argwhere(pattern[place])
    row, column = pairs[generator.integers(len(pairs))]
    return int(place[row]), int(column)


def hubs(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """A few input and as many output domains are in all their pairs, which makes half of all pairs; the rest random.

    h hubs on either side take 2 h M - h^2 pairs. There is at least one if K is two or more; K = 1 leaves room for
    none, and every input has one output of its own.
    """
    half = domains - np.sqrt(domains**2 - domains * trained / 2)
    count = max(int(half), min(1, trained - 1))
    if count == 0:
        return circulant(domains, trained, generator)
    pattern = np.zeros((domains, domains), dtype=bool)
    pattern[:count] = pattern[:, :count] = True
    left = np.flatnonzero(~pattern)
    pattern.flat[generator.choice(left, domains * trained - int(pattern.sum()), replace=False)] = True
    return pattern[generator.permutation(domains)][:, generator.permutation(domains)]


PAIRS: Mapping[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {
    "neighbors": neighbors,
    "circulant": circulant,
    "regular": regular,
    "blocks": blocks,
    "hubs": hubs,
}


def trained_pairs(pairs: str, domains: int, trained: int, key: int = 0) -> np.ndarray:
    """Which pairs are trained, as booleans; (input domains, output domains).

    pairs: one of the names in PAIRS. trained: K, the mean number of pairs of a domain. key: decides what is random.
    """
    require_known(pairs, PAIRS, f"there are no pairs {pairs!r}")
    require_count("domains", domains, most=100)
    if require_count("trained", trained) > domains:
        raise RangeError(f"trained must be at most the number of domains, {domains}; it was {trained}")
    return PAIRS[pairs](domains, trained, np.random.default_rng(require_count("key", key, least=0)))


class Spectrum(NamedTuple):
    """Singular values of a pattern of pairs, largest first, and how far the second is behind.

    ratios are zero where there is one domain, and equal where every domain is in as many pairs as any other.
    """

    values: np.ndarray  # g_1 >= g_2 >= ...
    ratio: float  # g_2 / g_1
    levelled: float  # the same of the pairs over the square roots of the numbers of pairs of their two domains


def spectrum(pairs: np.ndarray) -> Spectrum:
    """The singular values of the matrix of trained pairs: where every domain is in K of them, g_1 = K."""
    matrix = np.asarray(pairs, dtype=np.float64)
    if matrix.ndim != 2 or not matrix.any():
        raise RangeError(f"pairs must be a matrix with at least one trained pair; its shape was {matrix.shape}")
    values = np.linalg.svd(matrix, compute_uv=False)
    rows, columns = (np.maximum(matrix.sum(axis=axis), 1.0) for axis in (1, 0))  # one in no pair has no entries
    level = np.linalg.svd(matrix / np.sqrt(np.outer(rows, columns)), compute_uv=False)
    if len(values) < 2:
        return Spectrum(values, 0.0, 0.0)
    return Spectrum(values, float(values[1] / values[0]), float(level[1] / level[0]))
