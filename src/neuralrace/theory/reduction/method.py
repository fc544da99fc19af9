"""The method `reduction`: one scalar per edge and mode (P1 eq. 10), lumped."""

from dataclasses import dataclass
from typing import ClassVar

from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Method, Outcome, Request
from neuralrace.theory.reduction.setup import SMALL, reduced_outcome, reduced_system, solved
from neuralrace.theory.reduction.system import ReducedSystem


@dataclass(frozen=True, repr=False)
class Reduction(Method[ReducedSystem]):
    """Strengths in shared bases, for statistics that have such bases.

    They start from decoupled weights, or from the growing part of small ones (two layers). small: tolerance of what
    holds in the limit of small initial weights. With `force` it starts with the nearest strengths in the nearest bases.
    """

    name: ClassVar[str] = "reduction"
    small: float = SMALL

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], ReducedSystem | None]:
        """Shared bases, and a start in them."""
        return reduced_system(request, self.small, own=False, force=self.force)

    def solve(self, request: Request, prepared: ReducedSystem) -> Outcome:
        """Integrate the reduced system."""
        return reduced_outcome(request, prepared, solved(request, prepared))
