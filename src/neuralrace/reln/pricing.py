"""What fidelity costs: networks played again with few modules, in few stretches of constant gates."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from neuralrace.analysis import Agreement, Line, agreement
from neuralrace.analysis.agreement import LossCurve
from neuralrace.errors import ProblemError
from neuralrace.initial import Initializer
from neuralrace.reln.gating import LayerGating, find_gating
from neuralrace.reln.modular import modules_to_try, solve_each
from neuralrace.reln.playing import play
from neuralrace.reln.watched import Watched, stretches_of
from neuralrace.trajectory import Trajectory

# A reconstruction within these explains the networks: twice what P2's mixed task, with four modules, is held to.
NEAR_L1, NEAR_LOG = 0.1, 0.3
STRETCHES = (1, 2, 4)
DRAWS = 2  # of first weights, with several hidden layers
TIERS = ((1, 2, 3, 4), (5, 6, 7, 8), (10, 12))  # numbers of modules that are tried together, in one program
WORK = 1.5e12  # operations after which no further tier is begun


def near(apart: Agreement) -> bool:
    """Whether a curve is within NEAR_L1 and NEAR_LOG of training, by `distance_learned`."""
    return apart.normalized_l1 <= NEAR_L1 and apart.log10_gap <= NEAR_LOG


def distance_learned(curve: LossCurve, run: LossCurve) -> Agreement:
    """Compare a curve with a run, in units of what the run learned.

    The area between the curves is divided by the area between the run and the lowest loss that it reaches, and the
    largest gap by the fall of the run, so that a loss that no network can remove does not make curves look alike.
    """
    plain = agreement(curve, run)
    measured, predicted = (np.atleast_2d(one.loss).mean(axis=0) for one in (run, curve))
    floor = float(measured.min())
    if not np.isfinite(plain.normalized_l1):
        return plain
    above = agreement(Line(run.time, predicted - floor), Line(run.time, measured - floor))
    return replace(above, log10_gap=plain.log10_gap)


@dataclass(frozen=True, eq=False)
class Priced:
    """One way to rebuild the networks. modules: the most in any stretch. loss: (records,), the mean over networks.

    score: what `measured` says of their outputs at the end, the mean over networks; not a number where not asked for.
    """

    modules: int
    stretches: int
    agreement: Agreement
    gatings: tuple[LayerGating, ...] = field(repr=False)
    loss: np.ndarray = field(repr=False)
    score: float = float("nan")

    @property
    def meets(self) -> bool:
        """Whether it explains the networks."""
        return near(self.agreement)


def prices(
    run: Trajectory | Line,
    watched: Watched,
    rate: float,
    modules: int | None = None,
    *,
    key: int = 0,
    said: Callable[[str], None] = lambda _: None,
    measured: Callable[[np.ndarray], float] | None = None,
) -> tuple[Priced, ...]:
    """Play networks of one hidden layer with more and more modules, in 1, 2 and 4 stretches.

    run: whose loss is to be met. modules: so many alone; None: tier by tier until some number explains the networks.
    measured: a score of the outputs (N, outputs) of one network.
    """
    cuts = stretches_of(watched, STRETCHES)
    tiers = TIERS if modules is None else ((modules,),)
    found: list[Priced] = []
    spent = 0.0
    for tier in tiers:
        cost = _work(watched, max(tier)) * len(tier) * len(cuts)
        if found and (any(row.meets for row in found) or spent + cost > WORK):
            break
        said(f"playing the networks again with {tier[0]} to {tier[-1]} modules" if len(tier) > 1 else "playing again")
        spent += cost
        for stretches in cuts.values():
            plans = [[find_gating(stretch, count, key) for stretch in stretches] for count in tier]
            padded = min(max(tier), watched.incoming[:, 0, :, 0].size)
            losses, outputs = play(watched, plans, stretches, rate, padded)
            for count, plan, loss, ends in zip(tier, plans, losses, outputs, strict=True):
                score = float("nan") if measured is None else float(np.mean([measured(one) for one in ends]))
                found.append(_row(run, count, plan, loss, score))
    # one row for each number of modules and stretches: fewer patterns than modules are there only once
    once = {(row.modules, row.stretches): row for row in reversed(found)}
    return tuple(once[numbers] for numbers in sorted(once))


def deep_prices(
    run: Trajectory,
    law: Initializer | None,
    modules: int | None,
    key: int,
    measured: Callable[[np.ndarray], float] | None = None,
) -> tuple[Priced, ...]:
    """Several hidden layers: as many modules in each, one constant gating, solved from the law of the first weights.

    The gatings of a row are those of the layers, one after the other. Modules without a neuron at the end are left out.
    """
    if law is None:
        raise ProblemError("with several hidden layers the law of the first weights is required: give initial=...")
    tried = [one.occupied() for one in modules_to_try(run, "auto" if modules is None else modules, key=key)]
    described = list({one.most: one for one in reversed(tried)}.values())[::-1]  # one row for each number
    rows = []
    for one, (solved, _) in zip(described, solve_each(described, run, law, DRAWS, key), strict=True):
        score = float("nan")
        if measured is not None:
            ends = [solved.weights_at(run.time[-1:], draw)[0] for draw in range(len(solved.losses))]
            score = float(np.mean([measured(one.problem.forward(weights)["y"]) for weights in ends]))
        gatings = tuple(map(LayerGating.of_layer, one.layers))
        rows.append(Priced(one.most, 1, distance_learned(solved, run), gatings, solved.loss, score))
    return tuple(rows)


def fewest(rows: Sequence[Priced]) -> Priced:
    """The fewest modules that explain, with as few stretches as any that does; the nearest where none does."""
    good = [row for row in rows if row.meets]
    if good:
        return min(good, key=lambda row: (row.stretches, row.modules))
    return min(rows, key=lambda row: (np.nan_to_num(row.agreement.normalized_l1, nan=np.inf), row.modules))


def fewer(rows: Sequence[Priced], chosen: Priced) -> Priced | None:
    """Fewer modules that explain as well, in more stretches."""
    good = [row for row in rows if row.meets and row.modules < chosen.modules]
    return min(good, key=lambda row: (row.modules, row.stretches)) if good else None


def _row(run: Trajectory | Line, count: int, plan: Sequence[LayerGating], loss: np.ndarray, score: float) -> Priced:
    most = max(len(gating) for gating in plan)
    finite = np.where(np.isfinite(loss), loss, np.inf)
    return Priced(min(count, most), len(plan), distance_learned(Line(run.time, finite), run), tuple(plan), loss, score)


def _work(watched: Watched, modules: int) -> float:
    """Operations of playing so many modules once: the products with the moments of all pairs."""
    seen, outputs = modules * watched.inputs.shape[1], watched.network.targets.shape[1]
    return 2.0 * seen**2 * outputs * len(watched.incoming) * float(watched.steps[-1])
