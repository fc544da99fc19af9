"""Which of the M x M pairs of an input and an output domain are trained: a graph, made by name from a key."""

from collections.abc import Callable, Mapping

import numpy as np

from neuralrace.errors import RangeError, UnknownNameError, nearest, require_count


def circulant(domains: int, trained: int, generator: np.random.Generator) -> np.ndarray:
    """P1's pairs: input i with outputs (i + j) mod M, j = 0 .. K - 1, then the outputs in a random order."""
    pattern = np.zeros((domains, domains), dtype=bool)
    here = np.arange(domains)[:, None]
    pattern[here, (here + np.arange(trained)) % domains] = True
    return pattern[:, generator.permutation(domains)]


PAIRS: Mapping[str, Callable[[int, int, np.random.Generator], np.ndarray]] = {"circulant": circulant}


def trained_pairs(pairs: str, domains: int, trained: int, key: int = 0) -> np.ndarray:
    """Which pairs are trained, as booleans; (input domains, output domains).

    pairs: one of the names in PAIRS. trained: K, the mean number of pairs of a domain. key: decides what is random.
    """
    if pairs not in PAIRS:
        raise UnknownNameError(f"there are no pairs {pairs!r}; {nearest(pairs, PAIRS)}")
    require_count("domains", domains)
    if require_count("trained", trained) > domains:
        raise RangeError(f"trained must be at most the number of domains, {domains}; it was {trained}")
    return PAIRS[pairs](domains, trained, np.random.default_rng(require_count("key", key, least=0)))
