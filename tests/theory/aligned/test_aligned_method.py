"""Paths with their own singular vectors: couplings, diagonal and whole strengths."""

import numpy as np
import pytest
from neuralrace.theory.aligned.own_modes import couplings, own_modes, own_start
from scipy.integrate import solve_ivp

from neuralrace import initial, tasks
from neuralrace.architecture import Architecture
from neuralrace.errors import AssumptionError
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import Aligned, predict
from theory_problems import chain, flatten


def overlapping(contexts=3, size=3):
    """White items, all-but-one gates and targets such that U_p^T U_j is a multiple of the identity (P2 appendix F)."""
    random = np.random.default_rng(0)
    base = np.linalg.qr(random.normal(size=(size, size)))[0] * np.array([3.0, 2.0, 1.0])[:size]
    context, item = np.repeat(np.arange(contexts), size), np.tile(np.arange(size), contexts)
    centerd = np.eye(contexts) - 1.0 / contexts  # what a common pathway would have left over
    targets = np.einsum("nc,no->nco", centerd[context], base.T[item]).reshape(len(item), -1)
    names = [f"h{c}" for c in range(contexts)]
    architecture = Architecture(
        {"x": size, **dict.fromkeys(names, 4), "y": targets.shape[1]},
        [("x", n) for n in names] + [(n, "y") for n in names],
    )
    gates = Gates(nodes={n: (context != c).astype(float) for c, n in enumerate(names)})
    return Problem(architecture, Task({"x": np.eye(size)[item]}, {"y": targets}), gates)


def test_couplings_are_computed_from_the_data():
    problem = overlapping()
    statistics = problem.statistics()
    modes = own_modes(statistics)
    first, second = list(modes.values())[:2]
    whole = couplings(statistics, first, second)
    overlap = first.output.T @ second.output
    inputs = second.input.T @ statistics.input(second.path, first.path) @ first.input
    # B_j = e_n e_n^T acts on mode m of p through (U_p^T U_j B_j V_j^T Sigma V_p)_mm
    for n in range(3):
        only = np.zeros((3, 3))
        only[n, n] = 1.0
        np.testing.assert_allclose(whole[:, n], np.diagonal(overlap @ only @ inputs), atol=1e-14)


def test_appendix_f_is_exact_with_diagonal_strengths():
    problem = overlapping()
    modes = own_modes(problem.statistics())
    random = np.random.default_rng(1)
    hidden = {f"h{c}": np.linalg.qr(random.normal(size=(4, 3)))[0] for c in range(3)}
    weights = {}
    for path, own in modes.items():
        basis = hidden[path.edges[0][1]]
        weights |= {path.edges[0]: 0.2 * basis @ own.input.T, path.edges[1]: 0.2 * own.output @ basis.T}
    times = np.linspace(0, 20, 41)
    forecast = predict(problem, weights, times, rtol=1e-9)
    assert forecast.method in ("closed_form", "aligned")
    assert "mutual diagonalizability" in str(forecast.certificate)
    assert forecast.certificate["own modes stay diagonal"].holds
    flow = predict(problem, weights, times, "flow", rtol=1e-9)
    np.testing.assert_allclose(forecast.loss, flow.loss, rtol=1e-6, atol=1e-10)
    last = {edge: forecast.weights(20.0)[edge] for edge in weights}
    np.testing.assert_allclose(flatten(problem, last), flatten(problem, flow.weights(20.0)), atol=1e-5)


def test_the_diagonal_law_is_that_of_scipy():
    problem = tasks.contextual(structure="mixed", items=8).gatings["common + all-but-one, items only"](10)
    statistics = problem.statistics()
    modes = own_modes(statistics)
    weights = initial.gaussian(1e-3)(problem, 0)
    strengths = own_start(modes, weights).strengths
    coupled = {(p, j): couplings(statistics, modes[p], modes[j]) for p in modes for j in statistics.partners(p)}
    order = [(p, e) for p in modes for e in p.edges]
    sizes = [len(modes[p].strengths) for p, _ in order]

    def right_hand_side(_, vector):
        b = dict(zip(order, np.split(vector, np.cumsum(sizes)[:-1]), strict=True))
        products = {p: b[p, p.edges[0]] * b[p, p.edges[1]] for p in modes}
        change = []
        for p, e in order:
            error = modes[p].strengths - sum(coupled[p, j] @ products[j] for j in statistics.partners(p))
            change.append(b[p, p.edges[1] if e == p.edges[0] else p.edges[0]] * error)
        return np.concatenate(change)

    times = np.linspace(0, 40, 21)
    start = np.concatenate([strengths[e] for _, e in order])
    exact = solve_ivp(right_hand_side, (0, 40), start, "DOP853", times, rtol=1e-11, atol=1e-14).y[:, -1]
    forecast = predict(problem, weights, times, Aligned(force=True), rtol=1e-9)
    found = np.concatenate([forecast.modes.edge(e)[:, -1] for _, e in order])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-7)
    assert not forecast.certificate.holds
    with pytest.raises(AssumptionError, match="path item->without"):
        predict(problem, weights, times, Aligned())


def test_what_a_path_would_learn_alone_is_the_logistic_curve_of_its_modes():
    problem = overlapping()
    path, own = next(iter(own_modes(problem.statistics()).items()))
    strengths = dict(zip(path.edges, np.array([[0.1, 0.2, 0.3], [0.1, 0.2, 0.3]]), strict=True))

    def slope(_, product):
        return 2 * product * (own.strengths - own.variances * product)

    solved = solve_ivp(slope, (0, 3), np.array([0.01, 0.04, 0.09]), rtol=1e-10, atol=1e-12).y[:, -1]
    np.testing.assert_allclose(own.learned_alone(strengths, 3.0), solved, rtol=1e-8)


