"""ReLU networks as the modules of their hidden layers, and the gated networks of these modules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis import Agreement, agreement
from neuralrace.errors import GateError, RangeError, require_count
from neuralrace.initial import Initializer
from neuralrace.problem import Problem, ReLUNetwork
from neuralrace.reln.chains import as_relu_run
from neuralrace.reln.modules import EXACT, RTOL, Modules, find_modules, gated_problem, law_of_modules
from neuralrace.reln.passing import Passing, bare_gates, passing_of_run
from neuralrace.reln.recorded import network_of
from neuralrace.task import Task
from neuralrace.theory import Forecast, predict
from neuralrace.trajectory import Trajectory

ELBOW = 1.5  # the fewest modules whose error is at most so many times the least
MOST_MODULES = 6
DRAWS = 4  # of the first weights, whose mean a reconstruction is; by one alone the elbow would hang on chance


class Tried(NamedTuple):
    """One row of the elbow: how many modules, and how far their reconstruction is from the ReLU networks."""

    modules: int
    normalized_l1: float
    log10_gap: float
    consistency: float  # the least over the modules
    stretches: int = 1


@dataclass(frozen=True, eq=False)
class Layer:
    """The modules of one hidden layer.

    members: (seeds, neurons), the module of each neuron at the end, -1 silent. each: how many neurons one stands for.
    """

    name: str
    modules: Modules
    members: np.ndarray = field(repr=False)
    each: float = 1.0

    @property
    def widths(self) -> tuple[int, ...]:
        """How many neurons a module has at the end, in the mean over the runs; at least one."""
        counts = [self.each * np.sum(self.members == module, axis=1).mean() for module in range(len(self.modules))]
        return tuple(max(1, round(float(count))) for count in counts)

    def occupied(self) -> "Layer":
        """The same without modules that have no neuron at the end, unless none has any."""
        kept, found = np.unique(self.members[self.members >= 0]), self.modules
        if len(kept) in (0, len(found)):
            return self
        share = found.share[kept] / found.share[kept].sum()
        modules = Modules(found.gates[kept], found.patterns[kept], found.consistency[kept], share, found.silent)
        places = np.searchsorted(kept, self.members)
        return Layer(self.name, modules, np.where(self.members >= 0, places, -1), self.each)


@dataclass(frozen=True, eq=False)
class Modular:
    """A ReLU network as the modules of its hidden layers.

    fractional: whether the gated network has the modules' gates as they are, or their patterns.
    """

    layers: tuple[Layer, ...]
    network: ReLUNetwork = field(repr=False)
    fractional: bool

    @property
    def task(self) -> Task:
        """The examples, as they were given."""
        return self.network.given

    @property
    def most(self) -> int:
        """How many modules the layer with the most has."""
        return max(len(layer.modules) for layer in self.layers)

    @property
    def patterns(self) -> np.ndarray:
        """(k, N) of bool: for which examples each module is on; all of the first layer, then of the next."""
        return np.vstack([layer.modules.patterns for layer in self.layers])

    @property
    def gates(self) -> np.ndarray:
        """(k, N) from 0 to 1: how open the neurons of each module are; in the order of the patterns."""
        return np.vstack([layer.modules.gates for layer in self.layers])

    @property
    def modules(self) -> Modules:
        """The modules of the only hidden layer."""
        return self._only.modules

    @property
    def members(self) -> np.ndarray:
        """The members of the modules of the only hidden layer."""
        return self._only.members

    @property
    def problem(self) -> Problem:
        """The gated network, ready to train or to solve; its nodes are as wide as their modules are on average."""
        gates = [layer.modules.gates if self.fractional else layer.modules.patterns for layer in self.layers]
        return gated_problem(self.task, gates, [layer.widths for layer in self.layers], self.network.biases)

    def law(self, given: Initializer) -> Initializer:
        """A law of the ReLU network's first weights for the gated network."""
        return law_of_modules(self.problem, given)

    def occupied(self) -> "Modular":
        """The same without modules that have no neuron at the end."""
        return Modular(tuple(layer.occupied() for layer in self.layers), self.network, self.fractional)

    @property
    def _only(self) -> Layer:
        if len(self.layers) > 1:
            raise GateError(f"one hidden layer is required; there are {len(self.layers)}: look at .layers")
        return self.layers[0]


def modules_to_try(
    run: Trajectory,
    modules: int | str = "auto",
    most: int = MOST_MODULES,
    *,
    fractional: bool = False,
    bare: bool = False,
    key: int = 0,
) -> list[Modular]:
    """The modules of a run by k-means, for each number of them."""
    look, run = bare_gates if bare else passing_of_run, as_relu_run(run)
    network = network_of(run)
    layers = {layer: look(run, layer) for layer in network.architecture.hidden}
    return [
        Modular(modules_of(layers, count, isinstance(modules, str), key), network, fractional)
        for count in counts_to_try(modules, most, layers)
    ]


def modules_in(run: Trajectory, modules: int, *, key: int = 0) -> Modular:
    """So many modules of each hidden layer of a run by k-means, as `foresee` finds them in a forecast."""
    return modules_to_try(run, require_count("modules", modules), key=key)[0]


def counts_to_try(modules: int | str, most: int, layers: Mapping[str, Passing]) -> Sequence[int]:
    """The numbers of modules: as asked, or from one to `most` and no more than some layer has patterns."""
    if not isinstance(modules, str):
        return (modules,)
    distinct = max(passing.distinct for passing in layers.values())
    return range(1, min(most, max(1, distinct)) + 1)


def modules_of(
    layers: Mapping[str, Passing], count: int, at_most: bool = False, key: int = 0, each: float = 1.0
) -> tuple[Layer, ...]:
    """So many modules of each layer; at_most: or as many as it has patterns, where these are fewer."""
    found = []
    for name, passing in layers.items():
        size = min(count, max(1, passing.distinct)) if at_most else count
        modules = find_modules(passing.open, size, passing.strength, key, restarts=passing.restarts)
        found.append(Layer(name, modules, modules.nearest(passing.last), each))
    return tuple(found)


def check_modules(modules: int | str, most: int = MOST_MODULES) -> None:
    """Refuse what is neither a number of modules nor "auto", for which at most so many are tried."""
    require_count("most", most)
    if not isinstance(modules, str):
        require_count("modules", modules)
    elif modules != "auto":
        raise RangeError(f"modules must be a whole number or 'auto'; it was {modules!r}")


def solve_each(
    described: Sequence[Modular], curve: Trajectory | Forecast, law: Initializer, draws: int, key: Any
) -> list[tuple[Forecast, Agreement]]:
    """Solve the gated networks of some modules and compare them with a learning curve."""
    solved = [
        predict(one.problem, one.law(law), curve.time, EXACT, draws=draws, key=key, rtol=RTOL) for one in described
    ]
    return [(one, agreement(one, curve)) for one in solved]


def fewest_that_serve(
    described: Sequence[Modular], curve: Trajectory | Forecast, law: Initializer, draws: int, key: Any
) -> tuple[Modular, Forecast, Agreement, tuple[Tried, ...]]:
    """Of some modules the first whose error is at most ELBOW times the least, and the errors of all."""
    solved, rows = solve_each(described, curve, law, draws, key), []
    for one, (_, apart) in zip(described, solved, strict=True):
        least = min(float(layer.modules.consistency.min()) for layer in one.layers)
        rows.append(Tried(one.most, apart.normalized_l1, apart.log10_gap, least))
    errors = [row.normalized_l1 for row in rows]
    best = next(i for i, error in enumerate(errors) if error <= ELBOW * min(errors))
    return described[best], *solved[best], tuple(rows)
