"""Shared parts of figures: claims, settings, panels with letters, and the distance of forecasts from trainings."""

from typing import Any

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers.claims import Claims, enumerated
from neuralrace.papers.experiment import setting

__all__ = ["NEAR", "Claims", "apart", "conserved", "enumerated", "follows", "panels", "setting"]

NEAR = 0.05  # normalized L1 that is not visible in a printed figure; the papers give no number


def panels(*letters: str, **size: Any) -> tuple[Figure, list[Axes]]:
    """A figure with a panel for each entry: its letters in the paper, or a capital where the paper has none."""
    figure, axes = nr.plotting.new_panels(len(letters), **size)
    for axis, letter in zip(axes, letters, strict=True):
        axis.set_label(letter)
    return figure, axes


def apart(time: np.ndarray, curve: np.ndarray, runs: np.ndarray) -> nr.analysis.Agreement:
    """The distance of a curve, or of the mean of several, from the mean run."""
    return nr.agreement(nr.analysis.Line(time, curve), nr.analysis.Line(time, runs))


def follows(claim: Claims, data: xarray.Dataset, *pairs: tuple[str, str]) -> None:
    """Mean runs follow their forecasts; pairs: the variables of a forecast and of its runs."""
    time = data["time"].values
    gaps = {runs: apart(time, data[theory].values, data[runs].values).normalized_l1 for theory, runs in pairs}
    what = "normalized L1 between forecast and mean run"
    claim.at_most(what, gaps if len(gaps) > 1 else list(gaps.values()), NEAR)
    claim.detail(f"{data.sizes['seed']} seeds" if len(gaps) == 1 else "")


def conserved(claim: Claims, drifts: Any, finer: int, of: str) -> None:
    """The flow conserves a quantity: its drift in descent is first order in the step.

    drifts: at a step and at one `finer` times finer, as a part of what `of` names.
    """
    coarse, fine = drifts
    what = f"its drift, first order in the step, falls at a step {finer} times finer by a factor"
    claim.within(what, coarse / fine, (finer / 2, 2 * finer))
    claim.detail(f"{coarse:.1e} and {fine:.1e} of {of}")
