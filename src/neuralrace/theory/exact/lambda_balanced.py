"""Two layers from unaligned weights, white inputs: the matrix Riccati flow (Fukumizu 1998; Braun et al. 2022; Domine
et al. 2024), for lambda of either sign, any shapes and any rank.

With Q = [W1^T; W2] and W2^T W2 - W1 W1^T = lambda I on the hidden directions in use,

    dQ/dt = F Q - Q Q^T Q / 2,   F = [[-lambda/2 I, Sigma^T], [Sigma, lambda/2 I]],
    Q Q^T = e^(Ft) Q0 (I + Q0^T int_0^t e^(2Fs) ds Q0)^(-1) Q0^T e^(Ft).
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import exprel

from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory.exact._base import STRENGTH_HINT, Real, Solution, read_times

BALANCE_TOLERANCE = 1e-8


@dataclass(frozen=True, eq=False)
class LambdaBalanced(Solution):
    """A two-layer network on white inputs, Sigma_x = I, exact from lambda-balanced weights that need no alignment.

    correlation: Sigma_yx (outputs, inputs). first_layer: W1(0) (hidden, inputs). second_layer: W2(0) (outputs, hidden).
    The weights must satisfy W2^T W2 - W1 W1^T = lambda I on the hidden directions that they use, which gradient flow
    then keeps.
    """

    correlation: Real
    first_layer: Real
    second_layer: Real

    def __post_init__(self) -> None:
        super().__post_init__()
        shapes = [getattr(self, name).shape for name in ("correlation", "first_layer", "second_layer")]
        if any(len(shape) != 2 for shape in shapes) or shapes[1][0] != shapes[2][1]:
            raise RangeError(
                "first_layer must be (hidden, inputs) and second_layer (outputs, hidden) with one hidden size; the "
                f"shapes were {shapes[1]} and {shapes[2]}"
            )
        if shapes[0] != (shapes[2][0], shapes[1][1]):
            raise RangeError(
                f"correlation must be (outputs, inputs) = {(shapes[2][0], shapes[1][1])} to fit the layers; its shape "
                f"was {shapes[0]}"
            )
        if not self._stacked.any():
            raise RangeError(f"first_layer and second_layer must not both be 0; {STRENGTH_HINT}")
        left = self._stacked @ self._difference - self.imbalance * self._stacked
        size = np.linalg.norm(self._stacked)
        residual = float(np.linalg.norm(left) / size**3)
        if not residual <= BALANCE_TOLERANCE:
            raise AssumptionError(
                "first_layer and second_layer must be lambda-balanced, W2^T W2 - W1 W1^T = lambda I; with the best "
                f"lambda, {self.imbalance:.6g}, the relative residual was {residual:.3g} where {BALANCE_TOLERANCE:g} "
                "is allowed. Start from balanced weights, or integrate the flow instead"
            )

    @cached_property
    def _stacked(self) -> np.ndarray:
        return np.concatenate([self.first_layer.T, self.second_layer])

    @property
    def _difference(self) -> np.ndarray:
        return np.asarray(self.second_layer.T @ self.second_layer - self.first_layer @ self.first_layer.T)

    @cached_property
    def imbalance(self) -> float:
        """lambda."""
        return float(np.sum((self._stacked @ self._difference) * self._stacked) / np.sum(self._stacked**2))

    def _square(self, times: Any) -> np.ndarray:
        """Return Q Q^T at each time.

        In the eigenbasis of F the rows of Q0 are weighted by e^(x t). They are made orthogonal, largest weighted row
        first, so that every growing exponential is divided by a larger one before it is formed.
        """
        t, (outputs, inputs), half = read_times(times), self.correlation.shape, self.imbalance / 2
        values, vectors = np.linalg.eigh(
            np.block([[-half * np.eye(inputs), self.correlation.T], [self.correlation, half * np.eye(outputs)]])
        )
        rows, squares = vectors.T @ self._stacked, []
        for moment in t.ravel():
            log_weight = np.maximum(values, 0.0) * moment
            components, scales = _orthogonalize(rows, log_weight)
            scaled = components * np.exp(np.minimum(log_weight[:, None] - scales, 700.0))
            grown = moment * exprel(-2 * np.abs(values) * moment)  # int e^(2 x s) ds, without its growth
            middle = np.diag(np.exp(-2 * scales)) + scaled.T @ (grown[:, None] * scaled)
            ends = np.exp(np.minimum(values, 0.0) * moment)[:, None] * scaled
            root = vectors @ np.linalg.solve(np.linalg.cholesky(middle), ends.T).T
            squares.append(root @ root.T)
        return np.reshape(squares, (*t.shape, inputs + outputs, inputs + outputs))

    def strength(self, times: Any) -> np.ndarray:
        """Return the function W2 W1, (..., outputs, inputs)."""
        inputs = self.correlation.shape[1]
        return self._square(times)[..., inputs:, :inputs]

    def grams(self, times: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return W1^T W1, (..., inputs, inputs), and W2 W2^T, (..., outputs, outputs)."""
        square, inputs = self._square(times), self.correlation.shape[1]
        return square[..., :inputs, :inputs], square[..., inputs:, inputs:]

    def loss(self, times: Any) -> np.ndarray:
        """Return the loss still to be lost, half the squared distance of W2 W1 from Sigma_yx."""
        return np.asarray(0.5 * np.sum((self.correlation - self.strength(times)) ** 2, axis=(-1, -2)))

    def kernel(self, times: Any) -> np.ndarray:
        """Return the tangent kernel on maps, I x W1^T W1 + W2 W2^T x I, for maps flattened row by row.

        It takes an error E (outputs, inputs) to the change E W1^T W1 + W2 W2^T E of the function.
        """
        (outputs, inputs), (first, second) = self.correlation.shape, self.grams(times)
        kernel = np.einsum("ab,...cd->...acbd", np.eye(outputs), first)
        kernel = kernel + np.einsum("...ab,cd->...acbd", second, np.eye(inputs))
        return np.asarray(kernel.reshape(*kernel.shape[:-4], outputs * inputs, outputs * inputs))


def _orthogonalize(rows: np.ndarray, log_weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows in an orthonormal basis of the hidden space, chosen by the largest weighted remainder.

    Column k of the result is the component along the k-th direction; rows that served as pivots before have an exact
    zero there. Also the log of each pivot's weighted size, at least zero.
    """
    floor = 8 * float(np.finfo(float).eps) * np.linalg.norm(rows)
    rest, columns, scales = rows.copy(), [], []
    for _ in range(min(rows.shape)):
        size = np.linalg.norm(rest, axis=1)
        rest[size <= floor] = 0.0  # rounding, which would grow
        weighted = np.where(size > floor, log_weight + np.log(np.maximum(size, 1e-300)), -np.inf)
        pivot = int(np.argmax(weighted))
        usable = np.isfinite(weighted[pivot])
        direction = rest[pivot] / size[pivot] if usable else np.zeros(rows.shape[1])
        component = rest @ direction
        rest = rest - np.outer(component, direction)
        rest = rest - np.outer(rest @ direction, direction)
        rest[pivot] = 0.0
        columns.append(component)
        scales.append(max(float(weighted[pivot]), 0.0) if usable else 0.0)
    return np.stack(columns, axis=1), np.array(scales)
