"""Claims are data: measured quantities with their limits; text is rendered last.

A figure makes its claims on one sheet, `Claims`. A quantity meets its limits if every one of its numbers lies between
them; of an interval over seeds all of it does; NaN never does.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from neuralrace.analysis import Interval
from neuralrace.errors import RangeError, require_name

KINDS = ("paper", "finding", "check")
SHOWN = 8  # numbers that are listed one by one
APART = 1e-15  # by at least this much one number is above another


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

    @property
    def numbers(self) -> np.ndarray:
        """All numbers, the ends of intervals among them."""
        return np.array([number for value in self.values for number in np.atleast_1d(value)], dtype=np.float64)

    @property
    def holds(self) -> bool:
        """Whether every number lies within the limits; false where there is no number."""
        return self.holds_within(0.0)

    def holds_within(self, margin: float) -> bool:
        """Whether every number lies within the limits, moved outwards by a share of them.

        The share is of the width of a range, of a limit, and for percentages of their distance from 0 or 100 %. Limits
        of counts do not move.
        """
        numbers = self.numbers
        low, high = (-np.inf if self.low is None else self.low), (np.inf if self.high is None else self.high)
        if not self.unit and np.all(np.isnan(numbers) | (numbers == np.round(numbers))):
            margin = 0.0
        slack = high - low if np.isfinite([low, high]).all() else abs(low) if self.high is None else abs(high)
        whole = 100.0 if self.unit == " %" else 1.0
        if self.high is None and 0 <= low <= whole and low != 1 and np.all(numbers <= whole):
            slack = min(low, whole - low)
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
        told = enumerated(dict(zip(self.names, self.values, strict=True)) if self.names else self.values, self.form)
        return told if told == "none" else told + self.unit


@dataclass(frozen=True)
class Claim:
    """A sentence that was measured.

    kind: "paper", a sentence of one of the papers under that paper's own conditions; "finding", the answer to an
    open question; "check", of the code or of algebra, which can hardly fail. panel: the letters of the
    panels that show it, with commas between. fails: why the claim is known not to hold; empty where it is known to
    hold. note: further remarks on the measurement.
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
        values = tuple(value for quantity in self.quantities for value in quantity.values)
        return values[0] if len(values) == 1 else values

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
        return all(quantity.holds for quantity in self.quantities)

    @property
    def near(self) -> bool:
        """Whether limits moved by a tenth would turn the verdict; checks are never called near."""
        if self.kind == "check":
            return False
        moved = all(quantity.holds_within(-0.1 if self.holds else 0.1) for quantity in self.quantities)
        return moved != self.holds

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
        told = "; ".join(f"{one.what} {one.shown}" if several else one.shown for one in self.quantities)
        return f"{told} ({self.note})" if self.note else told

    def as_values(self) -> dict[str, Any]:
        """The claim in plain values, with its verdict."""
        quantities = [one._asdict() | {"values": [_plain(value) for value in one.values]} for one in self.quantities]
        return asdict(self) | {
            "quantities": quantities,
            "holds": self.holds,
            "near": self.near,
        }

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> "Claim":
        """The claim that plain values describe; its verdict is judged anew."""
        told = {name: value for name, value in values.items() if name not in ("holds", "near")}
        quantities = tuple(
            Quantity(**one | {"values": tuple(map(_tupled, one["values"])), "names": tuple(one["names"])})
            for one in told.pop("quantities")
        )
        return cls(quantities=quantities, **told)


