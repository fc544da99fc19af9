"""The polynomial of degree four in a step, through its start, middle and end with the slopes at both ends."""

from typing import Any

import diffrax
import jax


class Quartic(diffrax.AbstractLocalInterpolation):
    """What is drawn within one step; the slopes are those in units of the step."""

    t0: Any  # type: ignore[misc]  # abstract there
    t1: Any  # type: ignore[misc]
    start: Any
    middle: Any
    end: Any
    start_slope: Any
    end_slope: Any

    def evaluate(self, t0: Any, t1: Any = None, left: bool = True) -> Any:
        """The value at a time, or what is added from one time to another."""
        if t1 is not None:
            return jax.tree.map(lambda a, b: b - a, self.evaluate(t0), self.evaluate(t1))
        weights = quartic_weights((t0 - self.t0) / (self.t1 - self.t0))
        parts = (self.start, self.middle, self.end, self.start_slope, self.end_slope)
        return jax.tree.map(lambda *leaves: sum(w * leaf for w, leaf in zip(weights, leaves, strict=True)), *parts)


def quartic_weights(x: Any) -> tuple[Any, ...]:
    """Weights of start, middle, end and the two slopes at a fraction of the step."""
    bump = 16 * x**2 * (1 - x) ** 2
    start, end = (1 + 2 * x) * (1 - x) ** 2, x**2 * (3 - 2 * x)
    return start - bump / 2, bump, end - bump / 2, x * (1 - x) ** 2 - bump / 8, -(x**2) * (1 - x) + bump / 8
