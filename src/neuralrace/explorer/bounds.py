"""What a scene may ask for, in one table that the server checks and the page makes its controls from."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from neuralrace.errors import RangeError, require_name, require_number


@dataclass(frozen=True)
class _Bound:
    """What a value may be."""

    label: str

    def as_data(self) -> dict[str, Any]:
        """For the page."""
        return {"kind": type(self).__name__.lower(), **vars(self)}


@dataclass(frozen=True)
class Number(_Bound):
    """A number between two bounds. stops: where a slider rests; whole: no fraction; log: on a logarithmic scale.

    shape: whether another value is another shape of network, which is compiled anew.
    """

    default: float
    least: float
    most: float
    stops: tuple[float, ...] = ()
    whole: bool = False
    log: bool = False
    shape: bool = False

    def check(self, name: str, value: Any) -> float | int:
        """The value, or the bounds that it had to keep."""
        if isinstance(value, (bool, str)) or value is None:
            raise RangeError(f"{name} must be a number from {self.least:g} to {self.most:g}; it was {value!r:.40}")
        number = require_number(name, value, least=self.least, most=self.most)
        if not self.whole:
            return number
        if number != int(number):
            raise RangeError(f"{name} must be a whole number from {self.least:g} to {self.most:g}; it was {number:g}")
        return int(number)


@dataclass(frozen=True)
class Choice(_Bound):
    """One of a few words."""

    default: str
    options: tuple[str, ...]

    def check(self, name: str, value: Any) -> str:
        """The value, or what there is."""
        return require_name(name, value, self.options)


@dataclass(frozen=True)
class Text(_Bound):
    """A word of bounded length that somebody else checks."""

    default: str
    most: int

    def check(self, name: str, value: Any) -> str:
        """The value, or how long it may be."""
        if not isinstance(value, str) or len(value) > self.most:
            raise RangeError(f"{name} must be a text of at most {self.most} characters; it was {value!r:.40}")
        return value


Bound = Number | Choice | Text

SCENE: Mapping[str, Bound] = {
    "network": Choice("network", "gated", ("gated", "relu")),
    "depth": Number("layers of weights", 2, 2, 4, (2, 3, 4), whole=True, shape=True),
    "width": Number("neurons in a layer", 16, 1, 256, (4, 8, 16, 32, 64, 128), whole=True, shape=True),
    "law": Choice("first weights", "gaussian", ("gaussian", "orthogonal")),
    "scale": Number("first scale", 1e-3, 1e-6, 3.0, log=True),
    "rate": Number("learning rate", 0.1, 1e-4, 10.0, log=True),
    "steps": Number("steps", 600, 10, 20_000, log=True, whole=True),
    "seeds": Number("networks", 5, 1, 20, (1, 2, 5, 10), whole=True, shape=True),
    "key": Number("seed of the draws", 0, 0, 2**31 - 1, tuple(range(10)), whole=True),
}

TASKS: Mapping[str, Mapping[str, Bound]] = {
    "xor": {"delta": Number("margin", 0.0, 0.0, 3.0)},
    "hierarchy": {"levels": Number("levels", 4, 2, 5, (2, 3, 4, 5), whole=True, shape=True)},
    "semantic": {},
    "contextual": {
        "contexts": Number("contexts", 3, 2, 5, (2, 3, 4, 5), whole=True, shape=True),
        "structure": Choice("structure", "hierarchy", ("hierarchy", "mixed")),
    },
    "contextual_classification": {},
    "routing": {
        "domains": Number("domains M", 4, 2, 10, tuple(range(2, 11)), whole=True, shape=True),
        "trained": Number("trained K", 2, 1, 10, tuple(range(1, 11)), whole=True, shape=True),
        "items": Choice("items of a domain", "features", ("features", "digits")),
    },
    "views": {
        "classes": Number("classes", 3, 2, 6, (2, 3, 4, 5, 6), whole=True, shape=True),
        "views": Number("views", 3, 2, 5, (2, 3, 4, 5), whole=True, shape=True),
        "presence": Choice("views occur", "all", ("all", "one", "chance")),
        "probability": Number("chance p of a view", 0.8, 0.05, 1.0),
        "overlap": Number("overlap", 0.0, 0.0, 0.9),
    },
    "digits": {"examples": Number("examples", 200, 20, 500, (50, 100, 200, 500), whole=True)},
    "table": {
        "table": Text("table", "", 64),
        "targets": Number("target columns", 1, 1, 64, tuple(range(1, 9)), whole=True, shape=True),
    },
}

BODY_BYTES = 1 << 20  # of any request, a table included
TABLE_ROWS, TABLE_COLUMNS = 2000, 128
FLIPS = 400  # gates that differ from the named gating
WORK = 2e11  # multiplications of one training: about a minute
FRAMES, FRAME_BYTES = 48, 48 << 20  # moments at which whole networks are kept, and what they may take
MAP_CELLS = 64
MAP_VALUES = ("time to half", "last loss", "winner's share")
