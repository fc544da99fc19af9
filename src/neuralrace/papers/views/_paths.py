"""Strengths of trained pathways, the error term of P3, and where random pathways of depth two end."""

from typing import Any

import numpy as np

from neuralrace.problem import Problem
from neuralrace.views import RaceEquation


def path_strengths(pathways: Any, weights: Any) -> np.ndarray:
    """Return B_km, the response of output k to feature k of view m, (K, M), for one-hot targets."""
    return np.stack([np.diagonal(path.product(weights)) for path in pathways], axis=1)


def error_term(problem: Problem, equation: RaceEquation, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return P3's E_km, the true velocity of the flow less that of the race equation, and the latter; (K, M) each.

    The amplitude is a_km = B_km^(1/L); its true velocity follows from the gradient at the weights. NaN where B_km is
    not positive.
    """
    downhill = {edge: -slope for edge, slope in problem.gradient(weights).items()}
    strengths = path_strengths(equation.pathways, weights)
    turned = [[path.product({**weights, edge: downhill[edge]}) for edge in path.edges] for path in equation.pathways]
    change = np.stack([np.diagonal(sum(products)) for products in turned], axis=1)  # of W_L ... W_1, edge by edge
    positive = np.where(strengths > 0, strengths, np.nan)
    amplitudes = positive ** (1 / equation.depth)
    powers = amplitudes ** (equation.depth - 1)
    predicted = powers * (equation.drive - (powers * amplitudes) @ equation.coupling)
    return amplitudes * change / (equation.depth * positive) - predicted, predicted


def two_layer_end(first: Any, last: Any) -> np.ndarray:
    """Return the maps P_m that parallel two-layer pathways end with, in the limit of small initial weights; (M, K, K).

    For views of length one that are always together, one-hot targets. first: (M, h, K). last: (M, K, h). Early on only
    A_m = (W1_m + W2_m^T)/2 grows, and then dA_m/dt = A_m (1 - C)/K with C = sum_n A_n^T A_n common to all views, so P_m
    ends as C^(-1/2) A_m^T A_m C^(-1/2). Column k of P_m answers view m of class k.
    """
    A = (np.asarray(first) + np.swapaxes(np.asarray(last), -1, -2)) / 2
    each = np.swapaxes(A, -1, -2) @ A
    values, vectors = np.linalg.eigh(each.sum(axis=-3))
    root = (vectors / np.sqrt(values)[..., None, :]) @ np.swapaxes(vectors, -1, -2)
    return np.asarray(root[..., None, :, :] @ each @ root[..., None, :, :])


def lone_responses(maps: Any) -> np.ndarray:
    """Return the output for the class less the mean of the others, for each view alone; (..., K, M)."""
    P = np.asarray(maps)
    classes = P.shape[-1]
    right, total = np.einsum("...mkk->...km", P), np.einsum("...mjk->...km", P)
    return np.asarray((classes * right - total) / (classes - 1))
