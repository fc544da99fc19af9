"""Property matrices of the papers: one row per property, one column per item."""

import numpy as np

from neuralrace.errors import RangeError, require_count

MOST_ITEMS = 2048  # the block of a hierarchy holds (2 items - 1) x items numbers
PUBLISHED_ITEMS = 8  # ring and cross are given as matrices for these many items


def hierarchy_block(items: int) -> np.ndarray:
    """The binary tree over the items, a row for each node from the root down; (2 items - 1, items)."""
    count = require_count("items", items)
    if count & (count - 1):
        raise RangeError(f"items must be a power of two, since they are the leaves of a binary tree; it was {count}")
    if count > MOST_ITEMS:
        raise RangeError(f"items must be at most {MOST_ITEMS}, since its square is stored; it was {count}")
    levels = count.bit_length()
    return np.vstack([np.kron(np.eye(2**level), np.ones(count >> level)) for level in range(levels)])


def ring_block(items: int) -> np.ndarray:
    """The ring of P2 Fig 4: a row of ones, then a bump that moves left from row to row; (15, 8)."""
    _published("ring", items)
    cycle = np.array([0.0, 0.33, 0.66, 1.0, 1.0, 0.66, 0.33, 0.0])  # as published, not thirds
    return np.vstack([np.ones(items), *(np.roll(cycle, -shift) for shift in range(2 * items - 2))])


def cross_block(items: int) -> np.ndarray:
    """The cross of P2 Fig 4: a hierarchy whose pairs interleave within each half; (15, 8)."""
    _published("cross", items)
    block = hierarchy_block(items)
    block[3:7] = np.kron(np.eye(2), np.array([[1, 0, 1, 0], [0, 1, 0, 1]]))
    return block


def _published(structure: str, items: int) -> None:
    if require_count("items", items) != PUBLISHED_ITEMS:
        raise RangeError(
            f"the {structure} is defined for {PUBLISHED_ITEMS} items only; items was {items}: use "
            f"items={PUBLISHED_ITEMS}, or structure='hierarchy'"
        )
