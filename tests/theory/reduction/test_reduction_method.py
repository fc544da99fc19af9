"""The reduction against the flow, scipy and gradient descent, on problems that are diagonal by construction."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import initial, tasks
from neuralrace.architecture import Architecture
from neuralrace.errors import AssumptionError
from neuralrace.problem import Problem
from neuralrace.statistics import shared_bases
from neuralrace.task import Task
from neuralrace.theory import Reduction, predict
from theory_problems import chain, descent, gated, tangled

TIMES = np.linspace(0.0, 8.0, 33)


def strengths(problem, seed):
    random = np.random.default_rng(seed)
    count = next(iter(shared_bases(problem.statistics()).inputs.values())).shape[1]
    return {edge: random.uniform(0.05, 0.3, count) for edge in problem.architecture.edges}


def test_reduction_is_the_flow():
    problem = gated(0, 2)
    weights = initial.decoupled(strengths(problem, 0))(problem, 0)
    reduced = predict(problem, weights, TIMES, "reduction", rtol=1e-8)
    flow = predict(problem, weights, TIMES, "flow", rtol=1e-8)
    np.testing.assert_allclose(reduced.loss, flow.loss, rtol=1e-6, atol=1e-9)
    assert reduced.certificate["mutual diagonalizability"].holds
    for edge, matrix in flow.weights(8.0).items():
        np.testing.assert_allclose(reduced.weights(8.0)[edge], matrix, atol=1e-5)


def test_reduction_is_eq_10_summed_by_hand():
    problem = gated(2, 2)
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    values = strengths(problem, 2)
    edges, paths = list(values), list(statistics.open_paths)
    S = {p: bases.strengths(statistics, p) for p in paths}
    D = {(j, p): bases.variances(statistics, j, p) for j in paths for p in paths}

    def right_hand_side(_, vector):
        b = dict(zip(edges, vector.reshape(len(edges), -1), strict=True))
        product = {p: np.prod([b[e] for e in p.edges], axis=0) for p in paths}
        change = {e: np.zeros(vector.size // len(edges)) for e in edges}
        for p in paths:
            error = S[p] - sum(product[j] * D[j, p] for j in paths)
            for e in p.edges:
                change[e] = change[e] + np.prod([b[o] for o in p.edges if o != e], axis=0) * error
        return np.concatenate([change[e] for e in edges])

    start = np.concatenate([values[e] for e in edges])
    exact = solve_ivp(right_hand_side, (0, 8), start, "DOP853", TIMES, rtol=1e-11, atol=1e-14).y
    forecast = predict(problem, initial.decoupled(values), TIMES, "reduction", rtol=1e-9)
    for i, edge in enumerate(edges):
        size = len(values[edge])
        np.testing.assert_allclose(forecast.modes.edge(edge), exact[i * size : (i + 1) * size], atol=1e-7)


def test_descent_from_decoupled_weights_is_training():
    problem = gated(3, 3)
    weights = initial.decoupled(strengths(problem, 3))(problem, 0)
    losses, _ = descent(problem, weights, 0.1, 200)
    times = 0.1 * np.arange(201)
    for method in ("reduction", "flow"):
        forecast = predict(problem, weights, times, method, learning_rate=0.1, dynamics="descent")
        np.testing.assert_allclose(forecast.loss, losses, rtol=1e-9, atol=1e-12)
    regime = forecast.certificate["flow regime"]
    assert regime.tolerance == 2.0
    assert "at the start" in regime.detail


def test_a_mode_without_correlation_decays_as_in_training():
    problem = chain(strengths=(2.0, 0.0), outputs=2)
    weights = initial.decoupled(0.3)(problem, 0)
    losses, _ = descent(problem, weights, 0.05, 100)
    times = 0.05 * np.arange(101)
    forecast = predict(problem, weights, times, "reduction", learning_rate=0.05, dynamics="descent")
    np.testing.assert_allclose(forecast.loss, losses, rtol=1e-9, atol=1e-14)


def test_rank_deficient_inputs_have_fewer_modes():
    random = np.random.default_rng(0)
    wide = chain()
    turn = np.linalg.qr(random.normal(size=(5, 3)))[0]
    task = Task({"x": wide.task.inputs["x"] @ turn.T}, wide.task.targets)
    problem = Problem(Architecture({"x": 5, "h": 4, "y": 3}, [("x", "h"), ("h", "y")]), task)
    narrow = predict(wide, initial.decoupled(0.1), TIMES, "reduction")
    np.testing.assert_allclose(
        predict(problem, initial.decoupled(0.1), TIMES, "reduction").loss, narrow.loss, rtol=1e-6
    )


def test_narrow_layers_learn_the_strong_modes_and_name_the_lost():
    problem = chain(hidden=(2,))
    forecast = predict(problem, initial.decoupled(0.1), np.linspace(0, 40, 50))
    assert "modes 2" in str(forecast.certificate)
    assert forecast.loss[-1] == pytest.approx(0.5 * 1.0**2, rel=1e-6)  # the weakest mode is left: s^2 / 2d
    flow = predict(problem, forecast.weights(0.0), np.linspace(0, 40, 50), "flow")
    np.testing.assert_allclose(forecast.loss, flow.loss, atol=1e-4)


def test_what_is_not_diagonal_is_refused_with_its_name_and_residual():
    problem = tangled()
    start = initial.gaussian(0.01)
    with pytest.raises(AssumptionError, match=r"Sigma_.* is off by .*: use method='auto', or go on with Reduction"):
        predict(problem, start, TIMES, "reduction", draws=1)
    chosen = predict(problem, start, TIMES[:5], draws=1)
    assert chosen.method == "flow"
    assert [entry.method for entry in chosen.certificate.declined] == ["closed_form", "reduction", "aligned"]
    assert "Sigma_" in str(chosen.certificate)


def decoupled_losses(problem, forecast, draw):
    """The loss of the predicted weights, by the examples."""
    return [problem.loss(weights) for weights in forecast.weights_at(forecast.time, draw)]


def test_a_forced_forecast_is_one_solution():
    """Loss and weights of every draw are those of the reduction from time zero, on what is not diagonal too."""
    problem = tangled()
    forced = predict(problem, initial.gaussian(0.01), TIMES[:9], Reduction(force=True), draws=2)
    assert "reduction (does NOT hold" in str(forced.certificate)
    assert forced.handover is None
    assert not forced.certificate["mutual diagonalizability"].holds
    assert forced.reduction is not None
    for draw in range(2):
        states = forced.reduction.spread_out(forced.reduction.initial_state()[draw], draw)
        for edge, values in states.items():
            np.testing.assert_array_equal(forced.initial_strength.values[edge][draw], values)


def test_a_forced_hand_over_that_fails_leaves_the_flow_out():
    """Draws that the flow does not align in time: all are the reduction, and their weights give their loss."""
    problem = chain(hidden=(6, 6))
    times = np.linspace(0, 3, 16)
    start = initial.orthogonal(0.3)
    with pytest.raises(AssumptionError, match=r"hand-over.*: use method='auto', or go on with Reduction\(force=True\)"):
        predict(problem, start, times, "reduction", draws=2, rtol=1e-8)
    forced = predict(problem, start, times, Reduction(force=True), draws=2, rtol=1e-8)
    assert not forced.certificate.holds
    assert forced.handover is None
    assert forced.initial_strength.source == "projected weights"
    for draw in range(2):  # exact for decoupled weights; the accuracy is that of the integration
        np.testing.assert_allclose(forced.losses[draw], decoupled_losses(problem, forced, draw), rtol=1e-6, atol=1e-9)


def test_force_changes_nothing_where_nothing_fails():
    problem = gated(0, 2)
    start = initial.decoupled(strengths(problem, 0))
    plain, forced = (predict(problem, start, TIMES, Reduction(force=force)) for force in (False, True))
    assert forced.certificate.holds
    np.testing.assert_array_equal(plain.loss, forced.loss)


def test_deeper_networks_hand_over_at_a_named_time():
    problem = chain(hidden=(6, 6))
    weights = initial.orthogonal(0.02)(problem, 0)
    times = np.linspace(0, 400, 201)
    forecast = predict(problem, weights, times)
    assert forecast.method == "reduction"
    assert forecast.initial_strength.source == "hand-over"
    (moment,) = forecast.handover
    assert 0 < moment < 400
    assert f"{moment:.4g}" in str(forecast.certificate)
    flow = predict(problem, weights, times, "flow")
    np.testing.assert_allclose(forecast.loss, flow.loss, atol=2e-2 * flow.loss[0])
    np.testing.assert_allclose(forecast.modes.path(forecast.modes.paths[0])[:, -1], [3.0, 2.0, 1.0], rtol=0.02)
    # weights, strengths and loss belong together before the hand-over and after it
    for time, loss in zip(forecast.time[[10, -10]], forecast.loss[[10, -10]], strict=True):
        assert problem.loss(forecast.weights(float(time))) == pytest.approx(loss, rel=1e-4, abs=1e-9)


def test_symmetric_lumping_says_how_far_the_start_is_from_symmetric():
    problem = tasks.routing(4, 3).gatings["shared"](5)
    random = np.random.default_rng(0)
    values = {edge: 0.1 * (1 + 0.01 * random.normal()) for edge in problem.architecture.edges}
    forecast = predict(problem, initial.decoupled(values), TIMES, Reduction(symmetric=True, small=0.05))
    assert len(forecast.reduction.variables) == 6
    assert 1e-4 < forecast.certificate["lumping symmetry"].residual < 0.05
    exact = predict(problem, initial.decoupled(values), TIMES, "reduction")
    assert np.abs(forecast.loss - exact.loss).max() < 0.1 * exact.loss[0]
