"""The assumptions behind a forecast, each with a measured residual and a tolerance."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html import escape

from neuralrace.errors import require_known, shortened

CHECKED = "checked against the flow"
STEPPED = "step by step"
SADDLE = "all initial strengths are zero: a saddle, where the loss stays that of output zero"


@dataclass(frozen=True)
class Assumption:
    """One condition of a method.

    name: what is assumed. residual: its violation, zero where it is exact. tolerance: the largest residual at which it
    holds, zero for yes-or-no conditions. detail: the worst statistic, path, edge or mode. needed: whether the forecast
    rests on it; otherwise it is measured for information.
    """

    name: str
    residual: float
    tolerance: float
    detail: str
    needed: bool = True

    @property
    def holds(self) -> bool:
        """Whether the residual is within the tolerance."""
        return self.residual <= self.tolerance

    @property
    def reason(self) -> str:
        """Why a method that needs it does not apply."""
        if self.tolerance == 0:
            return f"{self.name} required; {self.detail}"
        return f"{self.name} is required to {self.tolerance:.2g}; {self.detail} is off by {self.residual:.2g}"

    def __str__(self) -> str:
        if not self.needed:
            return f"{self.name:<28} {self.residual:>9.2g}  {self.detail}"
        verdict = "holds" if self.holds else "FAILS"
        return f"{self.name:<28} {verdict:<6} {self.residual:>9.2g} (tolerance {self.tolerance:.2g})  {self.detail}"


def first_failing(assumptions: Iterable[Assumption]) -> Assumption | None:
    """Return the first assumption that is needed and does not hold."""
    return next((row for row in assumptions if row.needed and not row.holds), None)


@dataclass(frozen=True)
class Declined:
    """A method that does not apply, and its first assumption that fails; way: see `Method.way`."""

    method: str
    failed: Assumption
    way: str = field(default="", compare=False)


@dataclass(frozen=True)
class Certificate:
    """All assumptions of the method that made a forecast, and why no stronger method applies.

    method: its name. assumptions: those it requires, including the check against the exact flow where it was made, and
    others measured for information. declined: the stronger methods. notes: other facts, such as modes
    that are lost, a saddle, or why nothing was checked.
    """

    method: str
    assumptions: tuple[Assumption, ...]
    declined: tuple[Declined, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every required assumption holds: then the forecast is right within its tolerance."""
        return first_failing(self.assumptions) is None

    @property
    def checked(self) -> float | None:
        """The normalized L1 distance from the exact flow of one draw; None where it was not measured."""
        return self[CHECKED].residual if CHECKED in self else None

    def __getitem__(self, name: str) -> Assumption:
        known = {row.name: row for row in self.assumptions}
        require_known(name, list(known), f"the certificate has no assumption {shortened(name)}")
        return known[name]

    def __iter__(self) -> Iterator[Assumption]:
        return iter(self.assumptions)

    def __contains__(self, name: object) -> bool:
        return any(name in (row.name, row) for row in self.assumptions)

    @property
    def _outcome(self) -> str:
        state = "holds" if self.holds else "does NOT hold"
        distance = "not checked against the flow" if self.checked is None else f"{self.checked:.2g} from the exact flow"
        distance = "a simulation, step by step" if STEPPED in self else distance
        return f"method: {self.method} ({state}; {distance})"

    @property
    def _remarks(self) -> list[str]:
        """Why stronger methods do not apply, and other facts."""
        ways = (f" with {entry.way}" if entry.way else "" for entry in self.declined)
        declined = [f"not {one.method}{way}: {one.failed.reason}" for one, way in zip(self.declined, ways, strict=True)]
        return declined + [f"note: {note}" for note in self.notes]

    def __str__(self) -> str:
        lines = [self._outcome]
        for title, needed in (("required", True), ("measured only", False)):
            rows = [f"    {row}" for row in self.assumptions if row.needed is needed]
            lines += [f"  {title}:", *rows] if rows else []
        return "\n".join(lines + [f"  {remark}" for remark in self._remarks])

    def _repr_html_(self) -> str:
        """Show the same in a notebook, as a table."""
        verdicts = (("holds" if row.holds else "FAILS") if row.needed else "measured only" for row in self)
        head = ("assumption", "verdict", "residual", "tolerance", "where")
        rows = [
            (row.name, verdict, f"{row.residual:.2g}", f"{row.tolerance:.2g}" if row.needed else "", row.detail)
            for row, verdict in zip(self, verdicts, strict=True)
        ]
        lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in (head, *rows))
        table = "".join(f"<tr>{line}</tr>" for line in lines)
        remarks = "<br>".join(map(escape, self._remarks))
        return f"<p>{escape(self._outcome)}</p><table>{table}</table><p>{remarks}</p>"
