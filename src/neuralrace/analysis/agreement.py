"""Distances between learning curves."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, shortened


@dataclass(frozen=True)
class Line:
    """A curve as plain arrays: time (T,) and loss (T,) or (seeds, T)."""

    time: np.ndarray
    loss: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """Three distances between a prediction and the mean run.

    normalized_l1: the area between the curves over the area under the run. log10_gap: the mean distance of log10 of
    the losses, where both are positive. max_gap: the largest distance, over the run's initial loss. All are 0 for equal
    curves, also where both are zero at all times, and infinite where a curve diverged or the scale is zero.
    """

    normalized_l1: float
    log10_gap: float
    max_gap: float

    def _repr_html_(self) -> str:
        """Show the same in a notebook, as a table."""
        import pandas

        return pandas.DataFrame([vars(self)]).to_html(index=False, border=0, float_format="{:.4g}".format)


def agreement(forecast: Any, run: Any) -> Agreement:
    """Compare a prediction with a run, both as the mean over their seeds, at the times that they share.

    Either is a forecast, a trajectory or a line: anything with a time (T,) and a loss (T,) or (seeds, T).
    """
    for name, curve in (("forecast", forecast), ("run", run)):
        time, loss = getattr(curve, "time", ()), getattr(curve, "loss", ())
        if not np.size(time) or np.shape(loss)[-1:] != np.shape(time):
            raise RangeError(
                f"{name} must be a Forecast, a Trajectory or a Line, with a loss for each of its times, one or more; "
                f"it was {shortened(curve)}"
            )
    time = np.asarray(run.time)
    if np.shape(forecast.time) != time.shape or not np.allclose(forecast.time, time, rtol=1e-9, atol=1e-12):
        raise RangeError(
            f"two curves must share their times to be compared; one has {np.size(forecast.time)} and the other "
            f"{time.size}, or they differ: predict at times=run.time"
        )
    of_forecast, of_run = getattr(forecast, "settings", None), getattr(run, "settings", None)
    if of_forecast is not None and of_run is not None:
        losses = [settings.get("loss", "squared") for settings in (of_forecast, of_run)]
        if losses[0] != losses[1]:
            raise RangeError(
                f"two curves of one loss are required; the forecast is of the {losses[0]} and the run of the "
                f"{losses[1]} loss"
            )
        rate, activated = of_run.get("learning_rate"), getattr(getattr(forecast, "problem", None), "activations", None)
        if activated and rate is not None and of_forecast.get("learning_rate", rate) is None:
            warnings.warn(  # rectified networks follow the gradient flow only for small steps
                f"the run took steps of learning_rate={rate:g} and the forecast follows the gradient flow, which "
                f"ignores them: predict with learning_rate={rate:g}",
                stacklevel=2,
            )
    predicted, measured = (np.atleast_2d(curve.loss).mean(axis=0) for curve in (forecast, run))
    if not (np.isfinite(predicted).all() and np.isfinite(measured).all()):
        return Agreement(float("inf"), float("inf"), float("inf"))

    def area(values: np.ndarray) -> float:
        return float(np.trapezoid(values, time)) if time[-1] > time[0] else float(values.mean())

    def ratio(part: float, whole: float) -> float:
        return part / whole if whole > 0 else (0.0 if part == 0 else float("inf"))

    gap = np.abs(predicted - measured)
    positive = (predicted > 0) & (measured > 0)
    logs = np.log10(predicted[positive]) - np.log10(measured[positive])
    return Agreement(
        ratio(area(gap), area(np.abs(measured))),
        float(np.abs(logs).mean()) if positive.any() else ratio(float(gap.max()), 0.0),
        ratio(float(gap.max()), float(abs(measured[0]))),
    )
