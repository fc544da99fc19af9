"""Experiments on many workers: one over many settings, or many side by side; killed at any time, they go on."""

from neuralrace.sweeps.reproducing import reproduced
from neuralrace.sweeps.sweeping import sweep
from neuralrace.sweeps.swept import Swept

__all__ = ["Swept", "reproduced", "sweep"]
