"""Who wins: P3's initial advantage and other rules of thumb, scored against the exact end of random races."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray

from neuralrace.errors import RangeError, require_count, require_number
from neuralrace.theory.exact import race_end

RULES = ("advantage", "head start", "fastest rate", "blow-up")


def initial_advantage(strengths: Any, rates: Any) -> np.ndarray:
    """P3's A_m = sigma_m s_m(0), view last; its largest is P3's winner."""
    return np.asarray(np.asarray(strengths) * np.asarray(rates))


def blow_up(strengths: Any, rates: Any, depth: Any) -> np.ndarray:
    """r_m a_m(0)^(L-2): the inverse of the clock reading at which view m alone would blow up, but for a common factor.

    Its largest wins from small strengths at depth L > 2. At depth two it is the rate, at depth three P3's advantage.
    """
    return np.asarray(np.asarray(rates) * np.asarray(strengths) ** (np.asarray(depth) - 2.0))


def predicted_winners(strengths: Any, rates: Any, depth: Any) -> dict[str, np.ndarray]:
    """The winner that each rule names, by rule; view last in the arguments."""
    start, speed = np.broadcast_arrays(np.asarray(strengths, dtype=float), np.asarray(rates, dtype=float))
    layers = np.asarray(depth, dtype=float)[..., None]
    return {
        "advantage": initial_advantage(start, speed).argmax(axis=-1),
        "head start": start.argmax(axis=-1),
        "fastest rate": speed.argmax(axis=-1),
        "blow-up": blow_up(start, speed, layers).argmax(axis=-1),
    }


def two_layer_end(first: Any, last: Any) -> np.ndarray:
    """The maps P_m that parallel two-layer pathways end with, exact in the limit of small initial weights; (M, K, K).

    For views of length one that are always together, one-hot targets. first: (M, h, K). last: (M, K, h). Early on only
    A_m = (W1_m + W2_m^T) / 2 grows, and then dA_m/dt = A_m (1 - C)/K with C = sum_n A_n^T A_n common to all views:
    A_m(t) = A_m f(C(0)), so P_m ends as C^(-1/2) A_m^T A_m C^(-1/2). Column k of P_m answers view m of class k.
    """
    A = (np.asarray(first) + np.swapaxes(np.asarray(last), -1, -2)) / 2
    each = np.swapaxes(A, -1, -2) @ A
    values, vectors = np.linalg.eigh(each.sum(axis=-3))
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(root[..., None, :, :] @ each @ root[..., None, :, :])


def score_rules(
    depths: Sequence[float] = (2, 3, 4, 6),
    spreads: Sequence[float] = (0.0, 0.03, 0.1, 0.3, 1.0),
    scales: Sequence[float] = (0.3, 0.1, 0.01, 0.001),
    *,
    views: int = 3,
    draws: int = 400,
    start_spread: float = 0.5,
    seed: int = 0,
) -> xarray.Dataset:
    """How often each rule names the exact winner over random races.

    Strengths are scale * exp(start_spread * normal) and rates exp(spread * normal), independent; the same normal draws
    serve every cell. `right`: (rule, depth, spread, scale, draw). `share`: the winner's share at the end.
    """
    count, number = require_count("views", views, least=2), require_count("draws", draws)
    for name, values in (("depths", depths), ("spreads", spreads), ("scales", scales)):
        if not len(values):
            raise RangeError(f"{name} must hold at least one number; it was empty")
    random = np.random.default_rng(seed)
    starts, speeds = random.standard_normal((2, number, count))
    width = require_number("start_spread", start_spread, least=0)
    L, spread, scale = np.meshgrid(depths, spreads, scales, indexing="ij")
    lead = (*L.shape, number)
    strengths = np.exp(width * starts) * scale[..., None, None]
    rates = np.exp(speeds * spread[..., None, None])
    layers = np.broadcast_to(L[..., None], lead).astype(float)
    flat = race_end(strengths.reshape(-1, count), rates.reshape(-1, count), layers.ravel())
    truth, best = np.asarray(flat.winner).reshape(lead), np.asarray(flat.shares).max(axis=-1).reshape(lead)
    named = predicted_winners(strengths, rates, layers)
    right = np.stack([named[rule] == truth for rule in RULES])
    return xarray.Dataset(
        {
            "right": (("rule", "depth", "spread", "scale", "draw"), right),
            "share": (("depth", "spread", "scale", "draw"), best),
        },
        coords={"rule": list(RULES), "depth": list(depths), "spread": list(spreads), "scale": list(scales)},
    )
