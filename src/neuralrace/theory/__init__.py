"""From the statistics of a problem to its learning curve, without training anything."""

# isort: off  (the order is that of the ladder)

# The front door
from neuralrace.theory.certificate import METHODS, Assumption, Certificate

# What it returns
from neuralrace.theory.forecast import Band, Forecast, Learned, Modes
from neuralrace.theory.ladder import predict
from neuralrace.theory.reduction.equations import Equations, Variable

# The reduced system
from neuralrace.theory.reduction.system import Reduction
from neuralrace.theory.strength import InitialStrength

__all__ = [
    "METHODS",
    "Assumption",
    "Band",
    "Certificate",
    "Equations",
    "Forecast",
    "InitialStrength",
    "Learned",
    "Modes",
    "Reduction",
    "Variable",
    "predict",
]
