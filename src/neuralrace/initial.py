"""Initial weights: each initializer maps (network, key) to a matrix per edge."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from neuralrace.architecture import Architecture, check_weights, edge_name
from neuralrace.arrays import LARGEST, finite_array, float64
from neuralrace.axes import Edge
from neuralrace.errors import RangeError, WeightError, require_call, require_known, require_number, shortened
from neuralrace.memory import require_memory
from neuralrace.problem import BIAS
from neuralrace.statistics import shared_bases

Initializer = Callable[[Any, Any], Mapping[Edge, Any]]  # draws one set of weights for a problem with a key
PerEdge = float | Mapping[Edge, float]


@dataclass(frozen=True)
class ByShape(ABC):
    """An initializer that depends on the shapes of the edges alone; its one field is a size, for all edges or each."""

    @abstractmethod
    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float, fans: int) -> np.ndarray:
        """Draw the weights of one edge; fans: fan in plus fan out."""

    @float64
    def __call__(self, network: Any, key: Any) -> dict[Edge, np.ndarray]:
        """Draw one set of weights."""
        random, graph = _random(key, network), network.architecture
        found: dict[Edge, np.ndarray] = {}
        for edge, size in self.scales(network).items():
            found[edge] = self.parameter(random, graph.parameters[edge], graph.fans[edge], size)
        return found

    def parameter(
        self, random: np.random.Generator, shape: tuple[int, ...], fans: tuple[int, int], size: float
    ) -> np.ndarray:
        """Draw a parameter of any shape; of several matrices, or single numbers, each by itself."""
        *lead, rows, columns = (1, 1, *shape)[-max(len(shape), 2) :]
        drawn = [self.matrix(random, (rows, columns), size, sum(fans)) for _ in range(math.prod(lead))]
        return np.reshape(drawn, shape)

    def scales(self, network: Any) -> dict[Edge, float]:
        """Return the size of every edge; biases start at zero unless they are named."""
        ((name, given),) = vars(self).items()
        edges, most, of = network.architecture.edges, LARGEST / 100, isinstance(given, Mapping)
        maps = network.architecture.maps
        biases = {maps[edge][0] for edge, (source, _) in edges.items() if source == BIAS}
        sizes: dict[Edge, float] = {}
        for edge, size in _by_edge(name, given, network.architecture).items():
            label = f"{name} of edge {edge_name(edge)}" if of else name
            sizes[edge] = require_number(label, size, least=0, most=most)
            if not of and getattr(network, "biases", False) and edge in biases:
                sizes[edge] = 0.0
        return sizes

    def like(self, edges: Mapping[Edge, Edge]) -> "ByShape":
        """Return the same for another network, each of whose edges takes the size of one known here."""
        ((name, given),) = vars(self).items()
        if not isinstance(given, Mapping) or given.keys() == edges.keys():
            return self
        return replace(self, **{name: {edge: given[one] for edge, one in edges.items() if one in given}})


def _by_edge(name: str, given: Any, architecture: Architecture) -> dict[Edge, Any]:
    """Return a value for every edge, in order, from one value for all or from values by edge."""
    if not isinstance(given, Mapping):
        return dict.fromkeys(architecture.parameters, given)
    for edge in given:
        require_known(edge, architecture.parameters, f"{name} names unknown edge {edge!r}")
    for edge in architecture.parameters:
        if edge not in given:
            raise WeightError(f"{name} must have a value for every edge; {edge_name(edge)} has none")
    return {edge: given[edge] for edge in architecture.parameters}


@dataclass(frozen=True)
class Gaussian(ByShape):
    """Independent normal entries with mean zero; std: one number, or one per edge."""

    std: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float, fans: int) -> np.ndarray:
        """Draw entries of this standard deviation."""
        return size * random.standard_normal(shape)


@dataclass(frozen=True)
class Relative(ByShape):
    """Gaussian entries; scale: their standard deviation as a fraction of Xavier's, sqrt(2 / (fan in + fan out)).

    One number means the same for every width and depth. scale: one number, or one per edge.
    """

    scale: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float, fans: int) -> np.ndarray:
        """Draw entries of this standard deviation."""
        return size * random.standard_normal(shape)

    def scales(self, network: Any) -> dict[Edge, float]:
        """Return the standard deviation of every edge."""
        fans = network.architecture.fans
        return {edge: scale * float(np.sqrt(2 / sum(fans[edge]))) for edge, scale in super().scales(network).items()}


@dataclass(frozen=True)
class Orthogonal(ByShape):
    """Random matrices with every singular value equal to the gain (P1 sigma_0): one number, or one per edge."""

    gain: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float, fans: int) -> np.ndarray:
        """Draw a matrix of this gain."""
        return size * _random_orthogonal(random, *shape)


@dataclass(frozen=True)
class Xavier(ByShape):
    """Uniform entries between plus and minus gain * sqrt(6 / (fan in + fan out)), the sizes of the edge's two ends."""

    gain: PerEdge = 1.0

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float, fans: int) -> np.ndarray:
        """Draw entries within the bound."""
        return size * np.sqrt(6 / fans) * random.uniform(-1, 1, shape)


