"""The contextual network of P2 (sections 4-5, appendices F and G) for any number C >= 3 of contexts.

Every item is shown in every context, with item and context as one-hot inputs. One block of targets is the same in all
contexts; another is shown in one context each, in a place of its own, zero elsewhere. A common path that is always
open learns what adds up from item and context; C contextual paths, path p open in every context but p and seeing the
items only, learn the rest. Exact under these assumptions:

- the common path descends its own loss, and the contextual paths descend that of the residual
  Y - Y_common(end): "residual" training, not joint descent on the full loss;
- each path starts aligned with its singular vectors and balanced, the C contextual paths equally strong;
- the mean over items is a mode of its own (checked), as it is in a balanced hierarchy.

The loss is the mean over the N C examples. P2 sums instead: its S and D are N C times these, its time 1/(N C) of this
one at the same learning rate; S/D and every curve as a function of S t are the same.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from neuralrace.errors import AssumptionError, RangeError, require_count
from neuralrace.theory.exact._base import Real, Solution, Strength, read
from neuralrace.theory.exact.modes import TwoLayer

MEAN_MODE_TOLERANCE = 1e-9
RANK_TOLERANCE = 1e-12


class Overlaps(NamedTuple):
    """How much two contextual paths p != j have in common."""

    inputs: float  # Sigma_x(j, p) = inputs * Sigma_x(p, p)
    outputs: float  # U_p^T U_j = outputs * I
    competition: float  # what is left of D when all paths grow alike: 1 + (C - 1) inputs * outputs


@dataclass(frozen=True, eq=False)
class Contextual(Solution):
    """The contextual network, from its targets.

    structure: H (features, items), shown in each context in a block of its own. contexts: C. common_strength,
    contextual_strength: pi_0 and B0, one number or one per mode. common_structure: G, shown in every context (default:
    H itself, as in P2 section 5; zeros for none).

    With h a singular value of H without its item mean, S = h sqrt(1 - 1/C)/(N C) and D = (C - 1)/(N C). With g^2 an
    eigenvalue of G^T G + H^T H/C, the common item modes have s = g/N and d = 1/N, the mean mode
    s = g sqrt(N + C)/(N sqrt(C)) and d = 1/N + 1/C, and the C - 1 context modes s = |H 1|/(N C) and d = 1/C.
    """

    structure: Real
    contexts: int = 3
    common_strength: Strength = 1e-6
    contextual_strength: Strength = 1e-6
    common_structure: Real = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("contexts", self.contexts, least=3)
        if self.common_structure is None:
            object.__setattr__(self, "common_structure", self.structure)
        for name in ("structure", "common_structure"):
            shape = getattr(self, name).shape
            if len(shape) != 2 or shape[1] < 2 or shape[1] != self.structure.shape[-1]:
                raise RangeError(
                    f"{name} must be a matrix with a column for each of two or more items, the same in both; its shape "
                    f"was {shape}"
                )
        gram = self._factor.T @ self._factor
        sums = gram.sum(axis=1)
        residual = float(np.linalg.norm(sums - sums.mean()) / np.sqrt(len(gram)) / (np.linalg.norm(gram) + 1e-300))
        if residual > MEAN_MODE_TOLERANCE:
            raise AssumptionError(
                "the common path has no exact modes: the mean over items must be an eigenvector of the item "
                f"similarity, and its relative residual was {residual:.3g} (at most {MEAN_MODE_TOLERANCE:g} is "
                "allowed); balance the structure so that every item has the same summed similarity to all"
            )

    @property
    def _factor(self) -> np.ndarray:
        return np.vstack([self.common_structure, self.structure / np.sqrt(self.contexts)])

    @property
    def overlaps(self) -> Overlaps:
        """The overlaps of contextual paths: (C-2)/(C-1) for inputs and -1/(C-1) for outputs.

        Paths p and j are open together in C - 2 of the C - 1 contexts of each. The residual of path p points along
        -(e_p - 1/C) in context space, of squared length 1 - 1/C, and two such have inner product -1/C. So all paths
        together feel D/(C - 1). P2 has -1/2, -1/6 and -1/12 for C = 3, 4, 5; only the first is right.
        """
        inputs, outputs = (self.contexts - 2) / (self.contexts - 1), -1 / (self.contexts - 1)
        return Overlaps(inputs, outputs, 1 + (self.contexts - 1) * inputs * outputs)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each common mode: "item", "mean" or "context"."""
        return tuple(kind for kind, _, _ in self._common_modes)

    @cached_property
    def _common_modes(self) -> list[tuple[str, float, float]]:
        """Kind, s and d of each common mode."""
        n, c, factor = self.structure.shape[1], self.contexts, self._factor
        mean, context = (float(np.linalg.norm(part.sum(axis=1))) for part in (factor, self.structure))
        found = [("item", value / n, 1 / n) for value in _centered_values(factor)]
        if mean / np.sqrt(n) > RANK_TOLERANCE:
            found.append(("mean", mean * np.sqrt((n + c) / n / c) / n, 1 / n + 1 / c))
        if context / (n * c) > RANK_TOLERANCE:
            found += [("context", context / (n * c), 1 / c)] * (c - 1)
        return found

    @cached_property
    def common(self) -> TwoLayer:
        """The modes of the common path: item modes, strongest first, the mean, C - 1 context modes."""
        s, d = np.array([mode[1:] for mode in self._common_modes]).reshape(-1, 2).T
        return TwoLayer(s, d, self.common_strength)

    @cached_property
    def contextual(self) -> TwoLayer:
        """The modes of the contextual paths, strongest first, with S(p) of one path and D/(C - 1), which all feel.

        B(t) = A / (1 - (1 - A/B0) e^(-2 S t)) with A = (C - 1) S/D: P2 appendices F and G with sign and constant set
        right.
        """
        n, c = self.structure.shape[1], self.contexts
        values = _centered_values(self.structure) * np.sqrt(1 - 1 / c) / (n * c)
        return TwoLayer(values, 1 / (n * c), self.contextual_strength)

    def strength(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return the strengths of common and of contextual modes, mode last."""
        t = np.asarray(times)[..., None]
        return self.common.strength(t), self.contextual.strength(t)

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss of the whole network, common and contextual modes summed.

        The remainders of the common path and of the contextual paths are orthogonal over the examples, so the losses
        add: half d (s/d - pi)^2 per common mode and (A - B)^2/(2 N) per contextual one.
        """
        t = np.asarray(times)[..., None]
        # a contextual mode as one of variance 1/(N C) has (A - B)^2/(2 N C), in each of C paths
        return np.asarray(self.common.loss(t).sum(-1) + self.contexts * self.contextual.loss(t).sum(-1))

    def time(self, fraction: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
        """Return when common and contextual modes are learned to a fraction of their final strength."""
        part = read("fraction", fraction, above=0.0)
        if (part >= 1).any():
            raise RangeError(
                f"fraction must be below 1, which is reached only after infinite time; it was {fraction:g}"
            )
        common, contextual = (
            modes.time(part * modes.singular_value / modes.input_variance) for modes in (self.common, self.contextual)
        )
        return common, contextual


def _centered_values(factor: np.ndarray) -> np.ndarray:
    """Return the nonzero singular values of a structure without its mean over items."""
    values = np.linalg.svd(factor - factor.mean(1, keepdims=True), compute_uv=False)
    return np.asarray(values[values > RANK_TOLERANCE * (float(np.linalg.norm(factor)) + 1e-300)])
