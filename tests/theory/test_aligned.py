"""Paths with their own singular vectors: couplings, diagonal and whole strengths."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import initial, tasks
from neuralrace.architecture import Architecture
from neuralrace.errors import AssumptionError
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import Aligned, predict
from oracle import loss
from theory_problems import chain, flatten, scipy_flow, without_ties


def overlapping(contexts=3, size=3):
    """White items, all-but-one gates and targets such that U_p^T U_j is a multiple of the identity (P2 appendix F)."""
    random = np.random.default_rng(0)
    base = np.linalg.qr(random.normal(size=(size, size)))[0] * np.array([3.0, 2.0, 1.0])[:size]
    context, item = np.repeat(np.arange(contexts), size), np.tile(np.arange(size), contexts)
    centered = np.eye(contexts) - 1.0 / contexts  # the residual of a common pathway
    targets = np.einsum("nc,no->nco", centered[context], base.T[item]).reshape(len(item), -1)
    names = [f"h{c}" for c in range(contexts)]
    architecture = Architecture(
        {"x": size, **dict.fromkeys(names, 4), "y": targets.shape[1]},
        [("x", n) for n in names] + [(n, "y") for n in names],
    )
    gates = Gates(nodes={n: (context != c).astype(float) for c, n in enumerate(names)})
    return Problem(architecture, Task({"x": np.eye(size)[item]}, {"y": targets}), gates)


def decomposed(problem):
    """Path -> U, S, V of its input-output correlation, by NumPy."""
    statistics, found = problem.statistics(), {}
    for path in statistics.open_paths:
        left, values, right = np.linalg.svd(statistics.input_output(path), full_matrices=False)
        kept = values > 1e-10 * values[0]
        found[path] = left[:, kept], values[kept], right[kept].T
    return found


def test_appendix_f_is_exact_with_diagonal_strengths():
    problem, random, weights = overlapping(), np.random.default_rng(1), {}
    for path, (output, _, source) in decomposed(problem).items():
        basis = np.linalg.qr(random.normal(size=(4, 3)))[0]
        weights |= {path.edges[0]: 0.2 * basis @ source.T, path.edges[1]: 0.2 * output @ basis.T}
    times = np.linspace(0, 20, 41)
    forecast = predict(problem, weights, times, rtol=1e-9)
    assert forecast.certificate["own modes stay diagonal"].holds
    flow = predict(problem, weights, times, "flow", rtol=1e-9)
    np.testing.assert_allclose(forecast.loss, flow.loss, rtol=1e-6, atol=1e-10)
    last = {edge: forecast.weights(20.0)[edge] for edge in weights}
    np.testing.assert_allclose(flatten(problem, last), flatten(problem, flow.weights(20.0)), atol=1e-5)


def test_the_diagonal_equation_is_that_of_scipy():
    problem = without_ties(tasks.contextual(3, "mixed").problem("common + all-but-one, items only", 10))
    statistics, modes, weights = problem.statistics(), decomposed(problem), initial.gaussian(1e-3)(problem, 0)
    forecast = predict(problem, weights, [0.0, 20.0, 40.0], Aligned(force=True), rtol=1e-9)
    coupled = {}
    for p, (output, _, source) in modes.items():  # how mode n of path j acts on mode m of path p
        for j in statistics.partners(p):
            inputs = modes[j][2].T @ statistics.input(j, p) @ source
            coupled[p, j] = (output.T @ modes[j][0]) * inputs.T
    order = [(p, edge) for p in modes for edge in p.edges]
    sizes = [len(modes[p][1]) for p, _ in order]

    def right_hand_side(_, vector):
        b = dict(zip(order, np.split(vector, np.cumsum(sizes)[:-1]), strict=True))
        products = {p: b[p, p.edges[0]] * b[p, p.edges[1]] for p in modes}
        errors = {p: modes[p][1] - sum(coupled[p, j] @ products[j] for j in statistics.partners(p)) for p in modes}
        return np.concatenate([b[p, p.edges[e == p.edges[0]]] * errors[p] for p, e in order])

    start = np.concatenate([forecast.reduction.starts[0].strengths[edge] for _, edge in order])
    exact = solve_ivp(right_hand_side, (0, 40), start, "DOP853", rtol=1e-11, atol=1e-14).y[:, -1]
    found = np.concatenate([forecast.modes.edge(edge)[:, -1] for _, edge in order])
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-7)
    assert not forecast.certificate.holds
    with pytest.raises(AssumptionError, match="path item->without"):
        predict(problem, weights, [0.0, 20.0, 40.0], Aligned())


def test_whole_strengths_follow_the_mixed_contexts():
    problem = tasks.contextual(structure="mixed").problem("common + all-but-one, items only", 12)
    weights, times = initial.gaussian(1e-5)(problem, 0), np.linspace(0, 120, 61)
    forecast = predict(problem, weights, times)
    assert forecast.method == "aligned"
    assert forecast.certificate.holds
    assert "own modes stay diagonal" not in forecast.certificate
    assert "not aligned with one strength per mode: own modes stay diagonal" in str(forecast.certificate)
    flow = predict(problem, weights, times, "flow", rtol=1e-5)
    assert np.abs(forecast.loss - flow.loss).max() < 1e-4 * flow.loss[0]  # steps of 1e-5, and the part left out
    # from the same weights, the flow over nodes is the same curve
    same = predict(problem, forecast.weights(0.0), times, "flow")
    np.testing.assert_allclose(same.loss, predict(problem, weights, times, Aligned(diagonal=False)).loss, rtol=1e-4)
    some = forecast.weights_at(times[::20])
    np.testing.assert_allclose([problem.loss(one) for one in some], forecast.loss[::20], rtol=1e-4)  # within steps


@pytest.mark.parametrize("hidden", [2, 3])
def test_narrow_layers_are_followed_whole(hidden):
    """Modes of nearly one speed share few hidden units to the end; the oracle is scipy on the weights as they are."""
    problem = chain(strengths=(1.0, 0.95, 0.9), hidden=(hidden,))
    weights, times = initial.gaussian(1e-4)(problem, 0), np.linspace(0, 30, 31)
    forecast = predict(problem, weights, times, "aligned")
    assert [entry.failed.name for entry in forecast.certificate.declined] == ["modes that grow apart"]
    assert not forecast.certificate["modes that grow apart"].needed
    exact = [loss(problem, at) for at in scipy_flow(problem, weights, times, rtol=1e-11, atol=1e-14)]
    np.testing.assert_allclose(forecast.loss, exact, atol=1e-5 * exact[0])


def test_paths_that_share_a_node_are_refused():
    with pytest.raises(AssumptionError, match="is on both"):
        predict(tasks.routing(2, 2).problem("shared", 4), initial.gaussian(0.01), [1.0], "aligned", draws=1)


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


@pytest.mark.parametrize(("end", "plain"), [(5.0, False), (40.0, True)])
def test_modes_that_turn_into_each_other_are_declined(end, plain):
    """Before the paths have learned, solving shows it; later, what each would learn alone shows it without solving."""
    problem = tasks.contextual(3, "mixed").problem("common + all-but-one, items only", hidden=200)
    forecast = predict(problem, initial.gaussian(1e-5)(problem, 0), [0.0, end], "aligned")
    (declined,) = forecast.certificate.declined
    assert declined.failed.name == "own modes stay diagonal"
    assert ("alone" in declined.failed.detail) == plain
    assert forecast.certificate.holds
