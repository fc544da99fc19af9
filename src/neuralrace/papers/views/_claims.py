"""P3's predictions as conditions on what was measured: growth, winners, losers, coverage, losses, teachers."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import xarray

from neuralrace.analysis.intervals import Interval, interval
from neuralrace.papers.claims import Claim, Claims, enumerated
from neuralrace.papers.views._measures import coverage, shares, winner_share
from neuralrace.papers.views._training import VIEWS, Conditions
from neuralrace.papers.views._trainings import CHANCE, FINER, PENALTY, RATE, named

GROWTH_WINDOWS = ((0.005, 0.02), (0.02, 0.08))  # of the target, before competition sets in
GROWTH = "d log a/dt over sigma while " + " and ".join(f"{a:.1%} to {b:.0%}" for a, b in GROWTH_WINDOWS) + " is learned"
NEAR_ONE = (0.9, 1.1)
LEAST = 0.05  # of the winner's share: a change that counts
CONSERVED = 0.01  # of the winner's share: random layers are not balanced, so that shares move a little at depth two

# name -> what is said, where, and by whom
SAYS = {
    "early growth": ("Before views compete, each grows exponentially at its own rate sigma.", "P3 phase 1", "paper"),
    "growth at depth": ("Deeper networks grow exponentially at the same rate.", "P3 phase 1, at depth", "finding"),
    "prediction": ("The initial advantage names the winner in more than 80 % of cases.", "P3 prediction 2", "paper"),
    "losers": (
        "Learning converges to fixed points where a single pathway dominates and others decay to zero.",
        "P3 contribution 4 and phase 3",
        "paper",
    ),
    "coverage": (
        "About one view per class is learned: of three, 1/M.",
        "P3 coverage",
        "finding",
    ),
    "winners": ("Different random seeds produce different winners.", "P3 prediction 4", "paper"),
    "ratio": ("The ratio of loser to winner strength decays exponentially.", "P3 prediction 5", "paper"),
    "deeper": ("Deeper networks have stronger winner-take-all.", "P3 question 7", "paper"),
    "cross-entropy": ("Cross-entropy has no natural saturation.", "P3 mismatch 1", "paper"),
    "cross-entropy race": (
        "Competition does not naturally emerge from cross-entropy.",
        "P3 on saturation and on the conditions of winner-take-all, in sign, at the depth of its equation, two",
        "paper",
    ),
    "cross-entropy race counts": (
        "Cross-entropy takes much of the winner's share away.",
        "P3 on saturation, a size",
        "finding",
    ),
    "cross-entropy at depth": (
        "Cross-entropy weakens the winner beyond depth two.",
        "P3 on saturation, at depth",
        "finding",
    ),
    "momentum": (
        "Momentum actively equalizes pathway contributions over time.",
        "P3 mismatch 2, at depths at which shares can change, above two",
        "paper",
    ),
    "momentum counts": ("Momentum evens the shares by much.", "P3 mismatch 2, a size", "finding"),
    "momentum at depth two": (
        "At depth two momentum leaves the shares as they are.",
        "P3 mismatch 2, at depth two",
        "finding",
    ),
    "distillation": ("With a teacher's signal to all pathways shared representations arise.", "P3 question 4", "paper"),
    "distillation, views apart": (
        "A teacher's soft targets keep more views where views are sometimes missing.",
        "P3 question 4, beyond it",
        "finding",
    ),
    "competition loss": (
        "An explicit competition loss brings the winner back in standard training.",
        "P3 idea 1",
        "finding",
    ),
}


class Predictions(Claims):
    """A sheet for the predictions, by their names.

    reasons: why one does not hold. assumed: whether the networks are those that P3 speaks of; where they are not,
    nothing is P3's own sentence.
    """

    def __init__(self, reasons: Mapping[str, str], assumed: bool) -> None:
        super().__init__()
        self._reasons, self._assumed = reasons, assumed

    def says(self, name: str) -> None:
        """A prediction with its verdict on record."""
        text, source, kind = SAYS[name]
        self.said(kind if self._assumed else "finding", source, text)
        self.fails(self._reasons.get(name))


def judged(data: xarray.Dataset, reasons: Mapping[str, str], *, assumed: bool = True) -> list[Claim]:
    """Every prediction, in the order of P3."""
    claim = Predictions(reasons, assumed)
    _race(claim.shown_in("A"), data)
    _shares(claim.shown_in("B, C"), data)
    _losses(claim.shown_in("B"), data)
    _teachers(claim.shown_in("B, C"), data)
    seeds = f"{data.sizes['seed']} seeds"
    return [replace(one, note=f"{one.note}; {seeds}" if one.note else seeds) for one in claim]


def _by_depth(values: dict[int, np.ndarray]) -> dict[str, Interval]:
    """The interval over seeds of the mean over everything else, for each depth; values are (seeds, ...)."""
    return {f"L = {depth}": interval(part.reshape(len(part), -1).mean(axis=1)) for depth, part in values.items()}


def _curves(data: xarray.Dataset, kind: str, depth: int, name: str = "responses") -> np.ndarray:
    """(seeds, looks, K, M); strengths are P3's s_ym = |P_m phi_ym|, never negative."""
    return np.asarray(data[name].sel(training=named(kind, depth)).values)


