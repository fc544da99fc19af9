"""A sentence that was measured: whose it is, what it asks, what came, and the verdict.

A figure makes its claims on one sheet, `Claims`. A threshold stands once: `at_most`, `at_least`, `within`, `rising` and
`falling` write the sentence and compare. A value is a number, an array, or an interval over seeds; a mapping gives each
a name. An interval meets a limit if all of it does, and NaN never does. A verdict is near its threshold if it would
turn with every limit moved by a tenth.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np

from neuralrace.analysis.intervals import Interval
from neuralrace.errors import RangeError, nearest, require_name

HOLDS = "holds"
KINDS = ("paper", "ours", "check")
FAILS = {"paper": "refuted: ", "ours": "does not hold: ", "check": "does not hold: "}
SHOWN = 8  # values that are listed one by one
NEAR = 0.1  # a verdict that a change of this part of its limits would turn is near its threshold


@dataclass(frozen=True)
class Claim:
    """A sentence that was measured.

    kind: "paper", a sentence of one of the papers under that paper's own conditions; "ours", what we expected or go on
    to ask; "check", of the code or of algebra, which can hardly fail. expected and measured are written for a person,
    tolerance included. on_record is the verdict that is known: "holds", or "refuted: " and why ("does not hold: " for
    what no paper says). quantities: name, lowest and highest of each thing that was measured, as numbers. panel: the
    letters of the panels that show it, where they do not follow from the source. near: whether the verdict is near its
    threshold.
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
    near: bool = False

    def __post_init__(self) -> None:
        require_name("kind", self.kind, KINDS)
        if self.on_record != HOLDS and not self.on_record.startswith(FAILS[self.kind]):
            raise RangeError(
                f"on_record must be {HOLDS!r}, or start with {FAILS[self.kind]!r}; it was {self.on_record!r}; "
                f"{nearest(self.on_record, [HOLDS, *FAILS.values()])}"
            )
        object.__setattr__(self, "holds", bool(self.holds))  # comparisons of arrays give numpy's own

    @property
    def as_recorded(self) -> bool:
        """Whether this measurement agrees with the verdict on record."""
        return self.holds == (self.on_record == HOLDS)


