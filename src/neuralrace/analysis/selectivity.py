"""Mixed selectivity: in how many groups of examples, such as contexts, a neuron is active."""

import jax
import numpy as np

from neuralrace._engine.devices import compiled
from neuralrace.errors import RangeError


def groups_active(patterns: np.ndarray, labels: np.ndarray, more_than: float = 0.5) -> np.ndarray:
    """Count the groups in which a neuron is on for more than half, or another share, of the examples.

    patterns: (..., N) of bool, one neuron each. labels: (N,), the group of each example. Returns (...,).
    """
    return np.sum(by_group(np.asarray(patterns, dtype=bool), labels) > more_than, axis=-1)


def by_group(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The mean over the examples of each group; values: (..., N), labels: (N,). Returns (..., groups)."""
    rows, names = np.asarray(values), np.asarray(labels)
    if rows.shape[-1:] != names.shape:
        raise RangeError(f"labels must have one entry per example, {rows.shape[-1]}; their shape is {names.shape}")
    return np.stack([rows[..., names == name].mean(axis=-1) for name in np.unique(names)], axis=-1)


def concentration(activity: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The largest share of a neuron's activity that falls into one group, groups of equal size; 0 for a silent one."""
    means = by_group(activity, labels)
    total = means.sum(axis=-1)
    return np.divide(means.max(axis=-1), total, out=np.zeros_like(total), where=total > 0)


def share_by_groups(patterns: np.ndarray, labels: np.ndarray, strength: np.ndarray | None = None) -> np.ndarray:
    """The share of all neurons that are active in 0, 1, 2, ... groups, each counted by its strength if given."""
    active = groups_active(patterns, labels)
    weights = np.ones(active.shape) if strength is None else np.broadcast_to(strength, active.shape)
    counts = np.bincount(active.ravel(), weights=weights.ravel(), minlength=len(np.unique(labels)) + 1)
    return np.asarray(counts / counts.sum())


def chance_by_groups(inputs: np.ndarray, labels: np.ndarray, draws: int = 10_000, key: int = 0) -> np.ndarray:
    """The same shares for neurons whose incoming weights are drawn at random, as before training."""
    normal = np.asarray(_normal(jax.random.key(key), (draws, np.shape(inputs)[1])))
    return share_by_groups(normal @ np.asarray(inputs).T > 0, labels)


@compiled
def _normal(key: jax.Array, shape: tuple[int, int]) -> jax.Array:
    return jax.random.normal(key, shape)
