"""What a measured claim is, and how a campaign is read."""

from typing import NamedTuple

import numpy as np
import xarray

from neuralrace.views.measure import Interval, interval


class Finding(NamedTuple):
    """A claim's name, what would confirm it, what was measured, and the verdict."""

    name: str
    expected: str
    measured: str
    holds: bool


def depths_of(data: xarray.Dataset) -> list[int]:
    """The depths that were trained."""
    return [int(depth) for depth in np.atleast_1d(data.attrs["depths"])]


def responses(data: xarray.Dataset, name: str) -> np.ndarray:
    """(seeds, looks, K, M)."""
    return np.asarray(data["responses"].sel(trial=name).values)


def strengths(data: xarray.Dataset, name: str) -> np.ndarray:
    """P3's s_ym = |P_m phi_ym|, never negative, (seeds, looks, K, M)."""
    return np.asarray(data["strengths"].sel(trial=name).values)


def by_seed(values: np.ndarray) -> Interval:
    """The interval over seeds of the mean over classes; values are (seeds, K)."""
    return interval(values.mean(axis=-1))


def listed(parts: dict[int, Interval]) -> str:
    """One entry per depth."""
    return "; ".join(f"L = {depth}: {value}" for depth, value in parts.items())
