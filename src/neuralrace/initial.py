"""Initial weights: each initializer maps (network, key) to a matrix per edge."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol

import jax
import numpy as np

from neuralrace.architecture import Architecture, check_weights, edge_name
from neuralrace.arrays import LARGEST, float64, real_array
from neuralrace.axes import Edge
from neuralrace.errors import RangeError, WeightError, require_call, require_known, require_number, shortened
from neuralrace.memory import require_memory
from neuralrace.problem import BIAS
from neuralrace.source import made_of
from neuralrace.statistics import shared_bases

PerEdge = float | Mapping[Edge, float]


class Weighted(Protocol):
    """Whatever has weights to start: a Problem or a ReLUNetwork."""

    @property
    def architecture(self) -> Architecture:
        """The graph whose edges carry the weights."""


class Initializer(Protocol):
    """A law of initial weights."""

    def __call__(self, network: Weighted, key: Any) -> dict[Edge, np.ndarray]:
        """Draw one set of weights."""


@dataclass(frozen=True)
class ByShape(ABC):
    """A law that looks at nothing but the shapes of the edges; its one field is a size, for all edges or for each."""

    @abstractmethod
    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float) -> np.ndarray:
        """Draw the weights of one edge."""

    @float64
    def __call__(self, network: Weighted, key: Any) -> dict[Edge, np.ndarray]:
        """Draw one set of weights."""
        sizes, random = self.scales(network), _stream(key, network)
        shapes = {edge: network.architecture.shape(edge) for edge in sizes}
        return {edge: self.matrix(random, shapes[edge], size) for edge, size in sizes.items()}

    def scales(self, network: Weighted) -> dict[Edge, float]:
        """The size of every edge; biases start at zero unless they are named."""
        ((name, given),) = vars(self).items()
        return _per_edge(name, given, network)

    def like(self, edges: Mapping[Edge, Edge]) -> "ByShape":
        """The same law for another network, each of whose edges has the size of one that this law knows."""
        ((name, given),) = vars(self).items()
        if not isinstance(given, Mapping) or given.keys() == edges.keys():
            return self
        return replace(self, **{name: {edge: given[one] for edge, one in edges.items() if one in given}})


@dataclass(frozen=True)
class Gaussian(ByShape):
    """Independent normal entries with mean zero."""

    std: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float) -> np.ndarray:
        """Entries of this standard deviation."""
        return size * random.standard_normal(shape)


@dataclass(frozen=True)
class Orthogonal(ByShape):
    """Random matrices with every singular value equal to the gain (P1 sigma_0)."""

    gain: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float) -> np.ndarray:
        """Of this gain."""
        return size * _random_orthogonal(random, *shape)


@dataclass(frozen=True)
class Xavier(ByShape):
    """Uniform entries between plus and minus gain * sqrt(6 / (fan in + fan out)), the sizes of the edge's two ends."""

    gain: PerEdge

    def matrix(self, random: np.random.Generator, shape: tuple[int, int], size: float) -> np.ndarray:
        """Of this gain."""
        return size * np.sqrt(6 / sum(shape)) * random.uniform(-1, 1, shape)


