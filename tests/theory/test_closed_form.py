"""Formulas against the reduced system that they solve, integrated."""

import numpy as np
import pytest

from neuralrace import initial, tasks
from neuralrace.theory import predict
from theory_problems import chain, gated

TIMES = np.linspace(0.0, 20.0, 41)


@pytest.mark.parametrize("hidden", [(4,), (4, 4)])
def test_closed_forms_solve_the_reduction(hidden):
    problem = chain(hidden=hidden)
    values = {edge: 0.1 + 0.05 * i for i, edge in enumerate(problem.architecture.edges)} if len(hidden) == 1 else 0.2
    forecast = predict(problem, initial.decoupled(values), TIMES, "closed_form")
    reduced = predict(problem, initial.decoupled(values), TIMES, "reduction", rtol=1e-9)
    np.testing.assert_allclose(forecast.loss, reduced.loss, rtol=1e-6, atol=1e-12)
    assert predict(problem, initial.decoupled(values), TIMES).method == "closed_form"


def test_routing_has_a_closed_form():
    problem = tasks.routing(4, 3).gatings["shared"](5)
    forecast = predict(problem, initial.decoupled(0.1), TIMES)
    assert forecast.method == "closed_form"
    reduced = predict(problem, initial.decoupled(0.1), TIMES, "reduction", rtol=1e-9)
    np.testing.assert_allclose(forecast.loss, reduced.loss, rtol=1e-6, atol=1e-9)


def test_xor_has_the_closed_form_of_its_pathways():
    problem = tasks.xor().gatings["xor"](16)
    weights = initial.gaussian(1e-4)(problem, 0)
    times = np.linspace(0, 20, 81)
    forecast = predict(problem, weights, times)
    assert forecast.method == "closed_form"
    assert "mutual diagonalizability" not in forecast.certificate  # it rests on the pathways' own modes
    flow = predict(problem, weights, times, "flow")
    np.testing.assert_allclose(forecast.loss, flow.loss, atol=1e-4)


def test_what_has_no_formula_is_told():
    certificate = predict(gated(0, 2), initial.decoupled(0.1), TIMES).certificate
    assert certificate.declined[0].method == "closed_form"
    assert certificate.declined[0].failed.name == "terms with a formula"
    assert "coupled" in certificate.declined[0].failed.reason
