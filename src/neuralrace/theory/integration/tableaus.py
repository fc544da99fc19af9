"""The coefficients of all explicit methods, padded to one size: Tsitouras' first, then stabilized ones.

The stabilized methods are of fourth order and stable far along the negative real axis, after Abdulle (Fourth order
Chebyshev methods with recurrence relation, 2002). The stability polynomial is R = w p: p of degree s - 4 is orthogonal
on the interval of stability for the weight w^2, so that R ripples evenly there (Bernstein), and w of degree 4 makes R
the exponential to fourth order. p is evaluated by its three-term recurrence, w by four stages that meet the conditions
of order four for nonlinear equations too. The interval grows with the square of s.
"""

from functools import cache
from typing import Any, NamedTuple

import diffrax
import numpy as np

STAGES = (5, 6, 7, 8, 9, 10, 12, 14, 17, 21, 26, 32, 40, 50, 63, 80)
NEAR = 0.05  # the ripple starts here, where the exponential has come down to its height of 0.95
EXPONENTIAL = np.array([1, 1, 1 / 2, 1 / 6, 1 / 24])
EXACT = np.array([1, 1 / 2, 1 / 3, 1 / 6, 1 / 4, 1 / 8, 1 / 12, 1 / 24])  # the eight trees of order up to four
CLASSICAL = np.array([0.5, 0, 0.5, 0, 0, 1, 1 / 6, 1 / 3, 1 / 3, 1 / 6])  # where the search for the last stages starts
SLOTS = 7  # slopes that are kept for the last stages: the slope at the start is the first, at the end the last
LONGEST = 0.34 * STAGES[-1] ** 2 - 3.0  # extent of the longest method
# weights of Tsitouras' slopes in the state half way, by his interpolation
HALF_WAY = np.concatenate(
    [
        [0.10741235230096871, 0.01135625, 0.39560903056045305, -0.34475214352593553],
        [1.3161853649581645, -1.0170608542936508, 0.03125],
    ]
)
APART = np.pad(diffrax.Tsit5.tableau.a_lower[5], (0, 1)) - np.pad(diffrax.Tsit5.tableau.a_lower[4], (0, 2))


class Method(NamedTuple):
    """A recurrence of some length, then stages that mix the slopes in their slots; arrays of these are all methods.

    y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j) is the recurrence. When slot i is known the next stage is the
    base plus h times weights[i] @ slopes; the base is the state after the recurrence. The state half way is
    y_0 + chord (y_1 - y_0) and h times middle @ slopes.
    """

    extent: Any  # stable on [-extent, 0]
    length: Any  # of the recurrence
    first: Any  # the slot with which the last stages begin
    mu: np.ndarray  # as long as the longest recurrence
    nu: np.ndarray
    weights: np.ndarray  # (SLOTS, SLOTS)
    error: np.ndarray  # (SLOTS,): weights of the slopes in an estimate of the error
    chord: Any
    middle: np.ndarray  # (SLOTS,)


