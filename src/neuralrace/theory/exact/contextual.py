"""The contextual network of P2 (sections 4-5, appendices F and G) for any number C >= 3 of contexts."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from neuralrace.errors import AssumptionError, RangeError, require_count
from neuralrace.theory.exact._base import Real, Solution, Strength, read, read_times
from neuralrace.theory.exact.modes import TwoLayer


@dataclass(frozen=True, eq=False)
class Contextual(Solution):
    """The contextual network, from its targets, in "residual" training; derived in docs/theory/exact.md.

    A common path that is always open descends its own loss, and C contextual paths, open in every context but one,
    descend the loss of its residual; all start aligned and balanced, the contextual paths equally strong.

    structure: H (features, items), shown in every context, and once more in each context in a block of its own (P2
    section 5); the mean over items must be a mode of its own, as in a balanced hierarchy. contexts: C. common_strength,
    contextual_strength: pi_0 and B0, one number or one per mode. The loss is the mean over the N C examples. P2 sums
    instead: its S and D are N C times these, and its time 1/(N C) of this one at the same learning rate.
    """

    structure: Real
    contexts: int = 3
    common_strength: Strength = 1e-6
    contextual_strength: Strength = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("contexts", self.contexts, least=3)
        if self.structure.ndim != 2 or self.structure.shape[1] < 2:
            raise RangeError(
                f"structure must be a matrix with a column for each of two or more items; its shape was "
                f"{self.structure.shape}"
            )
        gram = self.structure.T @ self.structure
        sums = gram.sum(axis=1)
        residual = float(np.linalg.norm(sums - sums.mean()) / np.sqrt(len(gram)) / (np.linalg.norm(gram) + 1e-300))
        if residual > 1e-9:
            raise AssumptionError(
                "the common path has no exact modes: the mean over items must be an eigenvector of the item "
                f"similarity, and its relative residual was {residual:.3g} (at most 1e-09 is "
                "allowed); balance the structure so that every item has the same summed similarity to all"
            )

    @cached_property
    def _centered_values(self) -> np.ndarray:
        """The nonzero singular values of the structure without its mean over items."""
        values = np.linalg.svd(self.structure - self.structure.mean(axis=1, keepdims=True), compute_uv=False)
        return np.asarray(values[values > 1e-12 * (float(np.linalg.norm(self.structure)) + 1e-300)])

    @cached_property
    def common(self) -> TwoLayer:
        """The modes of the common path: item modes, strongest first, the mean, C - 1 context modes."""
        n, c, size = self.structure.shape[1], self.contexts, float(np.linalg.norm(self.structure.sum(axis=1)))
        s = list(self._centered_values * np.sqrt(1 + 1 / c) / n)
        d = [1 / n] * len(s)
        if size / np.sqrt(n) > 1e-12:
            s += [size * np.sqrt((1 + 1 / c) * (n + c) / n / c) / n] + [size / (n * c)] * (c - 1)
            d += [1 / n + 1 / c] + [1 / c] * (c - 1)
        return TwoLayer(s, d, self.common_strength)

    @cached_property
    def contextual(self) -> TwoLayer:
        """The modes of the contextual paths, strongest first, with S(p) and effective variance D/(C - 1) of each."""
        examples = self.structure.shape[1] * self.contexts
        values = self._centered_values * np.sqrt(1 - 1 / self.contexts) / examples
        return TwoLayer(values, 1 / examples, self.contextual_strength)

    def strength(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the strengths of common and of contextual modes, mode last."""
        t = read_times(times)[..., None]
        return self.common.strength(t), self.contextual.strength(t)

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss of the whole network: the residuals of common and contextual paths are orthogonal and add."""
        t = read_times(times)[..., None]
        # a contextual mode as one of variance 1/(N C) has (A - B)^2/(2 N C), in each of C paths
        return np.asarray(self.common.loss(t).sum(-1) + self.contexts * self.contextual.loss(t).sum(-1))

    def time(self, fraction: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
        """Return when common and contextual modes are learned to a fraction of their final strength."""
        level = read("fraction", fraction)[..., None]
        common, contextual = (
            modes.time(level * modes.singular_value / modes.input_variance) for modes in (self.common, self.contextual)
        )
        return common, contextual
