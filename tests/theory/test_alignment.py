"""The initial strength of each mode: exact for given weights, chi-square for Gaussian draws."""

import numpy as np
import pytest

from neuralrace import initial
from neuralrace.statistics import shared_bases
from neuralrace.theory import ClosedForm, Reduction, predict
from theory_problems import chain, gated

TIMES = np.linspace(0.0, 12.0, 61)


def test_one_path_starts_with_a_quarter_of_the_squared_sum():
    problem = chain(strengths=(2.0,), hidden=(5,), outputs=1)
    bases, weights = shared_bases(problem.statistics()), initial.gaussian(1e-3)(problem, 0)
    forecast = predict(problem, weights, TIMES, "reduction")
    p, q = weights["x", "h0"] @ bases.inputs["x"][:, 0], weights["h0", "y"].T @ bases.outputs["y"][:, 0]
    strength = np.prod([forecast.reduction.starts[0].strengths[edge][0] for edge in weights])
    assert strength == pytest.approx(np.sum((p + q) ** 2) / 4, rel=1e-12)


def test_the_projection_becomes_exact_as_the_weights_shrink():
    problem = gated(0, 2)
    gaps = []
    for scale in (1e-2, 1e-4):
        weights = initial.gaussian(scale)(problem, 1)
        reduced, flow = (predict(problem, weights, TIMES, method) for method in (Reduction(small=1.0), "flow"))
        gaps.append(np.abs(reduced.loss - flow.loss).max() / flow.loss[0])
    assert gaps[1] < 0.02
    assert gaps[1] < gaps[0]


def test_gaussian_strengths_are_chi_square():
    problem = chain(strengths=(2.0, 1.0), hidden=(30,), outputs=2)
    start = initial.gaussian({("x", "h0"): 1e-3, ("h0", "y"): 2e-3})
    forecast = predict(problem, start, TIMES, "reduction", draws=60)
    mean, spread = 30 * 5e-6 / 4, np.sqrt(2 * 30) * 5e-6 / 4  # |p + q|^2 / 4 of 30 neurons
    starts = forecast.reduction.starts
    drawn = np.array([np.prod([start.strengths[edge][0] for edge in problem.architecture.edges]) for start in starts])
    assert drawn.mean() == pytest.approx(mean, abs=4 * spread / np.sqrt(60))  # four standard errors
    assert drawn.std() == pytest.approx(spread, rel=0.4)
    assert forecast.losses.shape == (60, len(TIMES))


def test_the_cost_of_overlapping_modes_is_estimated():
    """The estimate next to the distance from the flow, over draws of three modes of nearly one speed."""
    problem, times = chain(strengths=(1.0, 0.95, 0.9), hidden=(6,)), np.linspace(0, 30, 61)
    draws = [initial.gaussian(1e-3)(problem, seed) for seed in range(8)]
    flow = predict(problem, draws, times, "flow").losses
    found = [predict(problem, one, times, ClosedForm(force=True)) for one in draws]
    off = np.array([np.abs(one.losses - exact).sum() / exact.sum() for one, exact in zip(found, flow, strict=True)])
    estimates = np.array([one.certificate["modes that grow apart"].residual for one in found])
    assert np.corrcoef(off, estimates)[0, 1] > 0.9
    assert 0.3 < off.sum() / estimates.sum() < 1.0  # an upper estimate: nothing in it cancels
    assert (off <= 1.5 * estimates + 1e-4).all()


@pytest.mark.parametrize("start", [initial.decoupled(0.1), initial.gaussian(1e-4)])
def test_narrow_layers_learn_the_strong_modes_and_name_the_lost(start):
    problem, times = chain(hidden=(2,)), np.linspace(0, 60, 61)
    forecast = predict(problem, start(problem, 0), times, "reduction")
    assert "modes 2" in str(forecast.certificate)
    assert forecast.loss[-1] == pytest.approx(0.5 * 1.0**2, rel=1e-3)  # the weakest mode is left: s^2 / 2d
    flow = predict(problem, start(problem, 0), times, "flow")
    np.testing.assert_allclose(forecast.loss[-1], flow.loss[-1], rtol=1e-3)