def _ends(data: xarray.Dataset, kind: str, name: str = "responses") -> dict[int, np.ndarray]:
    """At the end of one kind of training, (seeds, K, M) for each depth."""
    return {depth: _curves(data, kind, depth, name)[:, -1] for depth in data["depth"].values}


def _race(claim: Predictions, data: xarray.Dataset) -> None:
    flow, start = _ends(data, "flow"), {d: _curves(data, "flow", d, "strengths")[:, 0] for d in data["depth"].values}
    claim.says("early growth")
    claim.within(f"depth 2, flow: {GROWTH}", growth_rates(data, "growth", 2), NEAR_ONE)
    deep = {
        f"L = {d}, window {i + 1}": part for d in flow if d > 2 for i, part in enumerate(growth_rates(data, "flow", d))
    }
    claim.says("growth at depth")
    claim.within(f"depth above 2, flow: {GROWTH}", deep, NEAR_ONE)
    right = {d: start[d].argmax(axis=-1) == flow[d].argmax(axis=-1) for d in flow}
    chance = f"chance {1 / VIEWS:.2f}"
    if "exact_end" in data:
        named_right = data["exact_end"].values.argmax(axis=-1) == flow[2].argmax(axis=-1)
        chance += f"; the exact end of depth two {interval(named_right.mean(axis=-1))}"
    claim.says("prediction")
    what = "classes in which the largest |P_m phi_m| at the start is the largest response at the end"
    claim.at_least(what, _by_depth(right), 0.8)
    claim.detail(chance)
    curves = {d: _curves(data, "flow", d, "strengths") for d in flow}
    kept = {d: _kept(curve) for d, curve in curves.items()}
    left = {d: np.where(_lost(curve[:, -1]), shares(curve[:, -1]), 0).sum(axis=-1) for d, curve in curves.items()}
    claim.says("losers")
    claim.at_most("the final strength s_ym of a losing view over the most it ever was", _by_depth(kept), 0.01)
    claim.detail(f"share of all losers together {enumerated(_by_depth(left))}")


def _lost(final: np.ndarray) -> np.ndarray:
    """Which views are not the strongest of their class, (seeds, K, M)."""
    return np.asarray(np.arange(final.shape[-1]) != final.argmax(axis=-1)[..., None])


def _kept(curve: np.ndarray) -> np.ndarray:
    """What the losers end with over the most that they had, the mean of each seed."""
    lost = _lost(curve[:, -1])
    kept = np.where(lost, curve[:, -1] / curve.max(axis=1), 0)
    return np.asarray(kept.sum(axis=(1, 2)) / lost.sum(axis=(1, 2)))