def make_method(stages: int) -> Method:
    """Find w and p by iteration, from w the exponential, and then the last four stages.

    Its estimate of the error is z^4 / 384 on an exponential, as large as the error half way of the cubic that the
    record is drawn with.
    """
    rest, extent, degree = EXPONENTIAL, 0.34 * stages**2 - 3.0, stages - 4
    for _ in range(30):
        mu, nu, series = _orthogonal(rest, degree, extent)
        before, rest = rest, EXPONENTIAL.copy()  # the quotient of the two power series
        for i in range(1, len(rest)):
            rest[i] -= rest[:i] @ series[i:0:-1]
        if np.abs(rest - before).max() < 1e-14:
            break
    first = np.zeros((degree + 1, degree))  # the stages of the recurrence as rows of slopes
    for j in range(degree):
        first[j + 1] = (1 + nu[j]) * first[j] - nu[j] * first[j - 1]
        first[j + 1, j] += mu[j]
    matrix, last, lower = np.zeros((stages + 1, stages + 1)), np.zeros((4, 4)), np.tril_indices(4)
    matrix[: degree + 1, :degree] = first
    matrix[degree + 1 :, :degree] = first[-1]

    def residual(entries: np.ndarray) -> np.ndarray:
        last[lower] = entries
        matrix[degree + 1 :, degree:-1] = last
        return order_conditions(matrix) - EXACT

    # Newton's method on the order conditions: the solution nearest to the classical method for the time left
    entries = CLASSICAL * (1 - first[-1].sum())
    for _ in range(20):
        gap = residual(entries)
        if np.abs(gap).max() < 1e-14:
            break
        slopes = [(residual(entries + step) - residual(entries - step)) / 2e-6 for step in 1e-6 * np.eye(10)]
        entries = entries - np.linalg.lstsq(np.array(slopes).T, gap, rcond=None)[0]
    residual(entries)
    c = matrix.sum(axis=1)
    third = np.stack([np.ones_like(c), c, c**2, matrix @ c])[:, -5:]
    error = np.linalg.svd(third)[2][-1]  # it vanishes to third order
    error = error / (384 * (error @ (matrix @ matrix @ c)[-5:]))
    weights = np.zeros((SLOTS, SLOTS))
    weights[2:6, 2:6], weights[6, 2:6] = last, last[-1]
    cubic = (np.eye(SLOTS)[0] - np.eye(SLOTS)[-1]) / 8  # through both ends with their slopes
    return Method(extent, degree, 2, _padded(mu), _padded(nu), weights, np.pad(error, (2, 0)), 0.5, cubic)


def _padded(row: np.ndarray) -> np.ndarray:
    return np.pad(row, (0, STAGES[-1] - 4 - len(row)))


def order_conditions(matrix: np.ndarray) -> np.ndarray:
    """The weights of the eight trees of order up to four."""
    c = matrix.sum(axis=1)
    inner = matrix @ c
    columns = [np.ones_like(c), c, c**2, inner, c**3, c * inner, matrix @ c**2, matrix @ inner]
    return np.asarray(matrix[-1] @ np.stack(columns, axis=1))


def _orthogonal(rest: np.ndarray, degree: int, far: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The recurrence of polynomials with p(0) = 1 that are orthogonal for w^2, and p's series to fourth order."""
    count = degree + 8  # nodes; their quadrature is exact
    scale = 2 / (far - NEAR)
    zero = 1 + scale * NEAR  # where z = 0 lies when the interval is [-1, 1]
    x = np.cos((np.arange(count) + 0.5) * np.pi / count)
    weight = np.polyval(rest[::-1], (x - zero) / scale) ** 2
    before, here = np.zeros(count), np.ones(count)
    series_before, series = np.zeros(5), np.eye(5)[0]
    mu, nu = np.zeros(degree), np.zeros(degree)
    size = 1.0
    for j in range(degree):
        density = weight * here**2
        size_before, size = size, density.sum()
        center, link = x @ density / size, scale / mu[j - 1] * size / size_before if j else 0.0
        # x p_j = p_j+1 / m + center p_j + link p_j-1, and all are one at zero
        m = 1 / (zero - center - link)
        mu[j], nu[j] = scale * m, link * m
        before, here = here, m * ((x - center) * here - link * before)
        shifted = np.concatenate([[0.0], series[:-1]])
        series_before, series = series, (1 + nu[j]) * series - nu[j] * series_before + mu[j] * shifted
    return mu, nu, series


@cache
def tableaus() -> Method:
    """Return all methods, computed once."""
    table = diffrax.Tsit5.tableau
    weights = np.array([np.pad(row, (0, SLOTS - len(row))) for row in (*table.a_lower, table.a_lower[-1])])
    mu = _padded(weights[:1, 0])  # Tsitouras' second stage is written as the first of one
    tsitouras = Method(3.5, 0, 1, mu, 0 * mu, weights, table.b_error, 0.0, HALF_WAY)
    return Method(*map(np.array, zip(tsitouras, *map(make_method, STAGES), strict=True)))
