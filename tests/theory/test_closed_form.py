"""Formulas against the reduced system that they solve, integrated."""

import numpy as np
import pytest

from neuralrace import initial, tasks
from neuralrace.theory import predict
from theory_problems import chain, gated

TIMES = np.linspace(0.0, 20.0, 41)
TWO, THREE = chain(hidden=(4,)), chain(hidden=(4, 4))
UNEQUAL, UNEQUAL_THREE = ({edge: 0.1 + 0.05 * i for i, edge in enumerate(p.architecture.edges)} for p in (TWO, THREE))


@pytest.mark.parametrize(
    ("problem", "values"),
    [
        (TWO, 0.2),
        (TWO, UNEQUAL),
        (THREE, 0.2),
        (THREE, UNEQUAL_THREE),
        (chain(hidden=()), 0.2),
        (tasks.routing(4, 3).problem("shared", 5), 0.1),
    ],
    ids=["equal layers", "unequal layers", "three layers", "unequal three", "one layer", "routing"],
)
def test_closed_forms_solve_the_reduction(problem, values):
    forecast = predict(problem, initial.decoupled(values), TIMES)
    reduced = predict(problem, initial.decoupled(values), TIMES, "reduction", rtol=1e-9)
    assert forecast.method == "closed_form"
    np.testing.assert_allclose(forecast.loss, reduced.loss, rtol=1e-6, atol=1e-9)


def test_xor_has_the_closed_form_of_its_pathways():
    problem, times = tasks.xor().problem("xor", 16), np.linspace(0, 20, 81)
    weights = initial.gaussian(1e-4)(problem, 0)
    forecast = predict(problem, weights, times)
    assert forecast.method == "closed_form"
    assert "mutual diagonalizability" not in forecast.certificate  # it rests on the pathways' own modes
    np.testing.assert_allclose(forecast.loss, predict(problem, weights, times, "flow").loss, atol=1e-4)


def test_terms_without_a_formula_are_named():
    (declined,) = predict(gated(0, 2), initial.decoupled(0.1), TIMES).certificate.declined
    assert declined.method == "closed_form"
    assert declined.failed.name == "terms with a formula"
    assert "coupled" in declined.failed.reason
