"""P3's claims about the race itself, measured on a campaign: growth, winners, losers, coverage, ratio, depth."""

import itertools

import numpy as np
import xarray

from neuralrace.views.finding import Finding, by_seed, depths_of, listed, responses, strengths
from neuralrace.views.measure import Interval, coverage, interval, shares, winner_share

GROWTH_WINDOWS = ((0.005, 0.02), (0.02, 0.08))  # of the target, before competition sets in


def growth_rates(data: xarray.Dataset, name: str, depth: int) -> list[Interval]:
    """d log a/dt over sigma, a^L the summed response of a class, in each window; the mean over seeds."""
    total, time = responses(data, name).sum(axis=-1), data["time"].sel(trial=name).values
    found = []
    for low, high in GROWTH_WINDOWS:
        rates = np.full((total.shape[0], total.shape[2]), np.nan)
        for seed, cls in np.ndindex(*rates.shape):
            curve = total[seed, :, cls]
            inside = np.flatnonzero((curve > low) & (curve < high) & (np.maximum.accumulate(curve) < high))
            if len(inside) > 1:
                first, last = inside[0], inside[-1]
                rates[seed, cls] = np.log(curve[last] / curve[first]) / (depth * (time[last] - time[first]))
        counted = np.isfinite(rates).any(axis=1)
        values = np.nanmean(rates[counted], axis=1) / data.attrs["rate"] if counted.any() else np.array([np.nan])
        found.append(interval(values))
    return found


def early_growth(data: xarray.Dataset) -> Finding:
    """Exponential growth at rate sigma, at depth two from small weights."""
    early, late = growth_rates(data, "growth L2", 2)
    return Finding(
        "early growth",
        "depth 2, flow: d log s/dt over sigma = p/K within 10 % of 1 while 0.5-2 % and 2-8 % of the target are "
        "explained",
        f"{early} and {late}",
        abs(early.mean - 1) < 0.1 and abs(late.mean - 1) < 0.1,
    )


def growth_at_depth(data: xarray.Dataset) -> Finding:
    """The same in deeper networks."""
    found = {depth: growth_rates(data, f"flow L{depth}", depth) for depth in depths_of(data) if depth > 2}
    return Finding(
        "growth at depth",
        "depth above 2, flow: the same",
        "; ".join(f"L = {depth}: {early} and {late}" for depth, (early, late) in found.items()),
        all(abs(part.mean - 1) < 0.1 for pair in found.values() for part in pair),
    )


def prediction(data: xarray.Dataset) -> Finding:
    """The winner of each class by its strength at the start, rates being equal."""
    right = {}
    for depth in depths_of(data):
        start = strengths(data, f"flow L{depth}")[:, 0]
        final = responses(data, f"flow L{depth}")[:, -1]
        right[depth] = by_seed(start.argmax(axis=-1) == final.argmax(axis=-1))
    exact = ""
    if "forecast" in data:
        final = responses(data, "flow L2")[:, -1]
        exact = f"; exact forecast at L = 2: {by_seed(data['forecast'].values.argmax(-1) == final.argmax(-1))}"
    return Finding(
        "prediction",
        "the largest |P_m phi_m| at the start is the largest response at the end in more than 80 % of classes (chance "
        "33 %)",
        listed(right) + exact,
        all(part.mean > 0.8 for part in right.values()),
    )


def losers(data: xarray.Dataset) -> Finding:
    """What is left of the losers at the end, over the most that they had."""
    left, final_share = {}, {}
    for depth in depths_of(data):
        curve = strengths(data, f"flow L{depth}")
        final = curve[:, -1]
        lost = np.arange(final.shape[-1]) != final.argmax(axis=-1)[..., None]
        kept = final / curve.max(axis=1)
        left[depth] = interval(np.where(lost, kept, 0).sum(axis=(1, 2)) / lost.sum(axis=(1, 2)))
        final_share[depth] = by_seed(np.where(lost, shares(final), 0).sum(axis=-1))
    return Finding(
        "losers",
        "the strength s_ym of a losing view ends below 1 % of the most it ever was",
        f"{listed(left)} of its most; share of all losers together {listed(final_share)}",
        all(part.mean < 0.01 for part in left.values()),
    )


