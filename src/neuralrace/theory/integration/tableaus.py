"""The coefficients of all explicit methods, padded to one size: Tsitouras' first, then stabilized ones.

The stabilized methods are of fourth order and stable far along the negative real axis, after Abdulle (Fourth order
Chebyshev methods with recurrence relation, 2002). The stability polynomial is R = w p: p of degree s - 4 is orthogonal
on the interval of stability for the weight w^2, so that R ripples evenly there (Bernstein), and w of degree 4 makes R
the exponential to fourth order. p is run by its three-term recurrence, w by four stages that meet the conditions of
order four for nonlinear equations too. The interval grows with the square of s.
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
LOWER = np.tril_indices(4)


class Stabilized(NamedTuple):
    """y_j+1 = (1 + nu_j) y_j - nu_j y_j-1 + mu_j h f(y_j), and from the last of these four stages more.

    error: weights of the last five slopes in an estimate that is z^4 / 384 on an exponential, as large as the error
    half way of the cubic that the record is drawn with.
    """

    extent: float  # stable on [-extent, 0]
    mu: np.ndarray  # (s - 4,)
    nu: np.ndarray
    last: np.ndarray  # (4, 4), lower: three stages and the end, from the slopes before each
    error: np.ndarray  # (5,)


def make_method(stages: int) -> Stabilized:
    """Find w and p by iteration, from w the exponential, and then the last four stages."""
    rest, far = EXPONENTIAL, extent(stages)
    for _ in range(30):
        mu, nu, series = _orthogonal(rest, stages - 4, far)
        before, rest = rest, _quotient(EXPONENTIAL, series)
        if np.abs(rest - before).max() < 1e-14:
            break
    first = _recurrence(mu, nu)
    last = _last_stages(first)
    return Stabilized(far, mu, nu, last, _estimate(completed(first, last)))


def extent(stages: int) -> float:
    """How far along the negative axis the method is stable."""
    return 0.34 * stages**2 - 3.0


def completed(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """The whole method as a Runge-Kutta matrix whose last row is the end of the step."""
    count = len(first) - 1
    matrix = np.zeros((count + 5, count + 5))
    matrix[: count + 1, :count] = first
    matrix[count + 1 :, :count] = first[-1]
    matrix[count + 1 :, count:-1] = last
    return matrix


def order_conditions(matrix: np.ndarray) -> np.ndarray:
    """The weights of the eight trees of order up to four."""
    c = matrix.sum(axis=1)
    inner = matrix @ c
    columns = [np.ones_like(c), c, c**2, inner, c**3, c * inner, matrix @ c**2, matrix @ inner]
    return np.asarray(matrix[-1] @ np.stack(columns, axis=1))


def _recurrence(mu: np.ndarray, nu: np.ndarray) -> np.ndarray:
    """The stages of the recurrence as rows of slopes; (s - 3, s - 4)."""
    rows = np.zeros((len(mu) + 1, len(mu)))
    for j in range(len(mu)):
        rows[j + 1] = (1 + nu[j]) * rows[j] - nu[j] * rows[j - 1]
        rows[j + 1, j] += mu[j]
    return rows


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


def _quotient(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """The quotient of two power series; the second starts with one."""
    found = numerator.copy()
    for i in range(1, len(found)):
        found[i] -= found[:i] @ denominator[i:0:-1]
    return found


def _last_stages(first: np.ndarray) -> np.ndarray:
    """Newton's method on the order conditions: the solution nearest to the classical method for the time left."""

    def residual(entries: np.ndarray) -> np.ndarray:
        last[LOWER] = entries
        return order_conditions(completed(first, last)) - EXACT

    last = np.zeros((4, 4))
    entries = CLASSICAL * (1 - first[-1].sum())
    for _ in range(20):
        gap = residual(entries)
        if np.abs(gap).max() < 1e-14:
            break
        slopes = [(residual(entries + step) - residual(entries - step)) / 2e-6 for step in 1e-6 * np.eye(10)]
        entries = entries - np.linalg.lstsq(np.array(slopes).T, gap, rcond=None)[0]
    last[LOWER] = entries
    return last


def _estimate(matrix: np.ndarray) -> np.ndarray:
    """The weights of the last five slopes that vanish to third order, scaled to z^4 / 384 on an exponential."""
    c = matrix.sum(axis=1)
    inner = matrix @ c
    third = np.stack([np.ones_like(c), c, c**2, inner])[:, -5:]
    weights = np.linalg.svd(third)[2][-1]
    return np.asarray(weights / (384 * (weights @ (matrix @ inner)[-5:])))


SLOTS = 7  # slopes that are kept for the last stages; the one of the start is in the first, of the end in the last
LONGEST = extent(STAGES[-1])
APART = np.pad(diffrax.Tsit5.tableau.a_lower[5], (0, 1)) - np.pad(diffrax.Tsit5.tableau.a_lower[4], (0, 2))

HALF_WAY = np.array(  # weights of Tsitouras' slopes in the state half way, by his interpolation
    [
        0.10741235230096871,
        0.01135625,
        0.39560903056045305,
        -0.34475214352593553,
        1.3161853649581645,
        -1.0170608542936508,
        0.031249999999999993,
    ]
)


class Tableaus(NamedTuple):
    """A recurrence of some length (see make_method), then stages that mix the slopes in their slots.

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
    rows = [_tsitouras(), *(_stabilized(make_method(stages)) for stages in STAGES)]
    return Tableaus(*(np.array(column) for column in zip(*rows, strict=True)))


def _tsitouras() -> tuple[Any, ...]:
    """No recurrence; the second stage is written as the first of one."""
    table = diffrax.Tsit5.tableau
    weights = np.array([np.pad(row, (0, SLOTS - len(row))) for row in (*table.a_lower, table.a_lower[-1])])
    mu = _padded(np.array([weights[0, 0]]))
    return 3.5, 0, 1, mu, 0 * mu, weights, table.b_error, 0.0, HALF_WAY


def _stabilized(method: Stabilized) -> tuple[Any, ...]:
    """The state half way is on the cubic through both ends with their slopes."""
    weights = np.zeros((SLOTS, SLOTS))
    weights[2:6, 2:6], weights[6, 2:6] = method.last, method.last[-1]
    ends = np.eye(SLOTS)[0] - np.eye(SLOTS)[-1]
    recurrence = len(method.mu), 2, _padded(method.mu), _padded(method.nu)
    return method.extent, *recurrence, weights, np.pad(method.error, (2, 0)), 0.5, ends / 8


def _padded(row: np.ndarray) -> np.ndarray:
    return np.pad(row, (0, STAGES[-1] - 4 - len(row)))
