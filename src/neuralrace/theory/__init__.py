"""From the statistics of a problem to its learning curve, without training anything."""

# isort: off  (the order is that of the ladder)

# The front door, and its methods, strongest first
from neuralrace.theory.activated.method import NetworkFlow
from neuralrace.theory.aligned.method import Aligned
from neuralrace.theory.alignment import InitialStrength

# What it returns
from neuralrace.theory.certificate import Assumption, Certificate, Declined
from neuralrace.theory.closed_form import ClosedForm
from neuralrace.theory.flow.method import Flow
from neuralrace.theory.forecast import Band, Forecast, Learned, Modes
from neuralrace.theory.ladder import LADDER, METHODS, predict

# The reduced system
from neuralrace.theory.reduction.equations import Equations, Variable
from neuralrace.theory.reduction.method import Reduction
from neuralrace.theory.reduction.system import ReducedSystem

# Neurons that stand for many
from neuralrace.theory.representatives.layers import NarrowerLayers
from neuralrace.theory.representatives.method import Representatives

__all__ = [
    "LADDER",
    "METHODS",
    "Aligned",
    "Assumption",
    "Band",
    "Certificate",
    "ClosedForm",
    "Declined",
    "Equations",
    "Flow",
    "Forecast",
    "InitialStrength",
    "Learned",
    "Modes",
    "NarrowerLayers",
    "NetworkFlow",
    "ReducedSystem",
    "Reduction",
    "Representatives",
    "Variable",
    "predict",
]