class Claims:
    """Claims one after the other: whose sentence it is and where it stands, then what is measured of it.

    What follows a sentence is about it: conditions, which must all be met, a `detail` of the last of them, and why it
    `fails`. paper, check, ours: what the sources of each kind begin with.

        claim = Claims()
        claim.paper("P1 Fig 3c", "ReLU networks learn as the gated network does.")
        claim.at_most("normalized L1", distance, 0.05)

    panel: the letters of the panels that show a claim, where they do not follow from its source. Numbers are written in
    a form, with a unit after them.
    """

    def __init__(self, *, paper: str = "", check: str = "", ours: str = "") -> None:
        self._begin = {"paper": paper, "check": check, "ours": ours}
        self._panel = ""
        self._said: list[_Said] = []

    def __iter__(self) -> Iterator[Claim]:
        return (said.judged() for said in self._said)

    def shown_in(self, panel: str) -> Self:
        """The same sheet, for claims that this panel shows unless they name another."""
        same = copy(self)
        same._panel = panel
        return same

    def paper(self, source: str, text: str, panel: str = "") -> None:
        """A sentence of one of the papers, under that paper's own conditions."""
        self.said("paper", source, text, panel)

    def ours(self, source: str, text: str, panel: str = "") -> None:
        """What we expected, or go on to ask."""
        self.said("ours", source, text, panel)

    def check(self, source: str, text: str, panel: str = "") -> None:
        """A sentence of the code or of algebra, which can hardly fail."""
        self.said("check", source, text, panel)

    def said(self, kind: str, source: str, text: str, panel: str = "") -> None:
        """A sentence of one of these kinds."""
        begin = self._begin[require_name("kind", kind, KINDS)]
        self._said.append(_Said(text, begin + source, kind, panel or self._panel))

    def at_most(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must not exceed a limit."""
        numbers, slack = _numbers(value), abs(limit)
        asked = f"at most {limit:{form}}{unit}"
        self._ask(what, value, asked, lambda moved: numbers <= limit + moved * slack, unit, form)

    def at_least(self, what: str, value: Any, limit: float, unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must reach a limit."""
        numbers, whole = _numbers(value), 100 if unit == " %" else 1
        share = 0 <= limit <= whole and limit != 1 and bool(np.all(numbers <= whole))  # near: counted from the whole
        slack = min(limit, whole - limit) if share else abs(limit)
        asked = f"at least {limit:{form}}{unit}"
        self._ask(what, value, asked, lambda moved: numbers >= limit - moved * slack, unit, form)

    def within(self, what: str, value: Any, limits: tuple[float, float], unit: str = "", form: str = ".3g") -> None:
        """One quantity, or each of several, must lie between two limits."""
        (low, high), numbers = limits, _numbers(value)
        asked, slack = f"from {low:{form}} to {high:{form}}{unit}", high - low

        def met(moved: float) -> np.ndarray:
            return np.asarray((numbers >= low - moved * slack) & (numbers <= high + moved * slack))

        self._ask(what, value, asked, met, unit, form)

    def rising(self, what: str, values: Any, over: str, unit: str = "", form: str = ".3g") -> None:
        """Each value must be above the one before; over: what they are ordered by.

        Of intervals over seeds the means rise, and the first and the last are apart.
        """
        rises = _rises(_numbers(values))
        self._ask(what, values, f"rises with {over}{_apart(values)}", lambda _: rises, unit, form)

    def falling(self, what: str, values: Any, over: str, unit: str = "", form: str = ".3g") -> None:
        """Each value must be below the one before."""
        falls = _rises(-_numbers(values))
        self._ask(what, values, f"falls with {over}{_apart(values)}", lambda _: falls, unit, form)

    def _ask(self, what: str, value: Any, asked: str, met: Callable[[float], np.ndarray], unit: str, form: str) -> None:
        """met: whether each number meets the limits when these are moved outwards by a part of themselves."""
        numbers = _numbers(value)
        known = numbers[~np.isnan(numbers)]
        exact = not unit and bool(np.all(known == np.round(known)))  # a count is never near
        moved = 0.0 if exact or self._last.kind == "check" else NEAR
        found = (met(by) for by in (0.0, moved, -moved))
        holds, looser, tighter = (bool(each.size and np.all(each)) for each in found)  # of none, nothing is met
        span = (what, float(known.min()), float(known.max())) if known.size else None
        measured = f"{enumerated(value, form)}{unit if known.size else ''}"
        self._last.conditions.append(_Measured(what, f"{what} {asked}", measured, holds, looser, tighter, span))

    def detail(self, words: str) -> None:
        """What else is told of what was measured last; nothing, if there are no words."""
        asked = self._last.conditions.pop()
        told = f"{asked.measured} ({words})" if words else asked.measured
        self._last.conditions.append(asked._replace(measured=told))

    def fails(self, why: str | None) -> None:
        """It is known not to hold, and why; with None it is known to hold."""
        self._last.on_record = HOLDS if why is None else f"{FAILS[self._last.kind]}{why}"

    @property
    def _last(self) -> "_Said":
        if not self._said:
            raise RangeError(
                "what is measured must follow a sentence; none was said yet: begin with paper, ours or check"
            )
        return self._said[-1]


class _Measured(NamedTuple):
    """Of what something is asked, what came, whether it is met, and the lowest and the highest that came.

    looser, tighter: whether it is met with the limits moved by NEAR.
    """

    what: str
    expected: str
    measured: str
    holds: bool
    looser: bool
    tighter: bool
    span: tuple[str, float, float] | None


@dataclass
class _Said:
    """A claim that is being made."""

    text: str
    source: str
    kind: str
    panel: str
    conditions: list[_Measured] = field(default_factory=list)
    on_record: str = HOLDS

    def judged(self) -> Claim:
        """The claim; of several conditions, each measurement says what it is of."""
        parts, alone = self.conditions, len(self.conditions) == 1
        if not parts:
            raise RangeError(
                f"a claim must ask for something, with at_most or another condition; {self.text!r} does not"
            )
        expected = "; ".join(part.expected for part in parts)
        measured = "; ".join(part.measured if alone else f"{part.what} {part.measured}".strip() for part in parts)
        spans, holds = tuple(part.span for part in parts if part.span), all(part.holds for part in parts)
        near = all(part.looser for part in parts) and not all(part.tighter for part in parts)
        written = (expected, measured, holds, self.on_record, spans, self.panel, near)
        return Claim(self.text, self.source, self.kind, *written)


def enumerated(values: Any, form: str = ".3g") -> str:
    """Numbers one after the other, or the range of many; with their names where they have some; NaN is "none"."""
    if isinstance(values, Interval):
        return "none" if np.isnan(_numbers(values)).any() else format(values, form)
    if isinstance(values, Mapping):
        separator = "; " if any(isinstance(value, Interval) for value in values.values()) else ", "
        return separator.join(f"{name}: {enumerated(value, form)}" for name, value in values.items()) or "none"
    if isinstance(values, list | tuple) and any(isinstance(value, Interval) for value in values):
        return "; ".join(enumerated(value, form) for value in values)
    numbers = _numbers(values).ravel()
    known = numbers[~np.isnan(numbers)]
    if len(numbers) > SHOWN and len(known):
        return f"{known.min():{form}} to {known.max():{form}} over {len(known)}"
    return ", ".join("none" if np.isnan(number) else f"{number:{form}}" for number in numbers) or "none"


def _apart(values: Any) -> str:
    return ", the intervals of the first and the last apart" if _numbers(values).ndim > 1 else ""


def _rises(numbers: np.ndarray) -> np.ndarray:
    """Whether each is above the one before; of intervals, (n, 3), the means, and whether first and last are apart."""
    if numbers.ndim == 1:
        return np.asarray(numbers[1:] > numbers[:-1])
    return np.append(numbers[1:, 0] > numbers[:-1, 0], numbers[0].max() < numbers[-1].min())


def _numbers(value: Any) -> np.ndarray:
    return np.asarray(list(value.values()) if isinstance(value, Mapping) else value, dtype=np.float64)
