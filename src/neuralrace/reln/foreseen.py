"""Modules before any training: of neurons that are drawn from the law and followed by the theory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.analysis import Agreement
from neuralrace.axes import Weights
from neuralrace.errors import WeightError, require_count, require_known, shortened
from neuralrace.initial import Initializer
from neuralrace.problem import Problem
from neuralrace.reln.chains import as_relu_network
from neuralrace.reln.course import Course, course_of_weights
from neuralrace.reln.modular import (
    DRAWS,
    MOST_MODULES,
    Layer,
    Modular,
    Tried,
    check_modules,
    counts_to_try,
    fewest_that_serve,
    modules_of,
)
from neuralrace.reln.passing import Passing, evenly, passing_of_weights
from neuralrace.theory import Forecast, NetworkFlow, Representatives, predict
from neuralrace.training import ReLUNetwork

MOMENTS = 41  # at which neurons are looked at, evenly over the times
OPTIONS = ("learning_rate", "dynamics", "rtol", "max_steps", "tolerance")  # of predict, that are passed on
METHODS = (Representatives(), NetworkFlow())


@dataclass(frozen=True, eq=False)
class Neurons:
    """Neurons that the theory followed. weights: (draws, T, target, source) each. each: how many one stands for."""

    network: Problem
    time: np.ndarray
    weights: Weights
    each: float

    @cached_property
    def passing(self) -> dict[str, Passing]:
        """What passes through the neurons of each hidden layer."""
        hidden = self.network.architecture.hidden
        return {layer: passing_of_weights(self.network, self.weights, layer) for layer in hidden}

    def layers(self, count: int, at_most: bool = False) -> tuple[Layer, ...]:
        """So many modules of each layer."""
        return modules_of(self.passing, count, at_most, each=self.each)

    def course(self, layer: Layer) -> Course:
        """How the modules of a layer fare."""
        return course_of_weights(self.network, self.weights, self.time, layer)


@dataclass(frozen=True, eq=False)
class Foreseen(Modular):
    """What a network is expected to become, before it is trained.

    forecast: of its loss. neurons: those that were followed, over time. gated: the gated network with these modules,
    from the same law; agreement: of it with the forecast; table: the same for every number of modules that was tried.
    None and empty where a number of modules was given.
    """

    forecast: Forecast = field(repr=False)
    neurons: Neurons = field(repr=False)
    gated: Forecast | None = field(default=None, repr=False)
    agreement: Agreement | None = None
    table: tuple[Tried, ...] = ()

    @cached_property
    def courses(self) -> tuple[Course, ...]:
        """When the modules of each hidden layer part, how large they are over time, and what they write."""
        return tuple(self.neurons.course(layer) for layer in self.layers)

    @property
    def course(self) -> Course:
        """The same of the only hidden layer."""
        return self.courses[self.layers.index(self._only)]

    def split(self, modules: int) -> "Foreseen":
        """The same neurons in another number of modules; nothing is followed again."""
        layers = self.neurons.layers(require_count("modules", modules))
        return Foreseen(layers, self.network, self.fractional, self.forecast, self.neurons)


def foresee(
    network: Problem,
    initial: Initializer,
    times: Sequence[float] | np.ndarray,
    modules: int | str = "auto",
    *,
    most: int = MOST_MODULES,
    draws: int = 2,
    key: Any = None,
    **options: Any,
) -> Foreseen:
    """Say which modules a ReLU network will form, when they part, what each writes and how large it is.

    Nothing is trained: neurons are drawn from the law, by a stream that no training has, and followed by `predict`, to
    which options such as learning_rate go. Of a wide hidden layer some stand for all, as there. Their
    gates are clustered by k-means. modules: how many in each layer, or "auto": the fewest whose gated network comes
    within ELBOW times the least distance from the forecast.
    """
    if not callable(initial):
        raise WeightError(f"initial must be a law such as initial.gaussian(std); it was {shortened(initial)}")
    network, initial = as_relu_network(network, initial)
    for name in options:
        require_known(name, OPTIONS, f"foresee has no option {name!r}")
    check_modules(modules, most)
    forecast = predict(network, initial, times, METHODS, key, draws=draws, **options)
    neurons = followed(network, forecast)
    some = isinstance(modules, str)
    counts = counts_to_try(modules, most, neurons.passing)
    tried = [Modular(neurons.layers(count, some), network, False) for count in counts]
    if not some:
        return Foreseen(tried[0].layers, network, False, forecast, neurons)
    chosen, gated, apart, table = fewest_that_serve(tried, forecast, initial, DRAWS, key)
    return Foreseen(chosen.layers, network, False, forecast, neurons, gated, apart, table)


def followed(network: ReLUNetwork, forecast: Forecast) -> Neurons:
    """The neurons of all draws at some of the forecast's times."""
    moments = forecast.time[evenly(len(forecast.time), MOMENTS)]
    draws = [forecast.weights_at(moments, draw) for draw in range(len(forecast.losses))]
    edges = network.architecture.edges
    weights = {edge: np.stack([[at[edge] for at in draw] for draw in draws]) for edge in edges}
    simulated = network if forecast.simulated is None else forecast.simulated
    first = network.architecture.hidden[0]
    each = network.architecture.nodes[first] / simulated.architecture.nodes[first]
    return Neurons(simulated, moments, weights, each)
