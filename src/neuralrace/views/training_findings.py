"""P3's claims about how training changes the race: cross-entropy, momentum, distillation, a competition loss."""

import numpy as np
import xarray

from neuralrace.views.finding import Finding, depths_of, listed, responses
from neuralrace.views.measure import Interval, coverage, interval, winner_share


def unsaturated(data: xarray.Dataset) -> Finding:
    """How much the summed response still grows in the second half of training."""
    growth: dict[str, dict[int, float]] = {"entropy": {}, "descent": {}}
    for kind, parts in growth.items():
        for depth in depths_of(data):
            total = responses(data, f"{kind} L{depth}").sum(axis=(-1, -2)).mean(axis=0)
            time = data["time"].sel(trial=f"{kind} L{depth}").values
            parts[depth] = float(total[-1] / total[int(np.searchsorted(time, time[-1] / 2))] - 1)
    shown = [", ".join(f"{100 * value:.2g} %" for value in parts.values()) for parts in growth.values()]
    return Finding(
        "cross-entropy",
        "the summed response still grows by more than 5 % in the second half under cross-entropy and by less than "
        "0.1 % under squared error, at every depth",
        f"{shown[0]} against {shown[1]}",
        min(growth["entropy"].values()) > 0.05 and max(map(abs, growth["descent"].values())) < 0.001,
    )


def _drop(data: xarray.Dataset, one: str, other: str) -> Interval:
    """By how much the winner's share of one trial lies above that of the other, seed by seed."""
    first, second = (winner_share(responses(data, name)[:, -1]).mean(axis=-1) for name in (one, other))
    return interval(first - second)


def entropy_race(data: xarray.Dataset) -> Finding:
    """Whether cross-entropy takes the competition away."""
    drops = {depth: _drop(data, f"descent L{depth}", f"entropy L{depth}") for depth in depths_of(data)}
    return Finding(
        "cross-entropy race",
        "the winner's share under cross-entropy lies more than 0.05 below that under squared error, from the same "
        "weights, at every depth",
        f"squared less cross-entropy: {listed(drops)}",
        all(part.low > 0.05 for part in drops.values()),
    )


def momentum(data: xarray.Dataset) -> Finding:
    """Whether momentum evens the shares, at equal time."""
    drops = {depth: _drop(data, f"descent L{depth}", f"momentum L{depth}") for depth in depths_of(data)}
    last = depths_of(data)[-1]
    fine = _drop(data, f"fine descent L{last}", f"fine momentum L{last}")
    return Finding(
        "momentum",
        "momentum 0.9 lowers the winner's share by more than 0.05 at every depth, from the same weights, at equal time",
        f"lower by {listed(drops)}; at a fifth of the step, L = {last}: {fine}",
        all(part.low > 0.05 for part in drops.values()),
    )


def distillation(data: xarray.Dataset) -> Finding:
    """Coverage with hard and with soft targets where all views are always together."""
    shown, gains = _taught(data, "standard, all views")
    return Finding(
        "distillation",
        "all views always present: with soft targets coverage is above 0.9 at every depth",
        shown,
        all(soft.mean > 0.9 for _, soft, _ in gains),
    )


def distillation_apart(data: xarray.Dataset) -> Finding:
    """The same where views are sometimes missing."""
    shown, gains = _taught(data, "standard")
    return Finding(
        "distillation, views apart",
        "each view present with chance 0.9: soft targets raise coverage by more than 0.005 at every depth",
        f"{shown}; gains {', '.join(str(gain) for *_, gain in gains)}",
        all(gain.low > 0.005 for *_, gain in gains),
    )


def _taught(data: xarray.Dataset, name: str) -> tuple[str, list[tuple[Interval, Interval, Interval]]]:
    """Coverage with hard targets, with soft ones, and the gain seed by seed, for every depth."""
    found = []
    for depth in depths_of(data):
        hard, soft = (
            coverage(responses(data, f"{kind} L{depth}")[:, -1]).mean(axis=-1)
            for kind in (name, name.replace("standard", "student"))
        )
        found.append((interval(hard), interval(soft), interval(soft - hard)))
    pairs = zip(depths_of(data), found, strict=True)
    return "; ".join(f"L = {depth}: {hard} to {soft}" for depth, (hard, soft, _) in pairs), found


def competition(data: xarray.Dataset) -> Finding:
    """The winner's share in standard training with and without the penalty on pairs of views."""
    shown, back = [], []
    for depth in depths_of(data):
        without, penalised = (
            winner_share(responses(data, f"{name} L{depth}")[:, -1]).mean(axis=-1) for name in ("standard", "compete")
        )
        there = np.isfinite(penalised)
        lost = f" ({(~there).sum()} of {there.size} seeds diverged)" if not there.all() else ""
        if there.any():
            gain = interval(penalised[there] - without[there])
            back.append(penalised[there].mean() > 0.9 and gain.low > 0.2)
        found = str(interval(penalised[there])) if there.any() else "none"
        shown.append(f"L = {depth}: {interval(without)} to {found}{lost}")
    return Finding(
        "competition loss",
        "cross-entropy, momentum, p = 0.9: the penalty takes the winner's share to above 0.9, by more than 0.2, at "
        "every depth, over the seeds that do not diverge",
        "; ".join(shown),
        all(back) and len(back) > 0,
    )
