"""From the statistics of a problem to its learning curve, without training anything."""

# isort: off

# The entry point
from neuralrace.theory.predict import LADDER, METHODS, predict

# Its methods, strongest first: for linear nodes, and for nodes with activations
from neuralrace.theory.closed_form import ClosedForm
from neuralrace.theory.reduction.method import Reduction
from neuralrace.theory.aligned import Aligned
from neuralrace.theory.flow.method import Flow, NetworkFlow
from neuralrace.theory.representatives import Representatives

# Its results
from neuralrace.theory.forecast import Forecast
from neuralrace.theory.certificate import Assumption, Certificate
from neuralrace.theory.reduction.system import ReducedSystem

__all__ = [
    "LADDER",
    "METHODS",
    "Aligned",
    "Assumption",
    "Certificate",
    "ClosedForm",
    "Flow",
    "Forecast",
    "NetworkFlow",
    "ReducedSystem",
    "Reduction",
    "Representatives",
    "predict",
]