@dataclass(frozen=True)
class Decoupled:
    """Weights that are diagonal in the shared bases of the problem (P1 eq. 9): W_e = R_t B_e R_s^T.

    values: b_e, the mode strengths: one number for all, or per edge a number or one number per mode. R is U at the
    outputs, V at the inputs and a random orthonormal basis at hidden nodes; a hidden node narrower than the number
    of modes carries the strongest ones.
    """

    values: float | Mapping[Edge, Any]

    @float64
    def __call__(self, network: Any, key: Any) -> dict[Edge, np.ndarray]:
        """Draw one set of weights."""
        bases, architecture, values = shared_bases(network.statistics()), network.architecture, self.values
        if architecture.weights:
            raise WeightError("decoupled weights need free matrices; this network has parametrized ones: use gaussian")
        statistic, residual = bases.worst
        if residual > 1e-8:
            raise WeightError(
                f"decoupled weights need statistics that are diagonal in shared bases; {statistic} is off by "
                f"{residual:.2g} (tolerance 1e-08): start from gaussian or orthogonal weights instead"
            )
        rotation = {**bases.inputs, **bases.outputs}
        count, random = next(iter(rotation.values())).shape[1], _random(key, network)
        for node in architecture.hidden:
            size = architecture.nodes[node]
            rotation[node] = np.zeros((size, count))
            rotation[node][:, : min(size, count)] = _random_orthogonal(random, size, min(size, count))
        weights: dict[Edge, np.ndarray] = {}
        for edge, value in _by_edge("values", values, architecture).items():
            name, (source, target) = f"the strength of edge {edge_name(edge)}", architecture.edges[edge]
            strength = finite_array(name, value, WeightError, ("mode",))
            if strength.shape not in ((), (count,)):
                raise WeightError(f"{name} must be one number or one per mode, {count}; it has shape {strength.shape}")
            weights[edge] = (rotation[target] * np.broadcast_to(strength, (count,))) @ rotation[source].T
        return weights


gaussian, relative, orthogonal, xavier, decoupled = Gaussian, Relative, Orthogonal, Xavier, Decoupled
NAMED: dict[str, type[ByShape] | type[Decoupled]] = {
    kind.__name__.lower(): kind for kind in (Gaussian, Relative, Orthogonal, Xavier, Decoupled)
}


def absolute(initial: Any, network: Any) -> Any:
    """Return the Gaussian that a `relative` initializer is for this network, and any other one unchanged.

    A method that replaces a network by a smaller one keeps the standard deviations of the original.
    """
    return Gaussian(initial.scales(network)) if isinstance(initial, Relative) else initial


def as_data(initial: Any) -> dict[str, Any]:
    """Describe initial weights in plain values that JSON can hold and `from_data` reads back.

    {"name": "gaussian", "std": 0.1}, numbers by edge as a list of [edge, number]; {"name": "given"} for weights, one
    set or one for each seed; {"name": "own", "repr": ...} for an initializer of your own, which is not read back.
    """
    if isinstance(initial, (Mapping, list, tuple)):
        return {"name": "given"}
    if not isinstance(initial, tuple(NAMED.values())):
        return {"name": "own", "repr": shortened(initial)}
    ((field, value),) = vars(initial).items()
    by_edge = isinstance(value, Mapping)
    plain = [[e, np.asarray(v).tolist()] for e, v in value.items()] if by_edge else np.asarray(value).tolist()
    return {"name": type(initial).__name__.lower(), field: plain}


def from_data(data: Mapping[str, Any]) -> Initializer | None:
    """Make the initializer that `as_data` described; None for given weights, and for one of your own."""
    if data["name"] not in NAMED:
        return None
    ((field, value),) = ((name, value) for name, value in data.items() if name != "name")
    if isinstance(value, list) and all(isinstance(pair, list) for pair in value):
        value = {edge if isinstance(edge, str) else tuple(edge): number for edge, number in value}
    return NAMED[data["name"]](**{field: value})


def key_as_data(key: Any) -> int | list[int]:
    """Describe a key in plain values: an integer seed is itself, a JAX key the words that it is made of."""
    if isinstance(key, (int, np.integer)):
        return int(key)
    return np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()


def as_key(key: Any) -> jax.Array:
    """Accept an integer seed or a JAX key."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(1 << 63) <= int(key) < 1 << 63:
            raise RangeError(f"key must be from -2^63 to 2^63 - 1; it was {shortened(key)}")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array):
        return key if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
    raise WeightError(f"key must be an integer seed or a JAX key; it was {type(key).__name__}")


def seed_words(key: Any) -> list[int]:
    """Return a key as what NumPy's generators are seeded with, numbers that are not negative."""
    as_key(key)  # refuses anything else
    words = key_as_data(key)
    return [words % (1 << 64)] if isinstance(words, int) else words


def draw(initial: Any, network: Any, key: Any) -> Mapping[Edge, Any]:
    """Draw weights from an initializer, checked unless they fit by construction; or take given weights."""
    if isinstance(initial, Mapping):
        return initial
    if not callable(initial):
        raise WeightError(
            f"initial must be an initializer such as initial.gaussian(std), or weights by edge; it was {initial!r}"
        )
    if not isinstance(initial, tuple(NAMED.values())):
        require_call("initial, an initializer of your own,", initial, "the network and a key", network, key)
    drawn: Mapping[Edge, Any] = initial(network, key)
    return drawn if isinstance(initial, ByShape) else check_weights(network.architecture, drawn)


def _random(key: Any, network: Any) -> np.random.Generator:
    """NumPy's generator, seeded by the key; JAX's own draws compile anew for every shape."""
    size = network.architecture.weight_count
    require_memory(f"{size:,} weights", 8 * size, "give fewer neurons")
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).ravel().tolist())


def _random_orthogonal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A matrix with orthonormal rows or columns, whichever are fewer, uniform over all such."""
    draw = random.standard_normal((max(rows, columns), min(rows, columns)))
    left, triangle = np.linalg.qr(draw)
    left = left * np.sign(np.diagonal(triangle))
    return left if rows >= columns else left.T
