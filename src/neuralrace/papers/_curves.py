"""What figures with a forecast and its trainings share: how near the one is to the mean of the others."""

import xarray

from neuralrace.analysis import Line, agreement
from neuralrace.papers.claims import Claims

NEAR = 0.05  # normalized L1 that cannot be told apart in a printed figure; ours, since the papers give no number
DISTANCE = "normalized L1 between forecast and mean run"


def distance(data: xarray.Dataset, theory: str, runs: str) -> float:
    """Normalized L1 between two variables of a dataset over its time."""
    time = data["time"].values
    return agreement(Line(time, data[theory].values), Line(time, data[runs].values)).normalized_l1


def follows(claim: Claims, data: xarray.Dataset, theory: str, runs: str) -> None:
    """That trainings, in the mean, follow a forecast."""
    claim.at_most(DISTANCE, distance(data, theory, runs), NEAR)
    claim.detail(f"{data.sizes['seed']} seeds")


def conserved(claim: Claims, drifts: tuple[float, float], finer: int, of: str) -> None:
    """That the flow conserves a quantity: its drift in descent is first order in the step.

    drifts: at a step and at one `finer` times finer, as a part of what `of` names.
    """
    coarse, fine = drifts
    what = f"its drift, first order in the step, falls at a step {finer} times finer by a factor"
    claim.within(what, coarse / fine, (finer / 2, 2 * finer))
    claim.detail(f"{coarse:.1e} and {fine:.1e} of {of}")
