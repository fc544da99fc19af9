"""The reduction against the flow, scipy and gradient descent, and its lumped equations against those of P1."""

from collections import defaultdict

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import initial, tasks
from neuralrace.architecture import Architecture
from neuralrace.errors import AssumptionError
from neuralrace.problem import Problem
from neuralrace.statistics import shared_bases
from neuralrace.task import Task
from neuralrace.theory import ReducedSystem, Reduction, predict
from neuralrace.theory.alignment import Alignment
from theory_problems import chain, descent, gated, tangled

TIMES = np.linspace(0.0, 8.0, 33)


def routing(domains, trained, gating="shared"):
    return tasks.routing(domains, trained).problem(gating, 5)


def reduced(problem, values):
    """The reduced system from given strengths of the edges, the same for all modes."""
    count = next(iter(shared_bases(problem.statistics()).inputs.values())).shape[1]
    strengths = {edge: np.full(count, values[edge]) for edge in problem.architecture.edges}
    return ReducedSystem(problem.statistics(), (Alignment({}, strengths, 0.0, ""),))


def strengths(problem, seed):
    random = np.random.default_rng(seed)
    count = next(iter(shared_bases(problem.statistics()).inputs.values())).shape[1]
    return {edge: random.uniform(0.05, 0.3, count) for edge in problem.architecture.edges}


def test_routing_becomes_eqs_13_and_14():
    reduction = reduced(routing(6, 2), defaultdict(lambda: 0.1))
    # modes 2 and 3 have equal singular values, so three of the four are kept, with two scalars each
    assert [len(v.edges) for v in reduction.variables] == [12, 1] * 3
    assert reduction.variables[-1].modes == (2, 3)
    written = reduction.equations()
    assert written.conserved == tuple(f"6 B1[{m}]^2 - B2[{m}]^2" for m in range(3))  # M B1^2 - B2^2
    s, d, M, K = np.sqrt(185) / 4, 0.25, 6, 2
    first, second = written.text.splitlines()[:2]
    assert first.startswith(f"d B1[0]/dt = {K} B2[0] B1[0] [{s / (K * M):.6g} - {d / (K * M):.6g}")
    assert second.startswith(f"d B2[0]/dt = {K * M} B1[0]^2 [")
    assert r"\frac{d}{dt} B_{1}^{(0)}" in written.latex
    assert r"\left(B_{1}^{(0)}\right)^{2}" in written.latex


def test_more_kinds_of_edges_leave_more_scalars():
    problem = routing(6, 2)
    reduction = reduced(problem, {edge: 0.2 if edge[1].startswith("y") else 0.1 for edge in problem.architecture.edges})
    assert [len(v.edges) for v in reduction.variables] == [6, 1, 6] * 3
    assert len(reduction.equations().conserved) == 6
    reduction = reduced(routing(4, 4, "P=4"), defaultdict(lambda: 0.1))  # P1 eqs 16 and 17
    assert [len(v.edges) for v in reduction.variables] == [16, 4] * 3
    assert reduction.equations().conserved[0] == "2 B1[0]^2 - B2[0]^2"  # sqrt(P) B1^2 - B2^2


