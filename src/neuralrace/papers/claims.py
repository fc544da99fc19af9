"""Claims are data: measured quantities with their limits; text is rendered last.

A figure collects its claims in `Claims`. A quantity meets its limits if every one of its numbers lies between them; of
an interval over seeds both ends must. NaN meets no limit.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import partialmethod
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis import Interval
from neuralrace.errors import RangeError, require_name

KINDS = ("paper", "finding", "check")
SHOWN = 8  # numbers that are listed one by one


class Quantity(NamedTuple):
    """A measured quantity and its limits.

    values: its numbers, each alone or as (mean, low, high) over seeds. names: of each number, where it has one. form,
    unit: how a number is written.
    """

    what: str
    values: tuple[Any, ...]
    low: float | None = None
    high: float | None = None
    names: tuple[str, ...] = ()
    unit: str = ""
    form: str = ".3g"

    def holds(self, margin: float = 0.0) -> bool:
        """Whether every number lies within the limits, and there is one.

        margin: moves the limits outwards by this share of their distance, or of a single limit, which for shares of
        the whole is its distance from 0 or 1. Limits of counts do not move.
        """
        numbers = np.array([number for value in self.values for number in np.atleast_1d(value)], dtype=np.float64)
        low, high = (-np.inf if self.low is None else self.low), (np.inf if self.high is None else self.high)
        whole = 100.0 if self.unit == " %" else 1.0
        if not self.unit and np.all(np.isnan(numbers) | (numbers == np.round(numbers))):
            slack = 0.0
        elif self.low is None or self.high is None:
            slack = abs(high if self.low is None else low)
            if self.high is None and 0 <= low <= whole and low != 1 and np.all(numbers <= whole):
                slack = min(low, whole - low)
        else:
            slack = high - low
        return bool(numbers.size and np.all((low - margin * slack <= numbers) & (numbers <= high + margin * slack)))

    @property
    def asked(self) -> str:
        """The limits in words."""
        if self.low is None:
            return f"{self.what} at most {self.high:{self.form}}{self.unit}"
        if self.high is None:
            return f"{self.what} at least {self.low:{self.form}}{self.unit}"
        return f"{self.what} from {self.low:{self.form}} to {self.high:{self.form}}{self.unit}"

    @property
    def shown(self) -> str:
        """The measured numbers in words."""
        words = enumerated(dict(zip(self.names, self.values, strict=True)) if self.names else self.values, self.form)
        return words if words == "none" else words + self.unit


@dataclass(frozen=True)
class Claim:
    """A sentence and what was measured of it.

    kind: "paper", a sentence of one of the papers under that paper's own conditions; "finding", the answer to a
    question that the papers leave open; "check", of the code or of algebra, which can hardly fail. panel: the letters
    of the panels that show it, with commas between. note: further remarks on the measurement. fails: why the claim is
    known not to hold; empty where it is known to hold.
    """

    id: str
    kind: str
    source: str
    text: str
    panel: str = ""
    quantities: tuple[Quantity, ...] = ()
    note: str = ""
    fails: str = ""

    def __post_init__(self) -> None:
        require_name("kind", self.kind, KINDS)
        if not self.quantities:
            raise RangeError(
                f"a claim needs a measured quantity, with at_most or another condition; {self.text!r} has none"
            )

    @property
    def measured(self) -> Any:
        """The measured number, or several in a tuple."""
        return _alone([value for quantity in self.quantities for value in quantity.values])

    @property
    def low(self) -> Any:
        """The lower limit of the quantity, None where there is none; of several quantities, a tuple."""
        return _alone([quantity.low for quantity in self.quantities])

    @property
    def high(self) -> Any:
        """The upper limit."""
        return _alone([quantity.high for quantity in self.quantities])

    @property
    def holds(self) -> bool:
        """Whether every quantity lies within its limits."""
        return all(quantity.holds() for quantity in self.quantities)

    @property
    def near(self) -> bool:
        """Whether limits moved by a tenth would change the verdict; checks are never called near."""
        moved = all(quantity.holds(-0.1 if self.holds else 0.1) for quantity in self.quantities)
        return self.kind != "check" and moved != self.holds

    @property
    def as_recorded(self) -> bool:
        """Whether this measurement agrees with the verdict on record."""
        return self.holds == (not self.fails)

    @property
    def asked(self) -> str:
        """The limits, in words."""
        return "; ".join(quantity.asked for quantity in self.quantities)

    @property
    def shown(self) -> str:
        """What was measured, in words."""
        several = len(self.quantities) > 1
        words = "; ".join(f"{one.what} {one.shown}" if several else one.shown for one in self.quantities)
        return f"{words} ({self.note})" if self.note else words

    def as_values(self) -> dict[str, Any]:
        """The claim in plain values, with its verdict."""
        quantities = [one._asdict() | {"values": [_plain(value) for value in one.values]} for one in self.quantities]
        return asdict(self) | {"quantities": quantities, "holds": self.holds, "near": self.near}

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Claim":
        """Make the claim of plain values; its verdict is judged anew."""
        quantities = tuple(
            Quantity(**one | {"values": tuple(map(_tupled, one["values"])), "names": tuple(one["names"])})
            for one in values["quantities"]
        )
        return cls(**{name: values[name] for name in cls.__match_args__} | {"quantities": quantities})


@dataclass
class Claims:
    """Claims one after the other: first the sentence and where it stands, then what is measured of it.

    All quantities that follow a sentence must meet their limits. panel: of the claims that follow and name no other.
    retired: numbers of former claims, which no other claim takes.

        claim = Claims()
        claim.paper("P1 Fig 3c", "ReLU networks learn as the gated network does.", panel="c")
        claim.at_most("normalized L1", distance, 0.05)
    """

    panel: str = ""
    retired: tuple[int, ...] = ()
    _made: list[dict[str, Any]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Claim]:
        numbers = (number for number in itertools.count(1) if number not in self.retired)
        return (Claim(id=str(number), **values) for number, values in zip(numbers, self._made, strict=False))

    def said(self, kind: str, source: str, text: str, panel: str = "") -> None:
        """Begin a claim; `paper`, `finding` and `check` do so for their kind."""
        values = {"kind": kind, "source": source, "text": text, "panel": panel or self.panel}
        self._made.append(values | {"quantities": (), "note": "", "fails": ""})

    paper = partialmethod(said, "paper")
    finding = partialmethod(said, "finding")
    check = partialmethod(said, "check")

    def at_most(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """Require that a quantity, or each of several, does not exceed a limit."""
        self.within(what, value, (None, limit), unit, form)

    def at_least(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """Require that a quantity, or each of several, reaches a limit."""
        self.within(what, value, (limit, None), unit, form)

    def within(
        self, what: str, value: Any, limits: tuple[float | None, float | None], unit: str = "", form: str = ".3g"
    ) -> None:
        """Require that a quantity, or each of several, lies between two limits."""
        if not self._made:
            raise RangeError("what is measured must follow a sentence: begin with paper, finding or check")
        names = tuple(map(str, value)) if isinstance(value, Mapping) else ()
        values = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(values, Interval):
            values = [values]
        elif not isinstance(values, list | tuple):
            values = np.ravel(np.asarray(values, dtype=float)).tolist()
        plain = tuple(_tupled(one) for one in values)
        if len(plain) > SHOWN and not names and np.ndim(plain) == 1 and np.isfinite(plain).all():
            names, plain = (f"lowest of {len(plain)}", "highest"), (min(plain), max(plain))
        self._made[-1]["quantities"] += (Quantity(what, plain, *limits, names, unit, form),)

    def rising(self, what: str, values: Any, over: str, form: str = ".3g", sign: int = 1) -> None:
        """Require that each value is above the one before; over: what they are ordered by.

        Of intervals over seeds the means must rise, and the first and the last must lie apart.
        """
        numbers = sign * np.asarray(list(values.values()) if isinstance(values, Mapping) else values, dtype=float)
        with np.errstate(invalid="ignore"):  # times that are never reached are infinite
            changes = np.diff(numbers if numbers.ndim == 1 else numbers[:, 0])
        if numbers.ndim > 1:
            changes = np.append(changes, numbers[-1].min() - numbers[0].max())
        verb = "rises" if sign > 0 else "falls"
        self.at_least(f"{what} {verb} with {over}, from one to the next by", changes, 1e-15, form=form)
        self.detail(enumerated(values, form))

    falling = partialmethod(rising, sign=-1)

    def detail(self, words: str) -> None:
        """Add a remark on the measurement, unless it is empty."""
        self._made[-1]["note"] = "; ".join(part for part in (self._made[-1]["note"], words) if part)

    def fails(self, why: str | None) -> None:
        """Say that the claim is known not to hold, and why; with None it is known to hold."""
        self._made[-1]["fails"] = why or ""


def enumerated(values: Any, form: str = ".3g") -> str:
    """List numbers, or the range of many, with their names where they have some; NaN is "none"."""
    if isinstance(values, Mapping):
        apart = "; " if any(np.ndim(value) for value in values.values()) else ", "
        return apart.join(f"{name}: {enumerated([value], form)}" for name, value in values.items()) or "none"
    rows = [values] if isinstance(values, Interval) else list(np.ravel(values) if np.ndim(values) < 2 else values)
    if any(np.ndim(row) for row in rows):
        return "; ".join(
            "none" if np.isnan(row).any() else "{} [{}, {}]".format(*(format(number, form) for number in row))
            for row in rows
        )
    known = [row for row in rows if not np.isnan(row)]
    if len(rows) > SHOWN and known:
        return f"{min(known):{form}} to {max(known):{form}} over {len(known)}"
    return ", ".join("none" if np.isnan(row) else f"{row:{form}}" for row in rows) or "none"


def _tupled(value: Any) -> Any:
    """A number, or an interval as (mean, low, high)."""
    if np.ndim(value):
        return tuple(map(_tupled, value))
    return np.nan if value is None else float(value)


def _plain(value: Any) -> Any:
    """The same for JSON, which has neither NaN nor infinity."""
    if np.ndim(value):
        return [_plain(number) for number in value]
    return value if np.isfinite(value) else None if np.isnan(value) else str(value)


def _alone(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else tuple(values)


def by_kind(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """Sort claims by their kind, the paper's first; kinds without a claim are left out."""
    listed = list(claims)
    found = {kind: [claim for claim in listed if claim.kind == kind] for kind in KINDS}
    return {kind: chosen for kind, chosen in found.items() if chosen}