@dataclass
class Claims:
    """Claims one after the other: first whose sentence it is and where it stands, then what is measured of it.

    Conditions that follow a sentence must all be met. begin: kind -> what the sources of that kind begin with.

        claim = Claims()
        claim.paper("P1 Fig 3c", "ReLU networks learn as the gated network does.", panel="c")
        claim.at_most("normalized L1", distance, 0.05)
    """

    begin: Mapping[str, str] = field(default_factory=dict)
    panel: str = ""
    _made: list[dict[str, Any]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Claim]:
        return (Claim(id=str(place), **told) for place, told in enumerate(self._made, 1))

    def shown_in(self, panel: str) -> Self:
        """The same sheet, for claims that this panel shows unless they name another."""
        same = copy(self)
        same.panel = panel
        return same

    def said(self, kind: str, source: str, text: str, panel: str = "") -> None:
        """A sentence of one of the kinds."""
        told = {"kind": kind, "source": self.begin.get(kind, "") + source, "text": text}
        self._made.append(told | {"panel": panel or self.panel, "quantities": ()})

    def paper(self, source: str, text: str, panel: str = "") -> None:
        """A sentence of one of the papers, under that paper's own conditions."""
        self.said("paper", source, text, panel)

    def finding(self, source: str, text: str, panel: str = "") -> None:
        """Add the answer to a question that the papers leave open."""
        self.said("finding", source, text, panel)

    def check(self, source: str, text: str, panel: str = "") -> None:
        """A sentence of the code or of algebra, which can hardly fail."""
        self.said("check", source, text, panel)

    def at_most(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must not exceed a limit."""
        self._ask(what, value, None, limit, unit, form)

    def at_least(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must reach a limit."""
        self._ask(what, value, limit, None, unit, form)

    def within(self, what: str, value: Any, limits: tuple[float, float], unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must lie between two limits."""
        self._ask(what, value, *limits, unit, form)

    def rising(self, what: str, values: Any, over: str, unit: str = "", form: str = ".3g") -> None:
        """Each value must be above the one before; over: what they are ordered by.

        Of intervals over seeds the means rise, and the first and the last are apart.
        """
        self._change(what, values, f"rises with {over}", unit, form, lambda numbers: numbers)

    def falling(self, what: str, values: Any, over: str, unit: str = "", form: str = ".3g") -> None:
        """Each value must be below the one before."""
        self._change(what, values, f"falls with {over}", unit, form, lambda numbers: -numbers)

    def _change(
        self, what: str, values: Any, how: str, unit: str, form: str, turned: Callable[[np.ndarray], np.ndarray]
    ) -> None:
        numbers = turned(np.asarray(list(values.values()) if isinstance(values, Mapping) else values, dtype=float))
        with np.errstate(invalid="ignore"):  # what never comes is infinite
            changes = np.diff(numbers if numbers.ndim == 1 else numbers[:, 0])
        if numbers.ndim > 1:
            changes = np.append(changes, numbers[-1].min() - numbers[0].max())
        self._ask(f"{what} {how}, from one to the next by", changes, APART, None, unit, form)
        self.detail(enumerated(values, form))

    def _ask(self, what: str, value: Any, low: float | None, high: float | None, unit: str, form: str) -> None:
        if not self._made:
            raise RangeError("what is measured must follow a sentence: begin with paper, finding or check")
        names = tuple(map(str, value)) if isinstance(value, Mapping) else ()
        values = list(value.values()) if isinstance(value, Mapping) else value
        if isinstance(values, Interval) or not isinstance(values, list | tuple):
            values = [values] if isinstance(values, Interval) else np.ravel(np.asarray(values, dtype=float)).tolist()
        plain = tuple(_tupled(one) for one in values)
        if len(plain) > SHOWN and not names and np.isfinite(np.ravel(plain)).all() and np.ndim(plain) == 1:
            names, plain = (f"lowest of {len(plain)}", "highest"), (min(plain), max(plain))
        self._made[-1]["quantities"] += (Quantity(what, plain, low, high, names, unit, form),)

    def detail(self, words: str) -> None:
        """Add a remark on the measurement, unless it is empty."""
        told = [part for part in (self._made[-1].get("note", ""), words) if part]
        self._made[-1]["note"] = "; ".join(told)

    def fails(self, why: str | None) -> None:
        """Say that the claim is known not to hold, and why; with None it is known to hold."""
        self._made[-1]["fails"] = why or ""


def enumerated(values: Any, form: str = ".3g") -> str:
    """Numbers one after the other, or the range of many; with their names where they have some; NaN is "none"."""
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


def _alone(limits: list[Any]) -> Any:
    return limits[0] if len(limits) == 1 else tuple(limits)


def by_kind(claims: Iterable[Claim]) -> dict[str, list[Claim]]:
    """The claims of each kind that there are any of, the paper's first."""
    listed = list(claims)
    found = {kind: [claim for claim in listed if claim.kind == kind] for kind in KINDS}
    return {kind: chosen for kind, chosen in found.items() if chosen}
