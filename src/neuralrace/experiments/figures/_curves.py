"""What figures with a forecast and its trainings share: how near the one is to the mean of the others."""

import xarray

from neuralrace.analysis import Line, agreement
from neuralrace.experiments.claim import HOLDS, Claim

NEAR = 0.05  # normalised L1 that cannot be told apart in a printed figure; ours, since the papers give no number
DISTANCE = "normalised L1 between forecast and mean run"


def distance(data: xarray.Dataset, theory: str, runs: str) -> float:
    """Normalised L1 between two variables of a dataset over its time."""
    time = data["time"].values
    return agreement(Line(time, data[theory].values), Line(time, data[runs].values)).normalised_l1


def follows(
    text: str, source: str, kind: str, data: xarray.Dataset, theory: str, runs: str, on_record: str = HOLDS
) -> Claim:
    """The claim that trainings, in the mean, follow a forecast."""
    detail = f"{data.sizes['seed']} seeds"
    return Claim.at_most(text, source, kind, DISTANCE, distance(data, theory, runs), NEAR, on_record, detail=detail)


def conserved(text: str, source: str, drifts: tuple[float, float], finer: int, of: str) -> Claim:
    """The claim that the flow conserves a quantity: its drift in descent is first order in the step.

    drifts: at a step and at one `finer` times finer, as a part of what `of` names.
    """
    coarse, fine = drifts
    what = f"its drift, first order in the step, falls at a step {finer} times finer by a factor"
    detail = f"{coarse:.1e} and {fine:.1e} of {of}"
    return Claim.within(text, source, "check", what, coarse / fine, (finer / 2, 2 * finer), detail=detail)
