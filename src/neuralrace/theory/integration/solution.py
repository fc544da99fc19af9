"""The record and the states of a system at any times, by integration or by steps of descent."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from neuralrace._engine.devices import side_by_side
from neuralrace.theory.integration.curve import Curve
from neuralrace.theory.integration.descent import descend, steps_between
from neuralrace.theory.integration.system import System

KEPT_UNKNOWNS = 30_000  # up to this many the state is kept at every step where states are requested


@dataclass(frozen=True, eq=False)
class Solution:
    """A system from its start, to any times: its record and its states, integrated as far as needed.

    always: up to this many unknowns the states are kept from the first; others are integrated once more when states are
    requested, and the largest from one time to the next. descent: step size, for gradient descent instead of the flow.
    """

    system: System
    start: Any
    rtol: float
    max_steps: int
    always: int = 1000
    descent: float | None = None
    _known: dict[bool, Curve] = field(default_factory=dict, repr=False)  # with states, or without

    def at(self, times: np.ndarray) -> Any:
        """The record at increasing times; leaves (times, ...)."""
        return side_by_side([self.follow(times)])[0]

    def follow(self, times: np.ndarray) -> Generator[None, None, Any]:
        """Find the record at increasing times, with pauses."""
        if self.descent is not None:
            steps = steps_between(times, self.descent)
            return (yield from descend(self.system, self.start, self.descent, steps))[1]
        return (yield from self._curve(float(times[-1]) if len(times) else 0.0, self.keeps)).at(times)

    def curve(self, end: float, states: bool = False) -> Curve:
        """The curve from zero to `end`; reused if it is known far enough."""
        return side_by_side([self._curve(end, states or self.keeps)])[0]

    def _curve(self, end: float, states: bool) -> Generator[None, None, Curve]:
        from neuralrace.theory.integration.integrate import integrate  # diffrax, which steps of descent do not need

        if states not in self._known or self._known[states].times[-1] < end:
            options: dict[str, Any] = {"rtol": self.rtol, "max_steps": self.max_steps, "states": states}
            self._known[states] = yield from integrate(self.system, self.start, end, **options)
        return self._known[states]

    def states(self, times: np.ndarray) -> Iterator[Any]:
        """The states at increasing times, one after the other."""
        state, before = self.start, 0.0
        if not len(times) or times[-1] == 0:
            yield from (state for _ in times)
        elif self.descent is not None:
            for count in steps_between(times, self.descent):
                state, _ = side_by_side([descend(self.system, state, self.descent, np.array([count]))])[0]
                yield state
        elif self._unknowns <= KEPT_UNKNOWNS:
            curve = self.curve(float(times[-1]), states=True)
            for batch in np.array_split(times, len(times) // 256 + 1):
                found = curve.at(batch, states=True)
                yield from (jax.tree.map(lambda leaf, i=i: leaf[i], found) for i in range(len(batch)))
        else:
            for time in map(float, times):
                if time > before:
                    state = replace(self, start=state, _known={}).curve(time - before).last
                    before = time
                yield state

    @property
    def keeps(self) -> bool:
        """Whether the states are kept from the first."""
        return self._unknowns <= self.always

    @property
    def _unknowns(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.start))