def covered(data: xarray.Dataset) -> Finding:
    """Coverage at the end, and how often a view alone is given its class."""
    found, alone = {}, {}
    for depth in depths_of(data):
        found[depth] = by_seed(coverage(responses(data, f"flow L{depth}")[:, -1]))
        outputs = data["lone_outputs"].sel(trial=f"flow L{depth}").values  # (seeds, K, M, outputs)
        alone[depth] = interval((outputs.argmax(axis=-1) == np.arange(outputs.shape[1])[:, None]).mean(axis=(1, 2)))
    return Finding(
        "coverage",
        f"effective number of views over M within 0.05 of 1/M = {1 / data.attrs['views']:.3f}",
        f"{listed(found)}; a view alone is classified right: {listed(alone)}",
        all(abs(part.mean - 1 / data.attrs["views"]) < 0.05 for part in found.values()),
    )


def winners(data: xarray.Dataset) -> Finding:
    """Which view is ahead, over seeds and classes."""
    wins = {}
    for depth in depths_of(data):
        first = responses(data, f"flow L{depth}")[:, -1].argmax(axis=-1)
        wins[depth] = np.bincount(first.ravel(), minlength=data.attrs["views"]) / first.size
    return Finding(
        "winners",
        "every view is ahead in at least 10 % and at most 60 % of seeds and classes",
        "; ".join(
            f"L = {depth}: {', '.join(f'{100 * part:.0f} %' for part in parts)}" for depth, parts in wins.items()
        ),
        all(parts.min() >= 0.1 and parts.max() <= 0.6 for parts in wins.values()),
    )


def log_ratio(data: xarray.Dataset, name: str) -> np.ndarray:
    """log(mean losing strength / winning strength), (seeds, looks, K); the winner is that of the end."""
    curve = strengths(data, name)
    ahead = curve[:, -1].argmax(axis=-1)
    best = np.take_along_axis(curve, ahead[:, None, :, None], axis=-1)[..., 0]
    return np.asarray(np.log((curve.sum(axis=-1) - best) / (curve.shape[-1] - 1) / best))


def ratio(data: xarray.Dataset) -> Finding:
    """How far the ratio of loser to winner falls in the second half of training, where P3 has it decay for ever."""
    names = {f"L = {depth}": f"flow L{depth}" for depth in depths_of(data)} | {"L = 2, unequal rates": "unequal L2"}
    fallen, early = {}, {}
    for label, name in names.items():
        change, time = log_ratio(data, name), data["time"].sel(trial=name).values
        middle = int(np.searchsorted(time, time[-1] / 2))
        fallen[label] = by_seed(change[:, middle] - change[:, -1])
        early[label] = by_seed(change[:, min(1, middle)] - change[:, middle])
    return Finding(
        "ratio",
        "log(winner / loser) grows by at least 1 in the second half of training (sigma t > 100), as it must under "
        "exponential decay at any rate above 1 % of sigma",
        "; ".join(
            f"{label}: {fallen[label].mean:.1g} after {early[label].mean:.2f} in the first half" for label in names
        ),
        all(part.mean >= 1 for part in fallen.values()),
    )


def deeper(data: xarray.Dataset) -> Finding:
    """The winner's share by depth."""
    found = {depth: by_seed(winner_share(responses(data, f"flow L{depth}")[:, -1])) for depth in depths_of(data)}
    parts = list(found.values())
    rises = all(a.mean < b.mean for a, b in itertools.pairwise(parts))
    return Finding(
        "deeper",
        "the winner's share rises with depth at one initial scale, and the intervals of least and greatest depth "
        "are apart",
        listed(found),
        rises and parts[0].high < parts[-1].low,
    )
