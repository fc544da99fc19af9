"""Which of the M x M pairs of an input and an output domain are trained: a graph, made by name from a seed.

A pattern is a boolean matrix (input domains, output domains) with K M pairs. Its singular values decide what the
network makes of the untrained pairs; see docs/theory/pairs.md.
"""

import itertools

import numpy as np

from neuralrace.errors import RangeError, require_count, require_known


def neighbors(domains: int, trained: int, random: np.random.Generator) -> np.ndarray:
    """Pair input i with outputs (i + j) mod M, j from -floor((K-1)/2) to floor(K/2), as in P1 section 4."""
    place = np.arange(domains)
    return np.asarray((place - place[:, None] + (trained - 1) // 2) % domains < trained)


def circulant(domains: int, trained: int, random: np.random.Generator) -> np.ndarray:
    """Shuffle the outputs of the neighbors, as in P1 section 5."""
    return neighbors(domains, trained, random)[:, random.permutation(domains)]


def regular(domains: int, trained: int, random: np.random.Generator) -> np.ndarray:
    """Draw K pairs in every row and column, otherwise uniformly.

    Two inputs trade at random the outputs that only one of them has; the limit of this walk on the graphs with given
    degrees is uniform.
    """
    pattern = neighbors(domains, trained, random)
    for _ in range(20 * domains if domains > 1 else 0):
        one, other = random.choice(domains, 2, replace=False)
        traded = np.flatnonzero(pattern[one] != pattern[other])
        pattern[one, traded] = random.permutation(pattern[one, traded])
        pattern[other, traded] = ~pattern[one, traded]
    return pattern


def blocks(domains: int, trained: int, random: np.random.Generator) -> np.ndarray:
    """Join floor(M/K) blocks of nearly equal size in a chain, with K pairs in every row and column, and shuffle.

    A block and the next exchange the outputs of one pair each, so all degrees stay K. For K of two or more the whole
    is connected: a regular bipartite graph has no bridge, so a block stays connected when it gives up a pair.
    """
    pattern = np.zeros((domains, domains), dtype=bool)
    places = np.array_split(np.arange(domains), domains // trained)
    for place in places:
        pattern[np.ix_(place, place)] = neighbors(len(place), trained, random)
    for neighboring in itertools.pairwise(places):
        found = []
        for place in neighboring:
            pairs = np.argwhere(pattern[place])
            row, column = pairs[random.integers(len(pairs))]
            found.append((place[row], column))
        one, other = found
        pattern[one], pattern[other] = False, False
        pattern[one[0], other[1]], pattern[other[0], one[1]] = True, True
    return pattern[random.permutation(domains)][:, random.permutation(domains)]


def hubs(domains: int, trained: int, random: np.random.Generator) -> np.ndarray:
    """Put a few input and as many output domains in all their pairs, which makes half of all pairs; draw the rest.

    h hubs on either side take 2 h M - h^2 pairs. There is at least one if K is two or more; K = 1 has no room for any.
    """
    half = domains - np.sqrt(domains**2 - domains * trained / 2)
    count = max(int(half), min(1, trained - 1))
    if count == 0:
        return circulant(domains, trained, random)
    pattern = np.zeros((domains, domains), dtype=bool)
    pattern[:count] = pattern[:, :count] = True
    pattern.flat[random.choice(np.flatnonzero(~pattern), domains * trained - int(pattern.sum()), replace=False)] = True
    return pattern[random.permutation(domains)][:, random.permutation(domains)]


PAIRS = {make.__name__: make for make in (neighbors, circulant, regular, blocks, hubs)}


def trained_pairs(pairs: str, domains: int, trained: int, key: int = 0) -> np.ndarray:
    """Return which pairs are trained, booleans (input domains, output domains).

    pairs: one of the names in PAIRS. trained: K, the mean number of pairs of a domain. key: seed of the random ones.
    """
    require_known(pairs, PAIRS, f"there are no pairs {pairs!r}")
    require_count("domains", domains, most=100)
    if require_count("trained", trained) > domains:
        raise RangeError(f"trained must be at most the number of domains, {domains}; it was {trained}")
    return PAIRS[pairs](domains, trained, np.random.default_rng(require_count("key", key, least=0)))
