"""A sentence that was measured: whose it is, what it asks, what came, and the verdict.

A threshold stands once: `at_most`, `at_least`, `within`, `rising` and `falling` write the sentence and compare. A value
is a number, an array, or an interval over seeds; a mapping gives each a name. An interval meets a limit if all of it
does, and NaN never does.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis.intervals import Interval
from neuralrace.errors import RangeError, nearest, require_name

HOLDS = "holds"
KINDS = ("paper", "ours", "check")
FAILS = {"paper": "refuted: ", "ours": "does not hold: ", "check": "does not hold: "}
SHOWN = 8  # values that are listed one by one


class Condition(NamedTuple):
    """What is asked, what came, whether it is met, and of what."""

    expected: str
    measured: str
    holds: bool
    what: str = ""
    numbers: tuple[float, ...] = ()  # lowest and highest of what was measured


@dataclass(frozen=True)
class Claim:
    """A sentence that was measured.

    kind: "paper", a sentence of one of the papers under that paper's own conditions; "ours", what we expected or go on
    to ask; "check", of the code or of algebra, which can hardly fail. expected and measured are written for a person,
    tolerance included. on_record is the verdict that is known: "holds", or "refuted: " and why ("does not hold: " for
    what no paper says). quantities: name, lowest and highest of each thing that was measured, as numbers. panel: the
    letters of the panels that show it, where they do not follow from the source.
    """

    text: str
    source: str  # where it is claimed
    kind: str
    expected: str
    measured: str
    holds: bool
    on_record: str = HOLDS
    quantities: tuple[tuple[str, float, float], ...] = ()
    panel: str = ""

    def __post_init__(self) -> None:
        require_name("kind", self.kind, KINDS)
        if self.on_record != HOLDS and not self.on_record.startswith(FAILS[self.kind]):
            raise RangeError(
                f"on_record must be {HOLDS!r}, or start with {FAILS[self.kind]!r}; it was {self.on_record!r}; "
                f"{nearest(self.on_record, [HOLDS, *FAILS.values()])}"
            )
        object.__setattr__(self, "holds", bool(self.holds))  # comparisons of arrays give numpy's own

    def shown_in(self, panel: str) -> "Claim":
        """The same claim, with the letters of the panels that show it."""
        return replace(self, panel=panel)

    @property
    def as_recorded(self) -> bool:
        """Whether this measurement agrees with the verdict on record."""
        return self.holds == (self.on_record == HOLDS)

    @classmethod
    def of(cls, text: str, source: str, kind: str, *conditions: Condition, on_record: str = HOLDS) -> "Claim":
        """A claim that holds if every condition does; of several, each measurement says what it is of."""
        alone = len(conditions) == 1
        expected = "; ".join(part.expected for part in conditions)
        measured = "; ".join(part.measured if alone else f"{part.what} {part.measured}".strip() for part in conditions)
        quantities = tuple((part.what, min(part.numbers), max(part.numbers)) for part in conditions if part.numbers)
        holds = all(part.holds for part in conditions)
        return cls(text, source, kind, expected, measured, holds, on_record, quantities)

    @classmethod
    def at_most(
        cls, text: str, source: str, kind: str, what: str, value: Any, limit: float, on_record: str = HOLDS, **form: str
    ) -> "Claim":
        """One quantity, or each of several, must not exceed a limit."""
        return cls.of(text, source, kind, at_most(what, value, limit, **form), on_record=on_record)

    @classmethod
    def at_least(
        cls, text: str, source: str, kind: str, what: str, value: Any, limit: float, on_record: str = HOLDS, **form: str
    ) -> "Claim":
        """One quantity, or each of several, must reach a limit."""
        return cls.of(text, source, kind, at_least(what, value, limit, **form), on_record=on_record)

    @classmethod
    def within(
        cls,
        text: str,
        source: str,
        kind: str,
        what: str,
        value: Any,
        limits: tuple[float, float],
        on_record: str = HOLDS,
        **form: str,
    ) -> "Claim":
        """One quantity, or each of several, must lie between two limits."""
        return cls.of(text, source, kind, within(what, value, limits, **form), on_record=on_record)


def shown(panel: str, claims: Iterable[Claim]) -> list[Claim]:
    """The same claims, with the letters of the panels that show all of them."""
    return [claim.shown_in(panel) for claim in claims]


def at_most(what: str, value: Any, limit: float, *, unit: str = "", detail: str = "", form: str = ".3g") -> Condition:
    """what <= limit."""
    expected = f"{what} at most {limit:{form}}{unit}"
    return Condition(
        expected, _measured(value, unit, detail, form), _all(_numbers(value) <= limit), what, _range(value)
    )


def at_least(what: str, value: Any, limit: float, *, unit: str = "", detail: str = "", form: str = ".3g") -> Condition:
    """what >= limit."""
    expected = f"{what} at least {limit:{form}}{unit}"
    return Condition(
        expected, _measured(value, unit, detail, form), _all(_numbers(value) >= limit), what, _range(value)
    )


def within(
    what: str, value: Any, limits: tuple[float, float], *, unit: str = "", detail: str = "", form: str = ".3g"
) -> Condition:
    """low <= what <= high."""
    low, high = limits
    numbers = _numbers(value)
    expected = f"{what} from {low:{form}} to {high:{form}}{unit}"
    met = _all((numbers >= low) & (numbers <= high))
    return Condition(expected, _measured(value, unit, detail, form), met, what, _range(value))


def rising(what: str, values: Any, over: str, *, unit: str = "", detail: str = "", form: str = ".3g") -> Condition:
    """Each value above the one before; over: what they are ordered by. Intervals: the means, first and last apart."""
    return _ordered(what, values, f"rises with {over}", (unit, detail, form), 1.0)


def falling(what: str, values: Any, over: str, *, unit: str = "", detail: str = "", form: str = ".3g") -> Condition:
    """Each value below the one before."""
    return _ordered(what, values, f"falls with {over}", (unit, detail, form), -1.0)


def listed(values: Any, form: str = ".3g") -> str:
    """Numbers one after the other, or the range of many; with their names where they have some."""
    if isinstance(values, Interval):
        return format(values, form)
    if isinstance(values, Mapping):
        separator = "; " if any(isinstance(value, Interval) for value in values.values()) else ", "
        return separator.join(f"{name}: {listed(value, form)}" for name, value in values.items()) or "none"
    if isinstance(values, list | tuple) and any(isinstance(value, Interval) for value in values):
        return "; ".join(format(value, form) for value in values)
    numbers = _numbers(values).ravel()
    if len(numbers) > SHOWN:
        return f"{numbers.min():{form}} to {numbers.max():{form}} over {len(numbers)}"
    return ", ".join(f"{number:{form}}" for number in numbers) or "none"


def _ordered(what: str, values: Any, expected: str, shown: tuple[str, str, str], sign: float) -> Condition:
    numbers = sign * _numbers(values)
    spread = numbers.ndim > 1  # intervals: mean, low, high
    means = numbers[:, 0] if spread else numbers
    met = _all(means[1:] > means[:-1])
    if spread:
        expected += ", the intervals of the first and the last apart"
        met = met and bool(numbers[0].max() < numbers[-1].min())
    return Condition(f"{what} {expected}", _measured(values, *shown), met, what, _range(values))


def _all(met: np.ndarray) -> bool:
    """Whether every one is met; of none, nothing was."""
    return bool(met.size and np.all(met))


def _numbers(value: Any) -> np.ndarray:
    return np.asarray(list(value.values()) if isinstance(value, Mapping) else value, dtype=np.float64)


def _range(value: Any) -> tuple[float, ...]:
    numbers = _numbers(value)
    return (float(numbers.min()), float(numbers.max())) if numbers.size else ()


def _measured(value: Any, unit: str, detail: str, form: str) -> str:
    return f"{listed(value, form)}{unit}" + (f" ({detail})" if detail else "")