@pytest.mark.parametrize("equal", [True, False], ids=["lumped", "unlumped"])
@pytest.mark.parametrize("problem", [gated(2, 2), gated(2, 3), routing(4, 3)], ids=["gated", "deep", "routing"])
def test_reduction_is_eq_10_summed_by_hand(problem, equal):
    """Nothing is lost by lumping: one equation for every edge and mode, by scipy."""
    statistics = problem.statistics()
    bases = shared_bases(statistics)
    values = {edge: np.full(len(b), 0.1) if equal else b for edge, b in strengths(problem, 2).items()}
    edges, paths = list(values), list(statistics.open_paths)
    S = {p: np.diagonal(bases.outputs[p.target].T @ statistics.input_output(p) @ bases.inputs[p.source]) for p in paths}
    D = {
        (j, p): np.diagonal(bases.inputs[j.source].T @ statistics.input(j, p) @ bases.inputs[p.source])
        for p in paths
        for j in statistics.partners(p)
    }

    def right_hand_side(_, vector):
        b = dict(zip(edges, vector.reshape(len(edges), -1), strict=True))
        product = {p: np.prod([b[e] for e in p.edges], axis=0) for p in paths}
        change = {e: np.zeros(vector.size // len(edges)) for e in edges}
        for p in paths:
            error = S[p] - sum(product[j] * D[j, p] for j in statistics.partners(p))
            for e in p.edges:
                change[e] = change[e] + np.prod([b[o] for o in p.edges if o != e], axis=0) * error
        return np.concatenate([change[e] for e in edges])

    start = np.concatenate([values[e] for e in edges])
    exact = solve_ivp(right_hand_side, (0, 8), start, "DOP853", TIMES, rtol=1e-11, atol=1e-14).y
    forecast = predict(problem, initial.decoupled(values), TIMES, "reduction", rtol=1e-9)
    for i, edge in enumerate(edges):
        size = len(values[edge])
        np.testing.assert_allclose(forecast.modes.edge(edge), exact[i * size : (i + 1) * size], atol=1e-7)


def test_reduction_is_the_flow():
    problem = gated(0, 2)
    weights = initial.decoupled(strengths(problem, 0))(problem, 0)
    forecast, flow = (predict(problem, weights, TIMES, method, rtol=1e-8) for method in ("reduction", "flow"))
    np.testing.assert_allclose(forecast.loss, flow.loss, rtol=1e-6, atol=1e-9)
    assert forecast.certificate["mutual diagonalizability"].holds
    for edge, matrix in flow.weights(8.0).items():
        np.testing.assert_allclose(forecast.weights(8.0)[edge], matrix, atol=1e-5)


@pytest.mark.parametrize("problem", [gated(3, 3), chain(strengths=(2.0, 0.0), outputs=2)], ids=["gated", "silent mode"])
def test_descent_from_decoupled_weights_is_training(problem):
    weights = initial.decoupled(strengths(problem, 3))(problem, 0)
    losses, _ = descent(problem, weights, 0.1, 200)
    times = 0.1 * np.arange(201)
    for method in ("reduction", "flow"):
        forecast = predict(problem, weights, times, method, learning_rate=0.1, dynamics="descent")
        np.testing.assert_allclose(forecast.loss, losses, rtol=1e-9, atol=1e-12)
    assert forecast.certificate["flow regime"].tolerance == 2.0


def test_rank_deficient_inputs_have_fewer_modes():
    wide = chain()
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 3)))[0]
    task = Task({"x": wide.task.inputs["x"] @ turn.T}, wide.task.targets)
    problem = Problem(Architecture({"x": 5, "h": 4, "y": 3}, [("x", "h"), ("h", "y")]), task)
    narrow, found = (predict(one, initial.decoupled(0.1), TIMES, "reduction") for one in (wide, problem))
    np.testing.assert_allclose(found.loss, narrow.loss, rtol=1e-6)


def test_statistics_without_shared_bases_are_refused_by_name_and_residual():
    problem, start = tangled(), initial.gaussian(0.01)
    with pytest.raises(AssumptionError, match=r"Sigma_.* is off by .*: use method='auto', or force it with Reduction"):
        predict(problem, start, TIMES, "reduction", draws=1)
    chosen = predict(problem, start, TIMES[:5], draws=1)
    assert chosen.method == "flow"
    assert [entry.method for entry in chosen.certificate.declined] == ["closed_form", "reduction", "aligned"]
    assert "Sigma_" in str(chosen.certificate)


def test_a_forced_forecast_is_one_solution():
    """On statistics that are not diagonal, too, it starts at time zero with the strengths that it reports."""
    forced = predict(tangled(), initial.gaussian(0.01), TIMES[:9], Reduction(force=True), draws=2)
    assert "reduction (does NOT hold" in str(forced.certificate)
    assert not forced.certificate["mutual diagonalizability"].holds
    for edge in forced.modes.edges:
        start = np.mean([start.strengths[edge] for start in forced.reduction.starts], axis=0)
        np.testing.assert_allclose(forced.modes.edge(edge)[:, 0], start, rtol=1e-8)