def growth_rates(data: xarray.Dataset, kind: str, depth: int) -> list[Interval]:
    """d log a/dt over sigma, a^L the summed response of a class, in each window; the mean over seeds."""
    total = _curves(data, kind, depth).sum(axis=-1)
    time = data["time"].sel(training=named(kind, depth)).values
    found = []
    for low, high in GROWTH_WINDOWS:
        rates = np.full((total.shape[0], total.shape[2]), np.nan)
        for seed, k in np.ndindex(*rates.shape):
            curve = total[seed, :, k]
            inside = np.flatnonzero((curve > low) & (curve < high) & (np.maximum.accumulate(curve) < high))
            if len(inside) > 1:
                first, last = inside[0], inside[-1]
                rates[seed, k] = np.log(curve[last] / curve[first]) / (depth * (time[last] - time[first]))
        counted = np.isfinite(rates).any(axis=1)
        found.append(interval(np.nanmean(rates[counted], axis=1) / RATE if counted.any() else np.nan))
    return found


def _shares(claim: Predictions, data: xarray.Dataset) -> None:
    flow = _ends(data, "flow")
    answers = {d: _curves(data, "flow", d, "lone_outputs").argmax(axis=-1) for d in flow}  # to views alone
    alone = {d: answer == np.arange(answer.shape[1])[:, None] for d, answer in answers.items()}
    claim.says("coverage")
    covered = _by_depth({d: coverage(end) for d, end in flow.items()})
    claim.within("effective number of views over M", covered, (1 / VIEWS - LEAST, 1 / VIEWS + LEAST))
    claim.detail(f"a view alone is classified right: {enumerated(_by_depth(alone))}")
    wins = [np.bincount(end.argmax(axis=-1).ravel(), minlength=VIEWS) / end[..., 0].size for end in flow.values()]
    claim.says("winners")
    claim.within("part of seeds and classes in which a view is ahead", np.array(wins), (0.1, 0.6))
    fallen, before = _ratios(data)
    claim.says("ratio")
    claim.at_least(
        f"growth of log(winner / loser) in the second half of training, as under exponential decay at any rate "
        f"above {1 / (RATE * float(data['time'].max()) / 2):.1%} of sigma,",
        fallen,
        1,
        form=".2g",
    )
    claim.detail(f"in the first half {', '.join(f'{part.mean:.2f}' for part in before.values())}")
    claim.says("deeper")
    claim.rising("the winner's share", _by_depth({d: winner_share(end) for d, end in flow.items()}), "depth")


def log_ratio(curve: np.ndarray) -> np.ndarray:
    """log(mean losing strength / winning strength), (seeds, looks, K); the winner is that of the end."""
    ahead = curve[:, -1].argmax(axis=-1)
    best = np.take_along_axis(curve, ahead[:, None, :, None], axis=-1)[..., 0]
    return np.asarray(np.log((curve.sum(axis=-1) - best) / (curve.shape[-1] - 1) / best))


def _ratios(data: xarray.Dataset) -> tuple[dict[str, Interval], dict[str, Interval]]:
    """How far log(winner / loser) grows in the second half of training, and in the first."""
    fallen, before = {}, {}
    for label, kind, depth in [("", "flow", d) for d in data["depth"].values] + [(", unequal rates", "unequal", 2)]:
        change = log_ratio(_curves(data, kind, depth, "strengths")).mean(axis=-1)
        time = data["time"].sel(training=named(kind, depth)).values
        middle = int(np.searchsorted(time, time[-1] / 2))
        fallen[f"L = {depth}{label}"] = interval(change[:, middle] - change[:, -1])
        before[f"L = {depth}{label}"] = interval(change[:, min(1, middle)] - change[:, middle])
    return fallen, before


def _drop(data: xarray.Dataset, one: str, other: str, depth: int) -> np.ndarray:
    """By how much the winner's share of one kind of training lies above that of the other, seed by seed."""
    first, second = (winner_share(_curves(data, kind, depth)[:, -1]).mean(axis=-1) for kind in (one, other))
    return np.asarray(first - second)


