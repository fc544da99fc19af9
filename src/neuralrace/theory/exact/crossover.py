"""The task between XOR and a linear margin, and which of two gatings learns it first (P2 appendix C).

Four examples carry XOR in two coordinates and the label times Delta in a third. One gating has two paths (one per
label), the other has four (one per example). Each path is a two-layer mode.
"""

from typing import Any, NamedTuple

import numpy as np

from neuralrace.errors import RangeError
from neuralrace.theory.exact._base import read
from neuralrace.theory.exact.modes import TwoLayer


class GatingStatistics(NamedTuple):
    """What one path of a gating sees; its other paths see the same by symmetry."""

    singular_value: np.ndarray  # s of Sigma_yx(p)
    input_variance: np.ndarray  # d, the variance of Sigma_x(p, p) along that singular vector
    paths: int  # how many paths, each open for its own share of the four examples


def linear_gating(margin: Any) -> GatingStatistics:
    """Return the statistics of the two-path gating: s = Delta/2, d = Delta^2/2 (P2 eqs 13-17)."""
    margin = read("margin", margin, above=0.0, hint="at Delta = 0 the linear gating has nothing to learn from")
    return GatingStatistics(margin / 2, margin**2 / 2, 2)


def xor_gating(margin: Any) -> GatingStatistics:
    """Return the statistics of the four-path gating: s = sqrt(2 + Delta^2)/4, d = (2 + Delta^2)/4.

    The d follows from the data; P2 appendix C prints 1/8 + Delta^2/16, which is s^2 (see the errata). At Delta = 0
    this is the XOR task of P1 appendix A.1.
    """
    power = 2 + read("margin", margin, least=0.0) ** 2  # |x|^2 of each example
    return GatingStatistics(np.sqrt(power) / 4, power / 4, 4)


def crossover_margin(loss: float | None = None, initial_strength: float | None = None) -> float:
    """Return the margin Delta at which both gatings learn equally fast, found by solving for it.

    Without arguments the growth rates 2s are compared, which decide from vanishing strength (P2 eqs 24-26). With a loss
    (at most 0.4) and an initial strength (at most 0.01) the times to that loss are compared.
    """
    from scipy.optimize import brentq

    if (loss is None) != (initial_strength is None):
        missing = "loss" if loss is None else "initial_strength"
        raise RangeError(
            f"crossover_margin needs loss and initial_strength together, or neither; {missing} was left out"
        )
    level = None if loss is None else read("loss", loss, above=0.0, most=0.4)
    start = None if loss is None else read("initial_strength", initial_strength, above=0.0, most=0.01)

    def lead(log_margin: float) -> float:
        gatings = [gating(np.exp(log_margin)) for gating in (xor_gating, linear_gating)]
        if level is None:
            return float(gatings[0].singular_value - gatings[1].singular_value)
        times = [TwoLayer(s, d, start).time_to_loss(level / paths) for s, d, paths in gatings]
        return float(np.log(times[1] / times[0]))

    return float(np.exp(brentq(lead, np.log(0.05), np.log(10.0), xtol=1e-15, rtol=1e-15)))
