"""How far two learning curves are apart."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from neuralrace.errors import RangeError, shortened


class LossCurve(Protocol):
    """Whatever has a loss over time: a forecast or a trajectory."""

    @property
    def time(self) -> np.ndarray:
        """(T,)."""

    @property
    def loss(self) -> np.ndarray:
        """(T,), or (seeds, T)."""


@dataclass(frozen=True)
class Line:
    """A curve as plain arrays: time (T,) and loss (T,) or (seeds, T)."""

    time: np.ndarray
    loss: np.ndarray


@dataclass(frozen=True)
class Agreement:
    """Three distances between a prediction and the mean run.

    normalized_l1: the area between the curves over the area under the run. log10_gap: the mean distance of log10 of
    the losses, where both are positive. max_gap: the largest distance, over the run's first loss. All are 0 for equal
    curves, also where both are zero at all times; where there is nothing to measure by, others are infinitely far. So
    is whatever diverged, or a mean over seeds of which one did.
    """

    normalized_l1: float
    log10_gap: float
    max_gap: float


def agreement(forecast: LossCurve, run: LossCurve) -> Agreement:
    """Compare a prediction with a run, both as the mean over their seeds, at the times that they share."""
    for name, curve in (("forecast", forecast), ("run", run)):
        if not (hasattr(curve, "time") and hasattr(curve, "loss")):
            raise RangeError(
                f"{name} must be a Forecast, a Trajectory or a Line, with a time and a loss; it was {shortened(curve)}"
            )
        if not np.size(curve.time) or np.shape(curve.loss)[-1:] != np.shape(curve.time):
            raise RangeError(
                f"{name} must have a loss for each of its times, one or more; it has times of shape "
                f"{np.shape(curve.time)} and losses of shape {np.shape(curve.loss)}"
            )
    time = np.asarray(run.time)
    if np.shape(forecast.time) != time.shape or not np.allclose(forecast.time, time, rtol=1e-9, atol=1e-12):
        raise RangeError(
            f"two curves must share their times to be compared; one has {np.size(forecast.time)} and the other "
            f"{time.size}, or they differ: predict at times=run.time"
        )
    of = [_descended(forecast), _descended(run)]
    if None not in of and of[0] != of[1]:
        raise RangeError(
            f"two curves of one loss are required; the forecast is of the {of[0]} and the run of the {of[1]} loss"
        )
    _warn_of_ignored_rate(forecast, run)
    predicted, measured = _mean(forecast.loss), _mean(run.loss)
    if not (np.isfinite(predicted).all() and np.isfinite(measured).all()):
        return Agreement(float("inf"), float("inf"), float("inf"))
    gap = np.abs(predicted - measured)
    positive = (predicted > 0) & (measured > 0)
    logs = np.log10(predicted[positive]) - np.log10(measured[positive])
    return Agreement(
        normalized_l1=_ratio(_area(gap, time), _area(np.abs(measured), time)),
        log10_gap=float(np.abs(logs).mean()) if positive.any() else _ratio(float(gap.max()), 0.0),
        max_gap=_ratio(float(gap.max()), float(abs(measured[0]))),
    )


def _descended(curve: LossCurve) -> str | None:
    """Of which loss a curve is, where it says so; what theory foresees is the squared error."""
    settings = getattr(curve, "settings", None)
    if not isinstance(settings, Mapping):
        return None
    return str(settings.get("loss", "squared"))


def _warn_of_ignored_rate(forecast: LossCurve, run: LossCurve) -> None:
    """Rectified networks follow the gradient flow only for small steps, so a forecast should know their size."""
    foreseen, trained = (getattr(curve, "settings", None) for curve in (forecast, run))
    if not (isinstance(foreseen, Mapping) and isinstance(trained, Mapping)):
        return
    rate = trained.get("learning_rate")
    rectified = bool(getattr(getattr(forecast, "problem", None), "activations", None))
    if rectified and rate is not None and foreseen.get("learning_rate", rate) is None:
        warnings.warn(
            f"the run took steps of learning_rate={rate:g} and the forecast follows the gradient flow, which ignores "
            f"them: predict with learning_rate={rate:g}",
            stacklevel=3,
        )


def _mean(loss: np.ndarray) -> np.ndarray:
    loss = np.asarray(loss)
    return loss if loss.ndim == 1 else loss.mean(axis=0)


def _area(values: np.ndarray, time: np.ndarray) -> float:
    return float(np.trapezoid(values, time)) if len(time) > 1 else float(values[0])


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole > 0 else (0.0 if part == 0 else float("inf"))