def _late_growth(data: xarray.Dataset, kind: str) -> dict[str, float]:
    """By how much the summed response still grows in the second half of training, in per cent."""
    found = {}
    for depth in data["depth"].values:
        total = _curves(data, kind, depth).sum(axis=(-1, -2)).mean(axis=0)
        time = data["time"].sel(training=named(kind, depth)).values
        found[f"L = {depth}"] = 100 * abs(float(total[-1] / total[int(np.searchsorted(time, time[-1] / 2))] - 1))
    return found


def _losses(claim: Predictions, data: xarray.Dataset) -> None:
    depths, last = data["depth"].values, data["depth"].values[-1]
    shallow, deep = [d for d in depths if d == 2], [d for d in depths if d > 2]

    def drop(kind: str, at: Sequence[int]) -> dict[str, Interval]:
        return _by_depth({d: _drop(data, "descent", kind, d) for d in at})

    late = "growth of the summed response in the second half of training under"
    claim.says("cross-entropy")
    claim.at_least(f"{late} cross-entropy", _late_growth(data, "entropy"), 5, " %")
    claim.at_most(f"{late} squared error", _late_growth(data, "descent"), 0.1, " %")
    lost = "winner's share of squared error less that of cross-entropy, same weights,"
    claim.says("cross-entropy race")
    claim.at_least(lost, drop("entropy", shallow), 0)
    claim.says("cross-entropy race counts")
    claim.at_least(lost, drop("entropy", shallow), LEAST)
    claim.says("cross-entropy at depth")
    claim.at_least(lost, drop("entropy", deep), 0)
    evened = f"by how much momentum {Conditions.momentum:g} lowers the winner's share, same weights, equal time,"
    claim.says("momentum")
    claim.at_least(evened, drop("momentum", deep), 0)
    claim.says("momentum counts")
    claim.at_least(evened, drop("momentum", deep), LEAST)
    fine = interval(_drop(data, "fine descent", "fine momentum", last))
    claim.detail(f"at a step {FINER} times finer, L = {last}: {fine}")
    claim.says("momentum at depth two")
    claim.within(evened, drop("momentum", shallow), (-CONSERVED, CONSERVED))


def _teachers(claim: Predictions, data: xarray.Dataset) -> None:
    hard, soft, hard_apart, soft_apart = (
        {d: coverage(end).mean(axis=-1) for d, end in _ends(data, kind).items()}
        for kind in ("standard, all views", "student, all views", "standard", "student")
    )
    claim.says("distillation")
    claim.at_least("coverage with soft targets, all views always present,", _by_depth(soft), 0.9)
    claim.detail(f"with hard targets {enumerated(_by_depth(hard))}")
    gains = {d: soft_apart[d] - hard_apart[d] for d in hard}
    claim.says("distillation, views apart")
    claim.at_least(f"gain in coverage, views with chance {CHANCE:g},", _by_depth(gains), 0.005)
    claim.detail(f"{enumerated(_by_depth(hard_apart))} to {enumerated(_by_depth(soft_apart))}")
    claim.says("competition loss")
    _competition(claim, data)


def _competition(claim: Predictions, data: xarray.Dataset) -> None:
    """The winner's share in standard training with and without the penalty, over the seeds that do not diverge."""
    ends, gains, lost = {}, {}, 0
    for depth in data["depth"].values:
        without, penalised = (
            winner_share(_curves(data, kind, depth)[:, -1]).mean(axis=-1) for kind in ("standard", "compete")
        )
        there = np.isfinite(penalised)
        lost += int((~there).sum())
        if there.any():
            ends[depth], gains[depth] = penalised[there], penalised[there] - without[there]
    setting = f"cross-entropy, momentum, chance {CHANCE:g}, lambda = {PENALTY:g}"
    claim.at_least(f"winner's share with the penalty ({setting})", _by_depth(ends), 0.9)
    claim.detail(f"{lost} diverged")
    claim.at_least("gain", _by_depth(gains), 0.2)
