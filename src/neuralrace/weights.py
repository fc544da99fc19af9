"""Parametrizations: how the weight matrix of an edge is a linear function of parameters.

An edge that is not named in `Architecture(..., weights=...)` has a free matrix. Because the matrix is linear in its
parameters, the gradient with respect to these is the adjoint of the map, summed over the edges that share them.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np

from neuralrace.arrays import finite_array
from neuralrace.axes import Array, Edge
from neuralrace.errors import ProblemError, require_count, require_kind, require_known

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Parametrization(ABC):
    """A linear map from a parameter to the matrix of an edge; a frozen value.

    name: of the parameter; edges with one name share it. None: the edge's own.
    """

    name: str | None = field(default=None, kw_only=True)
    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        if self.name is not None and (not isinstance(self.name, str) or not self.name or set(self.name) & set("/[]")):
            raise ProblemError(
                f"the name of shared weights must be a text without '/' and brackets; it was {self.name!r}"
            )

    @abstractmethod
    def shape(self, rows: int, columns: int) -> Shape:
        """The shape of the parameter of a matrix (rows, columns), or an error if no such matrix can be made."""

    @abstractmethod
    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The matrix, (..., rows, columns), of a parameter with any leading axes."""

    def fans(self, rows: int, columns: int) -> tuple[int, int]:
        """The fan in and the fan out of a weight, which decide its scale in xavier and relative initializers."""
        return columns, rows

    def as_data(self) -> dict[str, Any]:
        """Describe the parametrization in plain values, which `as_parametrization` reads."""
        plain = {one.name: getattr(self, one.name) for one in fields(self)}
        return {"kind": self.kind} | {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in plain.items()}


def _library(array: Array) -> Any:
    return np if isinstance(array, np.ndarray) else jnp


def _divided(size: int, parts: int, what: str) -> int:
    if size % parts:
        raise ProblemError(f"{what} must divide the sizes of both nodes; {parts} does not divide {size}")
    return size // parts


@dataclass(frozen=True)
class Free(Parametrization):
    """Every entry is a parameter."""

    kind: ClassVar = "free"

    def shape(self, rows: int, columns: int) -> Shape:
        """(rows, columns)."""
        return rows, columns

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The parameter itself."""
        return parameter


@dataclass(frozen=True)
class Transposed(Parametrization):
    """The transpose of the matrix of another edge."""

    edge: Edge
    kind: ClassVar = "transposed"

    def shape(self, rows: int, columns: int) -> Shape:
        """None of its own: the architecture finds the parameter of the other edge."""
        raise NotImplementedError

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The transpose."""
        return _library(parameter).swapaxes(parameter, -1, -2)


@dataclass(frozen=True)
class ScaledIdentity(Parametrization):
    """One number times the identity."""

    kind: ClassVar = "scaled_identity"

    def shape(self, rows: int, columns: int) -> Shape:
        """A single number."""
        if rows != columns:
            raise ProblemError(f"a multiple of the identity joins nodes of one size; they have {columns} and {rows}")
        return ()

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The number on the diagonal."""
        return parameter[..., None, None] * np.eye(rows)

    def fans(self, rows: int, columns: int) -> tuple[int, int]:
        """One neuron each."""
        return 1, 1


@dataclass(frozen=True)
class Convolution(Parametrization):
    """A one-dimensional convolution: a kernel of `width` numbers for each pair of channels.

    Neurons of a node are its channels one after the other, each with one neuron for every place. Place i receives from
    the places i - width // 2 to i - width // 2 + width - 1. periodic: the last place is beside the first; otherwise
    there are zeros beyond both ends.
    """

    width: int
    inputs: int = 1
    outputs: int = 1
    periodic: bool = True
    kind: ClassVar = "convolution"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("width", "inputs", "outputs"):
            require_count(name, getattr(self, name))

    def shape(self, rows: int, columns: int) -> Shape:
        """(outputs, inputs, width)."""
        places = _divided(columns, self.inputs, "the number of input channels")
        if _divided(rows, self.outputs, "the number of output channels") != places:
            raise ProblemError(
                f"a convolution keeps the number of places; {columns} neurons in {self.inputs} channels have {places} "
                f"and {rows} in {self.outputs} have {rows // self.outputs}"
            )
        if self.width > places:
            raise ProblemError(f"a kernel must be at most as wide as its input, {places}; it was {self.width}")
        return self.outputs, self.inputs, self.width

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """A circulant or Toeplitz matrix for each pair of channels."""
        places = columns // self.inputs
        offset = np.arange(places) - np.arange(places)[:, None] + self.width // 2
        offset = offset % places if self.periodic else np.where((offset >= 0) & (offset < places), offset, places)
        padded = _library(parameter).zeros((*parameter.shape[:-1], places + 1 - self.width), parameter.dtype)
        entries = _library(parameter).concatenate([parameter, padded], axis=-1)[..., offset]  # (..., out, in, p, p)
        lead = parameter.shape[:-3]
        return _library(parameter).swapaxes(entries, -3, -2).reshape(*lead, rows, columns)

    def fans(self, rows: int, columns: int) -> tuple[int, int]:
        """Channels times width."""
        return self.inputs * self.width, self.outputs * self.width


@dataclass(frozen=True)
class BlockDiagonal(Parametrization):
    """Independent blocks of equal size on the diagonal."""

    blocks: int
    kind: ClassVar = "block_diagonal"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("blocks", self.blocks)

    def shape(self, rows: int, columns: int) -> Shape:
        """(blocks, rows of one, columns of one)."""
        return self.blocks, *(_divided(size, self.blocks, "the number of blocks") for size in (rows, columns))

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The blocks, zeros elsewhere."""
        spread = np.eye(self.blocks)[:, None, :, None] * parameter[..., :, :, None, :]
        return spread.reshape(*parameter.shape[:-3], rows, columns)

    def fans(self, rows: int, columns: int) -> tuple[int, int]:
        """Those of a block."""
        return columns // self.blocks, rows // self.blocks


