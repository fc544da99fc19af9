"""Mixed selectivity: in how many groups of examples, such as contexts, a neuron is active."""

import jax
import numpy as np

from neuralrace.errors import RangeError


def groups_active(patterns: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Count the groups in which a neuron is on for more than half of the examples.

    patterns: (..., N) of bool, one neuron each. labels: (N,), the group of each example. Returns (...,).
    """
    on, names = np.asarray(patterns, dtype=bool), np.asarray(labels)
    if on.shape[-1:] != names.shape:
        raise RangeError(f"labels must have one entry per example, {on.shape[-1]}; their shape is {names.shape}")
    return np.sum([on[..., names == name].mean(axis=-1) > 0.5 for name in np.unique(names)], axis=0)


def share_by_groups(patterns: np.ndarray, labels: np.ndarray, strength: np.ndarray | None = None) -> np.ndarray:
    """The share of all neurons that are active in 0, 1, 2, ... groups, each counted by its strength if given."""
    active = groups_active(patterns, labels)
    weights = np.ones(active.shape) if strength is None else np.broadcast_to(strength, active.shape)
    counts = np.bincount(active.ravel(), weights=weights.ravel(), minlength=len(np.unique(labels)) + 1)
    return np.asarray(counts / counts.sum())


def chance_by_groups(inputs: np.ndarray, labels: np.ndarray, draws: int = 10_000, key: int = 0) -> np.ndarray:
    """The same shares for neurons whose incoming weights are drawn at random, as before training."""
    normal = np.asarray(jax.random.normal(jax.random.key(key), (draws, np.shape(inputs)[1])))
    return share_by_groups(normal @ np.asarray(inputs).T > 0, labels)