@dataclass(frozen=True)
class Decoupled:
    """Weights that are diagonal in the shared bases of the problem (P1 eq. 9): W_e = R_t B_e R_s^T.

    values: b_e, the mode strengths: one number for all, or per edge a number or one number per mode. R is U at the
    outputs, V at the inputs and a random orthonormal basis at hidden nodes; a hidden node narrower than the number
    of modes carries the strongest ones.
    """

    values: float | Mapping[Edge, Any]
    tolerance: float = 1e-8

    @float64
    def __call__(self, network: Any, key: Any) -> dict[Edge, np.ndarray]:
        """Draw one set of weights."""
        if getattr(network, "activations", None):
            raise WeightError(
                "decoupled weights need linear nodes, whose statistics have modes; this problem has activations: "
                "use gaussian"
            )
        bases = shared_bases(network.statistics())
        statistic, residual = bases.worst
        if residual > self.tolerance:
            raise WeightError(
                f"decoupled weights need statistics that are diagonal in shared bases; {statistic} is off by "
                f"{residual:.2g} (tolerance {self.tolerance:.2g}): start from gaussian or orthogonal weights instead"
            )
        architecture = network.architecture
        rotation = {**bases.inputs, **bases.outputs}
        count = next(iter(rotation.values())).shape[1]
        random = _stream(key, network)
        for node in architecture.hidden:
            size = architecture.nodes[node]
            rotation[node] = np.zeros((size, count))
            rotation[node][:, : min(size, count)] = _random_orthogonal(random, size, min(size, count))
        weights: dict[Edge, np.ndarray] = {}
        for edge, (source, target) in architecture.edges.items():
            strength = _mode_strengths(self.values, edge, count)
            weights[edge] = (rotation[target] * strength) @ rotation[source].T
        return weights


LAWS: dict[str, type[ByShape] | type[Decoupled]] = {
    "gaussian": Gaussian,
    "orthogonal": Orthogonal,
    "xavier": Xavier,
    "decoupled": Decoupled,
}
GIVEN, OWN = "given", "own"  # what a record calls weights that were given, and a law that is none of ours


def gaussian(std: PerEdge) -> Gaussian:
    """Independent normal weights with the given standard deviation: one number, or one per edge."""
    return Gaussian(std)


def xavier(gain: PerEdge = 1.0) -> Xavier:
    """Uniform weights within gain * sqrt(6 / (fan in + fan out)): one gain, or one per edge."""
    return Xavier(gain)


def orthogonal(gain: PerEdge) -> Orthogonal:
    """Random orthogonal weights times a gain: one number, or one per edge."""
    return Orthogonal(gain)


def decoupled(values: float | Mapping[Edge, Any]) -> Decoupled:
    """Weights that are diagonal in the modes of the problem: one strength, or one (or one per mode) for each edge."""
    return Decoupled(values)


def as_data(initial: Any) -> dict[str, Any]:
    """What a record keeps of its initial weights, in plain values that JSON can hold and `from_data` reads back.

    {"law": "gaussian", "std": 0.1}, the number of every edge as a list of [edge, number]; {"law": "given"} for weights,
    one set or one for each seed; {"law": "own", "made": ...} for a law of one's own, which is told and not read back.
    """
    if isinstance(initial, (Mapping, list, tuple)):
        return {"law": GIVEN}
    for name, law in LAWS.items():
        if isinstance(initial, law):
            return {"law": name} | {part.name: _plain(getattr(initial, part.name)) for part in fields(initial)}
    return {"law": OWN, "made": made_of(initial)}


def from_data(data: Mapping[str, Any]) -> Initializer | None:
    """The law that `as_data` wrote; None for given weights, and for a law of one's own."""
    law = LAWS.get(data["law"])
    if law is None:
        return None
    numbers = {name: _from_plain(value) for name, value in data.items() if name != "law"}
    if set(numbers) != {part.name for part in fields(law)}:
        raise WeightError(
            f"the law {data['law']!r} has {', '.join(part.name for part in fields(law))}; "
            f"the record names {', '.join(numbers) or 'nothing'}"
        )
    return law(**numbers)


def key_as_data(key: Any) -> int | list[int]:
    """A key in plain values: an integer seed is itself, a JAX key the words that it is made of."""
    if isinstance(key, (int, np.integer)):
        return int(key)
    return np.asarray(jax.random.key_data(as_key(key))).ravel().tolist()


def key_from_data(data: int | Sequence[int]) -> jax.Array:
    """The key that `key_as_data` wrote."""
    return as_key(data) if isinstance(data, int) else as_key(jax.numpy.asarray(data, dtype=np.uint32))


