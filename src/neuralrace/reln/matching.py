"""Modules of two descriptions of one task, such as foreseen and found ones, put beside each other."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from neuralrace.errors import GateError
from neuralrace.reln.course import Course
from neuralrace.reln.modular import Modular


class Pair(NamedTuple):
    """A module of one description and the one of another that it is paired with, by their places.

    alike: the share of examples for which both are on or both off. share: of the layer's strength at the end, of each.
    parted: when each parted. written: the correlation of what they write to the outputs at the end.
    """

    first: int
    second: int
    alike: float
    share: tuple[float, float]
    parted: tuple[float, float]
    written: float


def match(first: Modular, first_course: Course, second: Modular, second_course: Course) -> tuple[Pair, ...]:
    """Pair the modules of two descriptions of one hidden layer so that their gates differ least on the whole."""
    if first.gates.shape[1] != second.gates.shape[1]:
        raise GateError(f"the same examples are required; there are {first.gates.shape[1]} and {second.gates.shape[1]}")
    courses = first_course, second_course
    share = [course.share[:, -1] for course in courses]
    parted = [course.parted for course in courses]
    found = []
    for one, other in paired(first.modules.gates, second.modules.gates):
        found.append(
            Pair(
                first=one,
                second=other,
                alike=float(np.mean(first.modules.patterns[one] == second.modules.patterns[other])),
                share=(float(share[0][one]), float(share[1][other])),
                parted=(float(parted[0][one]), float(parted[1][other])),
                written=_correlation(first_course.written[one], second_course.written[other]),
            )
        )
    return tuple(found)


def paired(first: np.ndarray, second: np.ndarray) -> list[tuple[int, int]]:
    """Places of gates (modules, N) that are paired so that they differ least on the whole."""
    apart = np.abs(first[:, None] - second).mean(axis=-1)
    return [(int(one), int(other)) for one, other in zip(*linear_sum_assignment(apart), strict=True)]


def _correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Of two arrays as they are, without their mean; zero where one is zero."""
    size = np.linalg.norm(first) * np.linalg.norm(second)
    return float(np.sum(first * second) / size) if size > 0 else 0.0