@dataclass(frozen=True)
class KronIdentity(Parametrization):
    """A free matrix, Kronecker the identity of size n: the same matrix acts on n interleaved sets of neurons."""

    n: int
    kind: ClassVar = "kron_identity"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("n", self.n)

    def shape(self, rows: int, columns: int) -> Shape:
        """The shape of the free matrix."""
        return tuple(_divided(size, self.n, "the size of the identity") for size in (rows, columns))

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """Kronecker product of the parameter and the identity."""
        spread = parameter[..., :, None, :, None] * np.eye(self.n)[:, None, :]
        return spread.reshape(*parameter.shape[:-2], rows, columns)

    def fans(self, rows: int, columns: int) -> tuple[int, int]:
        """Those of the free matrix."""
        return columns // self.n, rows // self.n


class _WithArray(Parametrization):
    """A parametrization by an array, equal to another where the arrays are equal."""

    def __repr__(self) -> str:
        ((name, array),) = ((k, v) for k, v in vars(self).items() if isinstance(v, np.ndarray))
        return f"{type(self).__name__}({name} of shape {array.shape})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._key == getattr(other, "_key", None)

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.kind, self.name, *(v.tobytes() for v in vars(self).values() if isinstance(v, np.ndarray))


@dataclass(frozen=True, eq=False, repr=False)
class Frozen(_WithArray):
    """A constant matrix, which is not trained."""

    W: np.ndarray
    kind: ClassVar = "frozen"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "W", finite_array("frozen weights", self.W, ProblemError, ("row", "column")))

    def shape(self, rows: int, columns: int) -> Shape:
        """There is nothing to train."""
        if self.W.shape != (rows, columns):
            raise ProblemError(
                f"frozen weights must have shape (target, source) = {rows, columns}; it is {self.W.shape}"
            )
        return (0,)

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The constant."""
        return self.W


@dataclass(frozen=True, eq=False, repr=False)
class Linear(_WithArray):
    """Any other linear map: the sum of basis matrices, one for each parameter."""

    basis: np.ndarray
    kind: ClassVar = "linear"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "basis", finite_array("basis", self.basis, ProblemError, ("parameter", "row")))

    def shape(self, rows: int, columns: int) -> Shape:
        """One number for each matrix of the basis."""
        if self.basis.ndim != 3 or self.basis.shape[1:] != (rows, columns):
            raise ProblemError(
                f"a basis must have shape (parameters, target, source) = (..., {rows}, {columns}); it is "
                f"{self.basis.shape}"
            )
        return self.basis.shape[:1]

    def matrix(self, parameter: Array, rows: int, columns: int) -> Array:
        """The combination of the basis matrices."""
        return _library(parameter).tensordot(parameter, self.basis, axes=1)


def shared(name: str) -> Free:
    """The same free matrix on every edge with this name."""
    return Free(name=name)


def transposed(edge: Edge) -> Transposed:
    """The transpose of the matrix of another edge."""
    return Transposed(edge)


def scaled_identity(name: str | None = None) -> ScaledIdentity:
    """A number times the identity."""
    return ScaledIdentity(name=name)


def circulant(width: int, inputs: int = 1, outputs: int = 1, name: str | None = None) -> Convolution:
    """A periodic one-dimensional convolution with a kernel of this width for each pair of channels."""
    return Convolution(width, inputs, outputs, name=name)


def toeplitz(width: int, inputs: int = 1, outputs: int = 1, name: str | None = None) -> Convolution:
    """A one-dimensional convolution with zeros beyond both ends."""
    return Convolution(width, inputs, outputs, periodic=False, name=name)


def block_diagonal(blocks: int, name: str | None = None) -> BlockDiagonal:
    """Independent blocks on the diagonal."""
    return BlockDiagonal(blocks, name=name)


def kron_identity(n: int, name: str | None = None) -> KronIdentity:
    """A free matrix, Kronecker the identity of size n."""
    return KronIdentity(n, name=name)


def frozen(W: Any) -> Frozen:
    """A constant matrix, (target, source)."""
    return Frozen(W)


def linear(basis: Any, name: str | None = None) -> Linear:
    """Any linear map, as an array (parameters, target, source)."""
    return Linear(basis, name=name)


def as_parametrization(given: Any) -> Parametrization:
    """Make a parametrization from its `as_data`; return one unchanged."""
    if not isinstance(given, Mapping):
        require_kind("weights of an edge", given, Parametrization, ProblemError)
        made: Parametrization = given
        return made
    data, known = dict(given), _kinds(Parametrization)
    kind = str(data.pop("kind", None))
    require_known(kind, known, f"there is no parametrization {kind!r}")
    if isinstance(data.get("edge"), list):
        data["edge"] = tuple(data["edge"])
    wanted = {one.name for one in fields(known[kind])}
    needed = {one.name for one in fields(known[kind]) if one.default is MISSING}
    if not needed <= data.keys() <= wanted:
        raise ProblemError(f"a parametrization {kind!r} has {sorted(wanted)}; {sorted(data)} were given")
    return known[kind](**data)


def _kinds(of: Any) -> dict[str, type[Parametrization]]:
    """Map the kinds to all imported subclasses."""
    own = {kind.kind: kind for kind in of.__subclasses__() if kind.kind}
    return own | {k: v for kind in of.__subclasses__() for k, v in _kinds(kind).items()}
