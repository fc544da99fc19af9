"""The effective initial strength: exact for given weights, a law for initializers, no constant set by hand."""

import numpy as np
import pytest
from neuralrace.theory.reduction.path_table import path_table
from scipy.integrate import solve_ivp

from neuralrace import initial
from neuralrace.statistics import shared_bases
from neuralrace.theory import ClosedForm, Reduction, predict
from neuralrace.theory.alignment import growing_strengths
from theory_problems import chain, gated

TIMES = np.linspace(0.0, 12.0, 61)


def test_one_path_starts_with_a_quarter_of_the_squared_sum():
    problem = chain(strengths=(2.0,), hidden=(5,), outputs=1)
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    weights = initial.gaussian(1e-3)(problem, 0)
    found = growing_strengths(problem.architecture, weights, bases, path_table(statistics))
    p, q = weights["x", "h0"] @ bases.inputs["x"][:, 0], weights["h0", "y"].T @ bases.outputs["y"][:, 0]
    strength = np.prod([found.strengths[edge][0] for edge in weights])
    assert strength == pytest.approx(np.sum((p + q) ** 2) / 4, rel=1e-12)


def test_the_growing_part_is_what_the_linear_phase_leaves():
    """Integrate dp/dt = S^T q, dq/dt = S p of a hidden node with two paths and look at late times."""
    drive = np.array([[1.0, 0.3]])  # one output, two inputs: S of the two paths
    random = np.random.default_rng(0)
    p, q = random.normal(size=(2, 4)), random.normal(size=(1, 4))

    def linear(_, vector):
        a, b = vector[:8].reshape(2, 4), vector[8:].reshape(1, 4)
        return np.concatenate([(drive.T @ b).ravel(), (drive @ a).ravel()])

    late = solve_ivp(linear, (0, 12), np.concatenate([p.ravel(), q.ravel()]), rtol=1e-11, atol=1e-12).y[:, -1]
    speed = np.linalg.norm(drive)
    left, right = np.ones(1), drive[0] / speed
    grown = (right @ p + left @ q) / np.sqrt(2) * np.exp(speed * 12)
    np.testing.assert_allclose(
        late[:8].reshape(2, 4), np.outer(right, grown) / np.sqrt(2), atol=3
    )  # what does not grow stays of order one


def test_the_projection_becomes_exact_as_the_weights_shrink():
    problem = gated(0, 2)
    gaps = []
    for scale in (1e-2, 1e-4):
        weights = initial.gaussian(scale)(problem, 1)
        reduced = predict(problem, weights, TIMES, Reduction(small=1.0))
        flow = predict(problem, weights, TIMES, "flow")
        assert reduced.initial_strength.source == "growing direction"
        gaps.append(np.abs(reduced.loss - flow.loss).max() / flow.loss[0])
    assert gaps[1] < 0.02
    assert gaps[1] < gaps[0]


def test_a_gaussian_start_has_a_chi_square_law_and_a_band():
    problem = chain(strengths=(2.0, 1.0), hidden=(30,), outputs=2)
    start = initial.gaussian({("x", "h0"): 1e-3, ("h0", "y"): 2e-3})
    forecast = predict(problem, start, TIMES, "reduction", draws=60)
    mean, spread = forecast.initial_strength.law["h0"]
    assert mean == pytest.approx(30 * 5e-6 / 4)
    first, second = (forecast.initial_strength.values[edge][:, 0] for edge in problem.architecture.edges)
    drawn = first * second
    assert drawn.mean() == pytest.approx(mean, abs=4 * spread / np.sqrt(60))  # four standard errors
    assert drawn.std() == pytest.approx(spread, rel=0.4)
    assert forecast.band is not None
    assert (forecast.band.low <= forecast.band.high).all()
    assert forecast.losses.shape == (60, len(TIMES))
    np.testing.assert_allclose(forecast.loss, forecast.losses.mean(axis=0))
    assert predict(problem, initial.decoupled(0.1), TIMES).band is None


def test_what_overlapping_modes_cost_is_told():
    """The estimate beside the distance from the flow, over draws of three modes of nearly one speed."""
    problem, times = chain(strengths=(1.0, 0.95, 0.9), hidden=(6,)), np.linspace(0, 30, 61)
    draws = [initial.gaussian(1e-3)(problem, seed) for seed in range(8)]
    flow = predict(problem, draws, times, "flow").losses
    found = predict(problem, draws, times, ClosedForm(force=True)).losses
    off = np.abs(found - flow).sum(axis=1) / flow.sum(axis=1)
    rows = [predict(problem, one, times, ClosedForm(force=True)).certificate for one in draws]
    told = np.array([certificate["modes that grow apart"].residual for certificate in rows])
    assert np.corrcoef(off, told)[0, 1] > 0.9
    assert 0.3 < off.sum() / told.sum() < 1.0  # it tells what all of it comes to if none of it cancels
    assert (off <= 1.5 * told + 1e-4).all()


def test_narrow_random_layers_lose_the_weak_modes():
    problem = chain(hidden=(2,))
    times = np.linspace(0, 60, 61)
    forecast = predict(problem, initial.gaussian(1e-4)(problem, 0), times, "reduction")
    assert "modes 2" in str(forecast.certificate)
    flow = predict(problem, initial.gaussian(1e-4)(problem, 0), times, "flow")
    assert forecast.loss[-1] == pytest.approx(flow.loss[-1], rel=1e-3)
