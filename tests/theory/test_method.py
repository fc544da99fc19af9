"""The certificate: what it says, and that it cannot contradict itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace import initial
from neuralrace.errors import AssumptionError, UnknownNameError
from neuralrace.theory import LADDER, Aligned, Assumption, Certificate, Declined, predict
from theory_problems import chain, tangled

TIMES = np.linspace(0.0, 10.0, 41)


def contradictions(certificate):
    """Rows that are needed and fail although the certificate holds, or the reverse."""
    failing = [row for row in certificate.assumptions if row.needed and not row.holds]
    return failing if certificate.holds else [] if failing else ["nothing fails"]


@pytest.mark.parametrize("gating", ["common + all-but-one", "common + all-but-one, items only"])
def test_modes_that_turn_are_followed_whole_and_told_once(gating):
    problem = nr.tasks.contextual(3, "mixed").problem(gating, hidden=200)
    forecast = predict(problem, initial.gaussian(0.005 / 700)(problem, 0), np.linspace(0, 192, 9))
    certificate = forecast.certificate
    assert forecast.method == "aligned"
    assert certificate.holds
    assert not contradictions(certificate)
    assert "own modes stay diagonal" not in certificate
    (turning,) = [entry for entry in certificate.declined if entry.method == "aligned"]
    assert turning.failed.name == "own modes stay diagonal"
    assert "FAILS" not in str(certificate)
    assert "not aligned with one strength per mode: own modes stay diagonal" in str(certificate)
    forced = predict(problem, initial.gaussian(0.005 / 700)(problem, 0), np.linspace(0, 192, 9), Aligned(force=True))
    assert not forced.certificate.holds
    assert not contradictions(forced.certificate)


ASSUMING = [method for method in LADDER if method.linear and method.name != "flow"]


@given(st.integers(0, 4), st.sampled_from([1e-5, 1e-2, 0.5]), st.sampled_from(ASSUMING), st.booleans())
@settings(max_examples=12)
def test_no_certificate_contradicts_itself(seed, scale, method, force):
    """On random problems, forced or not; the flow, which assumes nothing, is not waited for."""
    problem = nr.tasks.random_problem(seed, sizes=(2, 3)) if seed else tangled()
    weights = initial.gaussian(scale)(problem, 0)
    try:
        certificate = predict(problem, weights, [0.0, 0.1], replace(method, force=force)).certificate
    except AssumptionError:
        return  # refused, so there is no certificate
    assert not contradictions(certificate)
    assert force or certificate.holds


def test_the_words_of_a_certificate():
    rows = (Assumption("balance", 0.5, 0.1, "node 'h'", needed=False), Assumption("decoupling", 0.5, 0.1, "overlap"))
    declined = (Declined("closed_form", Assumption("terms with a formula", 1, 0.0, "term 0 is coupled")),)
    failing, fine = Certificate("reduction", rows, declined, ("lost",)), Certificate("reduction", rows[:1])
    assert not failing.holds
    assert fine.holds
    text = str(failing)
    assert "method: reduction (does NOT hold; not checked against the flow)" in text
    assert "measured only:\n    balance                            0.5  node 'h'" in text
    assert "required:\n    decoupling                   FAILS" in text
    assert "no " not in str(fine).split("balance")[1]
    assert "not closed_form: terms with a formula required; term 0 is coupled" in text
    assert "note: lost" in text
    assert rows[1].reason == "decoupling is required to 0.1; overlap is off by 0.5"
    assert failing["balance"] is rows[0]
    assert tuple(failing) == rows
    assert rows[0] in failing
    assert "luck" not in failing
    with pytest.raises(UnknownNameError, match=r"no assumption .*; known: balance, decoupling"):
        failing["luck"]


def test_step_size_is_compared_with_the_sharpness():
    problem = chain()
    start = initial.decoupled(0.1)
    fine = predict(problem, start, TIMES, learning_rate=0.01).certificate["flow regime"]
    # at the end the strongest mode has b^2 = 3 on both layers and unit variance: sharpness 2 * 3
    assert fine.residual == pytest.approx(0.06, rel=0.02)
    assert fine.holds
    coarse = predict(problem, start, TIMES, learning_rate=0.5).certificate
    assert not coarse["flow regime"].holds
    assert coarse.holds  # the flow is what it is; only descent at that rate would not follow it