def test_whole_strengths_follow_the_mixed_contexts():
    problem = tasks.contextual(structure="mixed").gatings["common + all-but-one, items only"](12)
    weights = initial.gaussian(1e-5)(problem, 0)
    times = np.linspace(0, 120, 61)
    forecast = predict(problem, weights, times)
    assert forecast.method == "aligned"
    assert "whole matrices" in str(forecast.certificate)
    flow = predict(problem, weights, times, "flow", rtol=1e-5)
    assert np.abs(forecast.loss - flow.loss).max() < 1e-4 * flow.loss[0]  # steps of 1e-5, and what does not grow
    # the same start followed by the flow over nodes is the same curve
    start = own_start(own_modes(problem.statistics()), weights)
    begin = start.weights(start.whole)
    whole = predict(problem, weights, times, Aligned(diagonal=False))
    np.testing.assert_allclose(predict(problem, begin, times, "flow").loss, whole.loss, rtol=1e-4)
    kept = predict(problem, weights, times, Aligned(diagonal=False, keep=True))  # the same steps
    np.testing.assert_allclose(kept.loss, whole.loss, rtol=1e-9)  # to rounding, which grows with the weights
    some = kept.weights_at(times[::20])
    np.testing.assert_allclose([problem.loss(one) for one in some], kept.loss[::20], rtol=1e-4)  # read within steps
    assert forecast.modes.path(forecast.modes.paths[0]).shape[1] == 61


@pytest.mark.parametrize("hidden", [2, 3])
def test_narrow_layers_are_followed_whole(hidden):
    """Modes of nearly one speed share few hidden units to the end; the oracle is scipy on the weights as they are."""
    problem = chain(strengths=(1.0, 0.95, 0.9), hidden=(hidden,))
    weights, times = initial.gaussian(1e-4)(problem, 0), np.linspace(0, 30, 31)
    forecast = predict(problem, weights, times)
    assert forecast.method == "aligned"
    assert {entry.failed.name for entry in forecast.certificate.declined} >= {"modes that grow apart"}
    assert not forecast.certificate["modes that grow apart"].holds  # for information
    inputs, targets = problem.task.inputs["x"], problem.task.targets["y"]

    def flow(_, vector):
        first, last = vector[: 3 * hidden].reshape(hidden, 3), vector[3 * hidden :].reshape(3, hidden)
        error = (targets - inputs @ first.T @ last.T).T @ inputs / len(inputs)
        return np.concatenate([(last.T @ error).ravel(), (error @ first.T).ravel()])

    start = np.concatenate([weights["x", "h0"].ravel(), weights["h0", "y"].ravel()])
    states = solve_ivp(flow, (0, 30), start, "DOP853", times, rtol=1e-11, atol=1e-14).y.T
    maps = [state[3 * hidden :].reshape(3, hidden) @ state[: 3 * hidden].reshape(hidden, 3) for state in states]
    exact = [0.5 * np.mean(np.sum((targets - inputs @ one.T) ** 2, axis=1)) for one in maps]
    np.testing.assert_allclose(forecast.loss, exact, atol=1e-5 * exact[0])


def test_paths_that_share_a_node_are_refused():
    problem = chain(hidden=(4,))
    shared = tasks.routing(2, 2).gatings["shared"](4)
    assert len(own_modes(problem.statistics())) == 1
    with pytest.raises(AssumptionError, match="is on both"):
        predict(shared, initial.gaussian(0.01), [1.0], "aligned", draws=1)


CORRELATED = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [0.0, 3.0], [1.0, 4.0]]
CHAIN = Architecture({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
PAIR = Architecture({"x": 1, "h": 3, "k": 3, "y": 2}, [("x", "h"), ("x", "k"), ("h", "y"), ("k", "y")])


@pytest.mark.parametrize(
    ("problem", "seen"),
    [
        (Problem(CHAIN, Task({"x": CORRELATED}, {"y": [[0.0], [1.0], [4.0], [0.0], [4.0]]})), CORRELATED),
        (
            Problem(
                PAIR,
                Task({"x": np.ones((3, 1))}, {"y": [[2.0, 0.0], [0.0, 0.0], [1.0, 1.0]]}),
                Gates(nodes={"h": [1.0, 1.0, 0.0], "k": [0.0, 1.0, 1.0]}),
            ),
            [[1.0, 0.0], [1.0, 1.0], [0.0, 1.0]],
        ),
    ],
    ids=["inputs", "outputs"],
)
def test_modes_that_turn_out_of_their_span_are_followed_there(problem, seen):
    """One mode for each path, and more inputs or outputs than that: learning ends at least squares all the same."""
    forecast = predict(problem, initial.gaussian(1e-4), [0.0, 400.0], draws=1)
    wanted = problem.task.targets["y"]
    left = wanted - np.asarray(seen) @ np.linalg.lstsq(np.asarray(seen), wanted, rcond=None)[0]
    np.testing.assert_allclose(forecast.loss[-1], 0.5 * np.mean(np.sum(left**2, axis=1)), rtol=1e-6)
    assert [row.failed.name for row in forecast.certificate.declined][-1] == "own modes stay diagonal"