def as_key(key: Any) -> jax.Array:
    """Accept an integer seed or a JAX key."""
    if isinstance(key, (int, np.integer)) and not isinstance(key, bool):
        if not -(1 << 63) <= int(key) < 1 << 63:
            raise RangeError(f"key must be from -2^63 to 2^63 - 1; it was {shortened(key)}")
        return jax.random.key(int(key))
    if isinstance(key, jax.Array):
        return key if jax.numpy.issubdtype(key.dtype, jax.dtypes.prng_key) else jax.random.wrap_key_data(key)
    raise WeightError(f"key must be an integer seed or a JAX key; it was {type(key).__name__}")


def draw(initial: Any, network: Weighted, key: Any) -> Mapping[Edge, Any]:
    """Weights from an initializer, checked unless the law fits by what it is; or the given weights themselves."""
    if isinstance(initial, Mapping):
        return initial
    if not callable(initial):
        raise WeightError(
            f"initial must be an initializer such as initial.gaussian(std), or weights by edge; it was {initial!r}"
        )
    if not isinstance(initial, tuple(LAWS.values())):
        require_call("initial, a law of your own,", initial, "the network and a key", network, key)
    drawn: Mapping[Edge, Any] = initial(network, key)
    return drawn if isinstance(initial, ByShape) else check_weights(network.architecture, drawn)


def _stream(key: Any, network: Weighted) -> np.random.Generator:
    """A stream of random numbers that the key decides; JAX's own draws compile anew for every shape."""
    size = network.architecture.weight_count
    require_memory(f"{size:,} weights", 8 * size, "give fewer neurons")
    return np.random.default_rng(np.asarray(jax.random.key_data(as_key(key))).ravel().tolist())


def _plain(value: Any) -> Any:
    """A number, or the numbers of every edge as a list of [edge, number or numbers]."""
    if isinstance(value, Mapping):
        return [[edge if isinstance(edge, str) else list(edge), _plain(number)] for edge, number in value.items()]
    return np.asarray(value, dtype=np.float64).tolist()


def _from_plain(value: Any) -> Any:
    if not isinstance(value, list) or not all(isinstance(pair, list) for pair in value):
        return value
    return {edge if isinstance(edge, str) else (edge[0], edge[1]): number for edge, number in value}


def _per_edge(name: str, value: PerEdge, network: Weighted) -> dict[Edge, float]:
    """A number for each edge; biases start at zero unless they are named."""
    architecture = network.architecture
    if not isinstance(value, Mapping):
        number = require_number(name, value, least=0, most=LARGEST / 100)
        biases = getattr(network, "biases", False)
        return {e: 0.0 if biases and ends[0] == BIAS else number for e, ends in architecture.edges.items()}
    for edge in value:
        require_known(edge, architecture.edges, f"{name} names edge {edge!r}, which is not there")
    for edge in architecture.edges:
        if edge not in value:
            raise WeightError(f"{name} must have a number for every edge; {edge_name(edge)} has none")
    return {
        e: require_number(f"{name} of edge {edge_name(e)}", value[e], least=0, most=LARGEST / 100)
        for e in architecture.edges
    }


def _mode_strengths(values: float | Mapping[Edge, Any], edge: Edge, count: int) -> np.ndarray:
    if isinstance(values, Mapping) and edge not in values:
        raise WeightError(f"values must have a strength for every edge; {edge_name(edge)} has none")
    given = values[edge] if isinstance(values, Mapping) else values
    value = real_array(f"the strength of edge {edge_name(edge)}", given, WeightError)
    if value.shape not in ((), (count,)) or not np.isfinite(value).all():
        raise WeightError(
            f"the strength of edge {edge_name(edge)} must be one finite number or one per mode, {count}; "
            f"it has shape {value.shape}"
        )
    return np.broadcast_to(value, (count,))


def _random_orthogonal(random: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """A matrix with orthonormal rows or columns, whichever are fewer, uniform over all such."""
    draw = random.standard_normal((max(rows, columns), min(rows, columns)))
    left, triangle = np.linalg.qr(draw)
    left = left * np.sign(np.diagonal(triangle))
    return left if rows >= columns else left.T
