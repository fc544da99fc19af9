"""The gate patterns that one neuron can have on a table of items and contexts, and the gatings made of them."""

import itertools

import numpy as np

from neuralrace.tasks import NamedTask

CHUNK = 20_000  # patterns whose singular values are computed at once


def staircases(items: int, contexts: int) -> np.ndarray:
    """Every pattern that one neuron can have on a table, (patterns, N): w.x = a_item + b_context has no checkerboard.

    With the contexts in the order of b, an item is on in the first few of them; how many is free for each item.
    """
    steps = np.array(list(itertools.product(range(contexts + 1), repeat=items)))
    ranks = np.array(list(itertools.permutations(range(contexts))))
    on = ranks[:, None, :, None] < steps[None, :, None, :]
    packed = np.unique(np.packbits(on.reshape(-1, contexts * items), axis=1), axis=0)
    return np.unpackbits(packed, axis=1, count=contexts * items).astype(bool)


def by_context(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether a pattern depends on the context alone; patterns: (..., N), one context after the other."""
    grid = patterns.reshape(*patterns.shape[:-1], contexts, -1)
    return np.asarray((grid == grid[..., :1]).all(axis=(-1, -2)))


def by_item(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether a pattern depends on the item alone."""
    grid = patterns.reshape(*patterns.shape[:-1], contexts, -1)
    return np.asarray((grid == grid[..., :1, :]).all(axis=(-1, -2)))


def allowed(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether P2 Lemma 4.1 allows a pattern: by the context alone, or on for a single example."""
    return by_context(patterns, contexts) | (patterns.sum(axis=-1) == 1)


def checkerboards(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether two items are on in one context each, and off in that of the other; patterns: (patterns, N)."""
    grid = patterns.reshape(len(patterns), contexts, -1)
    only = grid[..., :, None] & ~grid[..., None, :]  # in a context, one item and not another
    return np.asarray((only[:, :, None] & only.swapaxes(-1, -2)[:, None]).any(axis=(1, 2, 3, 4)))


def symmetries(named: NamedTask) -> np.ndarray:
    """The orders of the examples that exchanging items and contexts gives, (permutations, N)."""
    items, contexts = (int(named.groups[name].max()) + 1 for name in ("item", "context"))
    grid = np.arange(items * contexts).reshape(contexts, items)
    kinds = itertools.product(itertools.permutations(range(contexts)), itertools.permutations(range(items)))
    return np.array([grid[np.ix_(rows, columns)].ravel() for rows, columns in kinds])


def all_gatings(patterns: np.ndarray, orders: np.ndarray, most: int) -> list[np.ndarray]:
    """Every set of at most so many patterns; of those that an exchange turns into each other, one."""
    number = {row.tobytes(): i for i, row in enumerate(patterns)}
    moved = [[number[row[order].tobytes()] for row in patterns] for order in orders]
    subsets = (s for size in range(1, most + 1) for s in itertools.combinations(range(len(patterns)), size))
    first = [s for s in subsets if all(s <= tuple(sorted(to[i] for i in s)) for to in moved)]
    return [patterns[list(chosen)] for chosen in first]


def even_gatings(patterns: np.ndarray, orders: np.ndarray, most: int) -> list[np.ndarray]:
    """Every set of at most so many patterns that no exchange changes."""
    kinds = {frozenset(row[order].tobytes() for order in orders) for row in patterns}
    groups = [np.array([row for row in patterns if row.tobytes() in kind]) for kind in sorted(kinds, key=sorted)]
    unions = (u for size in range(1, len(groups) + 1) for u in itertools.combinations(groups, size))
    return [np.vstack(union) for union in unions if sum(map(len, union)) <= most]


def first_values(patterns: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The first singular value of the mean input-output correlation over the examples of each pattern."""
    similarity = targets @ targets.T / len(inputs) ** 2
    found = []
    for first in range(0, len(patterns), CHUNK):
        rows = patterns[first : first + CHUNK, :, None] * inputs
        found.append(np.linalg.eigvalsh(rows.swapaxes(1, 2) @ (similarity @ rows))[:, -1])
    return np.sqrt(np.maximum(np.concatenate(found), 0))


def written(pattern: np.ndarray, named: NamedTask) -> str:
    """The pattern as 0 and 1, item by item, with a bar between contexts."""
    context = named.groups["context"]
    return "|".join("".join(str(int(bit)) for bit in pattern[context == c]) for c in np.unique(context))


def family(patterns: np.ndarray, contexts: int) -> str:
    """What the modules of a gating part: contexts, items, single examples, or something of each."""
    kinds = [patterns.all(axis=1), by_context(patterns, contexts), by_item(patterns, contexts)]
    parts = set(np.select(kinds, ["common", "contexts", "items"], "examples")) - {"common"}
    return "common alone" if not parts else f"by {parts.pop()}" if len(parts) == 1 else "by several"
