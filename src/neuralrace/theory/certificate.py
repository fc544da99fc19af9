"""What a forecast rests on: each assumption with its residual, its tolerance and whether it holds."""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Assumption:
    """One condition of a method.

    name: what is assumed. residual: how far it is from true, zero where it is exact. tolerance: up to where it is taken
    to hold, zero for what is so or not so. detail: the worst statistic, path, edge or mode. needed: whether the method
    rests on it; what is measured for information is not.
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
        if self.tolerance == 0:  # a thing that is so or not so, and the detail says what it is
            return f"{self.name} required; {self.detail}"
        return f"{self.name} is required to {self.tolerance:.2g}; {self.detail} is off by {self.residual:.2g}"

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS" if self.needed else "no"
        return f"{self.name:<28} {verdict:<6} {self.residual:>9.2g} (tolerance {self.tolerance:.2g})  {self.detail}"


def first_failing(assumptions: Iterable[Assumption]) -> Assumption | None:
    """The first assumption that is needed and does not hold."""
    return next((entry for entry in assumptions if entry.needed and not entry.holds), None)


@dataclass(frozen=True)
class Declined:
    """A method that was not taken, and the assumption of it that fails."""

    method: str
    failed: Assumption


@dataclass(frozen=True)
class Certificate:
    """All assumptions of the method that was used, and why no stronger one was taken.

    method: that the forecast used. assumptions: what was measured. declined: the stronger methods. notes: facts worth
    knowing that are not conditions: modes that are lost, a saddle, a hand-over.
    """

    method: str
    assumptions: tuple[Assumption, ...]
    declined: tuple[Declined, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every assumption that the method needs holds."""
        return first_failing(self.assumptions) is None

    @property
    def forced(self) -> bool:
        """Whether the caller went on although an assumption fails."""
        return not self.holds

    def __getitem__(self, name: str) -> Assumption:
        for assumption in self.assumptions:
            if assumption.name == name:
                return assumption
        raise KeyError(f"no assumption {name!r}; there are {', '.join(a.name for a in self.assumptions)}")

    def __contains__(self, name: str) -> bool:
        return any(assumption.name == name for assumption in self.assumptions)

    def __str__(self) -> str:
        lines = [f"method: {self.method}" + (" (forced: an assumption fails)" if self.forced else "")]
        lines += [f"  {assumption}" for assumption in self.assumptions]
        lines += [f"  not {entry.method}: {entry.failed.reason}" for entry in self.declined]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
