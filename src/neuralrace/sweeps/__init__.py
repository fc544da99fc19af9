"""An experiment over many settings, on many workers; killed at any time it goes on where it was."""

from neuralrace.sweeps.sweeping import sweep
from neuralrace.sweeps.swept import Swept

__all__ = ["Swept", "sweep"]
