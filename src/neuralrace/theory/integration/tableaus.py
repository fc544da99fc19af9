"""The coefficients of all explicit methods, padded to one size: Tsitouras' first, then stabilized ones.

The stabilized methods are of fourth order and stable far along the negative real axis, after Abdulle (Fourth order
Chebyshev methods with recurrence relation, 2002). The stability polynomial is R = w p: p of degree s - 4 is orthogonal
on the interval of stability for the weight w^2, so that R ripples evenly there (Bernstein), and w of degree 4 makes R
the exponential to fourth order. p is evaluated by its three-term recurrence, w by four stages that meet the conditions
of order four for nonlinear equations too. The interval grows with the square of s.
"""

from functools import cache
from typing import NamedTuple

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
    """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j), and from the last of these four stages more.

    error: weights of the last five slopes in an estimate that is z^4 / 384 on an exponential, as large as the error
    half way of the cubic that the record is drawn with. matrix: of the whole method, whose last row is the end.
    """

    extent: float  # stable on [-extent, 0]
    mu: np.ndarray  # (s - 4,)
    nu: np.ndarray
    last: np.ndarray  # (4, 4), lower: three stages and the end, from the slopes before each
    error: np.ndarray  # (5,)
    matrix: np.ndarray


def make_method(stages: int) -> Method:
    """Find w and p by iteration, from w the exponential, and then the last four stages."""
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
    return Method(extent, mu, nu, last, error / (384 * (error @ (matrix @ matrix @ c)[-5:])), matrix)


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


class Tableaus(NamedTuple):
    """A recurrence of some length (see Method), then stages that mix the slopes in their slots.

    When slot i is known the next stage is the base plus the width times weights[i] @ slopes; the base is the
    state after the recurrence. The state half way is y_0 + chord (y_1 - y_0) and the width times middle @ slopes.
    """

    extent: np.ndarray  # (methods,): stable on [-extent, 0]
    length: np.ndarray  # (methods,): of the recurrence
    first: np.ndarray  # (methods,): the slot with which the last stages begin
    mu: np.ndarray  # (methods, longest)
    nu: np.ndarray
    weights: np.ndarray  # (methods, SLOTS, SLOTS)
    error: np.ndarray  # (methods, SLOTS)
    chord: np.ndarray  # (methods,)
    middle: np.ndarray  # (methods, SLOTS)


@cache
def tableaus() -> Tableaus:
    """The methods, computed once."""
    table = diffrax.Tsit5.tableau
    weights = np.array([np.pad(row, (0, SLOTS - len(row))) for row in (*table.a_lower, table.a_lower[-1])])

    def padded(row: np.ndarray) -> np.ndarray:
        return np.pad(row, (0, STAGES[-1] - 4 - len(row)))

    mu = padded(weights[:1, 0])  # Tsitouras' second stage is written as the first of one
    rows = [(3.5, 0, 1, mu, 0 * mu, weights, table.b_error, 0.0, HALF_WAY)]
    ends = np.eye(SLOTS)[0] - np.eye(SLOTS)[-1]  # of the cubic through both ends with their slopes
    for method in map(make_method, STAGES):
        weights = np.zeros((SLOTS, SLOTS))
        weights[2:6, 2:6], weights[6, 2:6] = method.last, method.last[-1]
        recurrence = len(method.mu), 2, padded(method.mu), padded(method.nu)
        rows.append((method.extent, *recurrence, weights, np.pad(method.error, (2, 0)), 0.5, ends / 8))
    return Tableaus(*(np.array(column) for column in zip(*rows, strict=True)))
