# the values that a problem is made of
from . import batches as batches, initial as initial, tasks as tasks, weights as weights
from .activations import leaky_relu as leaky_relu
from .architecture import Architecture as Architecture, Path as Path
from .arrays import float64 as float64
from .errors import NeuralRaceError as NeuralRaceError
from .gates import Gates as Gates
from .statistics import PathStatistics as PathStatistics
from .problem import Problem as Problem
from .task import Task as Task

# theory: from statistics to a learning curve
from . import networks as networks, theory as theory
from .theory import predict as predict

# training, and what it returns
from .training import ReLUNetwork as ReLUNetwork, RoutedNetwork as RoutedNetwork, train as train
from .trajectory import Trajectory as Trajectory, compare as compare

# comparing the two
from . import analysis as analysis
from .analysis import agreement as agreement

# ReLU networks read through gates, and the race of views
from . import reln as reln, views as views

# the figures of the papers, one task explained, and sweeps
from . import papers as papers, plotting as plotting
from .explanation import Explanation as Explanation, explain as explain
from .sweeps import sweep as sweep
