"""What a forecast rests on: each assumption with its residual, its tolerance and whether it holds."""

from dataclasses import dataclass

METHODS = ("closed_form", "reduction", "aligned", "flow")  # strongest first


@dataclass(frozen=True)
class Assumption:
    """One condition of a method.

    name: what is assumed. residual: how far it is from true, zero where it is exact. tolerance: up to where it is taken
    to hold. detail: the worst statistic, path, edge or mode. needed: whether the forecast rests on it; what was
    measured for another method, or for information, is not.
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

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "FAILS" if self.needed else "no"
        return f"{self.name:<28} {verdict:<6} {self.residual:>9.2g} (tolerance {self.tolerance:.2g})  {self.detail}"


@dataclass(frozen=True)
class Certificate:
    """All assumptions that were examined, and why no stronger method was taken.

    method: that the forecast used. assumptions: those that were measured. declined: stronger method -> why it was not
    taken. forced: the caller went on although an assumption of the method fails. notes: facts worth
    knowing that are not conditions: modes that are lost, a saddle, a hand-over.
    """

    method: str
    assumptions: tuple[Assumption, ...]
    declined: tuple[tuple[str, str], ...] = ()
    forced: bool = False
    notes: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether every assumption of the method that was used holds."""
        return not self.forced

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
        lines += [f"  not {method}: {reason}" for method, reason in self.declined]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join(lines)
