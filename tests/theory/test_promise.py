"""A certificate that holds is a promise: within 1 % of the exact flow of the same weights, by NumPy and scipy."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import neuralrace as nr
from frozen import SEEDS, SHAPE, assert_as_frozen, summary
from neuralrace.errors import AssumptionError, RangeError
from neuralrace.theory.certificate import CHECKED
from random_forecasts import KINDS, TOLERANCE, Case, judge, make_case, promised


def keeps_its_promise(case: Case, **options) -> nr.theory.Forecast:
    forecast, distance = judge(case, **options)
    assert not forecast.certificate.holds or distance <= promised(case), f"{distance:.3g} off:\n{forecast.certificate}"
    return forecast


def chain(variances, hidden, layers=2) -> nr.Problem:
    """Uncorrelated inputs of given variances; the target is the first of them."""
    size = len(variances)
    nodes = {"x": size, **{f"h{i}": hidden for i in range(1, layers)}, "y": 1}
    inputs = np.diag(np.sqrt(size * np.asarray(variances)))
    task = nr.Task({"x": inputs}, {"y": inputs[:, :1]})
    return nr.Problem(nr.Architecture(nodes, list(pairwise(nodes))), task)


def chain_losses(variances, weights, times) -> np.ndarray:
    """The exact flow of `chain` from its covariance: with hundreds of inputs much faster than from examples."""
    matrices, target = list(weights.values()), np.eye(1, len(variances))
    ends = np.cumsum([matrix.size for matrix in matrices])[:-1]

    def unpacked(vector):
        return [part.reshape(m.shape) for part, m in zip(np.split(vector, ends), matrices, strict=True)]

    def product(parts):
        return reduce(lambda done, part: part @ done, parts)

    def velocity(_, vector):
        parts, slopes = unpacked(vector), []
        error = (product(parts) - target) * variances
        for place in range(len(parts)):
            slope = product(parts[place + 1 :]).T @ error if place + 1 < len(parts) else error
            slopes.append(slope @ product(parts[:place]).T if place else slope)
        return -np.concatenate([slope.ravel() for slope in slopes])

    start = np.concatenate([matrix.ravel() for matrix in matrices])
    found = solve_ivp(velocity, (0, times[-1]), start, "DOP853", times, rtol=1e-7, atol=1e-11)
    assert found.success, found.message
    totals = [product(unpacked(vector)) for vector in found.y.T]
    return np.array([0.5 * np.sum((total - target) ** 2 * variances) for total in totals])


# Inputs without correlation that the grown layer multiplies: normalized L1 of the closed form .39, .17, .046, .039 ...
@pytest.mark.parametrize(
    ("inputs", "hidden", "std", "irrelevant", "layers", "end"),
    [
        (784, 8, 0.03, 1.0, 2, 12),
        (50, 8, 0.035, 1.0, 2, 12),
        (200, 8, 0.1, 0.01, 2, 12),  # ... and .033 and .010
        (200, 8, 0.1, 0.01, 3, 60),
    ],
)
def test_inputs_without_correlation(inputs, hidden, std, irrelevant, layers, end) -> None:
    variances = np.array([1.0, *[irrelevant] * (inputs - 1)])
    problem, times = chain(variances, hidden, layers), np.linspace(0, end, 61)
    weights = nr.initial.gaussian(std)(problem, 0)
    exact = nr.analysis.Line(times, chain_losses(variances, weights, times))
    for method in ("auto", "reduction"):
        try:
            forecast = nr.predict(problem, weights, times, method=method)
        except AssumptionError:
            assert method == "reduction"
            continue
        distance = nr.agreement(nr.analysis.Line(times, forecast.loss), exact).normalized_l1
        assert not forecast.certificate.holds or distance <= TOLERANCE, f"{distance:.3g} off:\n{forecast.certificate}"


@pytest.mark.parametrize(("std", "holds"), [(1e-3, True), (3e-3, False)])
def test_where_the_flow_is_too_large_the_velocity_is_compared_with_the_gradient(std, holds) -> None:
    problem, times = chain(np.ones(600), 8), np.linspace(0, 12, 61)
    weights = nr.initial.gaussian(std)(problem, 0)
    forecast = nr.predict(problem, weights, times, method=nr.theory.ClosedForm(force=True))
    assert forecast.certificate.checked is None
    assert forecast.certificate["velocity at predicted weights"].holds == holds == forecast.certificate.holds
    lines = [nr.analysis.Line(times, losses) for losses in (forecast.loss, chain_losses(np.ones(600), weights, times))]
    assert nr.agreement(*lines).normalized_l1 <= TOLERANCE


def three_modes(hidden) -> nr.Problem:
    inputs = np.sqrt(3) * np.eye(3)
    task = nr.Task({"x": inputs}, {"y": inputs * [1, 0.8, 0.6]})
    return nr.Problem(nr.Architecture({"x": 3, "h": hidden, "y": 3}, [("x", "h"), ("h", "y")]), task)


def test_a_saddle_amplifies_what_the_modes_leave_out() -> None:
    random = np.random.default_rng(0)
    learned = random.normal(size=(64, 1))
    learned = learned @ np.eye(1, 3) / np.linalg.norm(learned)
    noise = (1e-11 * random.normal(size=(64, 3)), 4e-8 * random.normal(size=(3, 64)))
    weights = {("x", "h"): learned + noise[0], ("h", "y"): learned.T + noise[1]}
    keeps_its_promise(Case(three_modes(64), [weights], np.linspace(0, 60, 121)))


def rectified(scaled: bool) -> Case:
    random = np.random.default_rng(1004)
    inputs, targets = random.normal(size=(10, 3)), random.normal(size=(10, 2))
    mass = np.ones(10)
    if scaled:
        inputs[0], mass[0] = 1000 * inputs[0], 1e-7
    problem = nr.ReLUNetwork(nr.Task({"x": inputs}, {"y": targets}, mass), hidden=2)
    weights = {e: 0.1 * random.normal(size=problem.architecture.shape(e)) for e in problem.architecture.edges}
    return Case(problem, [weights], np.linspace(0, 60, 121))


def test_the_width_of_gates_may_decide_whether_a_neuron_dies() -> None:
    """Rounding, and so the machine code, decides whether wider gates agree; only then may the certificate hold."""
    forecast = keeps_its_promise(rectified(scaled=False))
    assert forecast.loss[-1] == pytest.approx(0.622, abs=0.01)
    keeps_its_promise(rectified(scaled=True))  # one large example of small weight


@pytest.mark.parametrize("key", range(3))
def test_narrow_pathways(key) -> None:
    problem = nr.tasks.contextual(2, "mixed").problem("common + single", hidden=4)
    weights = nr.initial.gaussian(0.03)(problem, key)
    keeps_its_promise(Case(problem, [weights], np.linspace(0, 60, 61)))


# Found by the soak: .10 and .03 off under certificates that held although the finer flow had not been followed.
def test_gates_that_were_not_resolved_are_not_certified() -> None:
    forecast = keeps_its_promise(make_case("rectified", 1951745723, 605837727))
    assert not forecast.certificate.holds
    assert "check=True" in str(forecast.certificate)


# Found by the soak with check=False: .99 and .065 off under certificates that held. Weights outside the modes were
# weighed against the loss at zero output, though learning began far below it, and before the modes had grown.
@pytest.mark.parametrize(
    "name", [("saddle", 1689440956, 1042560227), ("two layers", 1282502805, 328333753)], ids=lambda name: name[0]
)
@pytest.mark.parametrize("check", [False, "auto"])
def test_problems_on_which_a_certificate_once_held_and_was_wrong(name, check) -> None:
    keeps_its_promise(make_case(*name), check=check)


# Weights that cannot be told from rounding grow all the same: 1.7 and 1.9 off under certificates that held.
@pytest.mark.parametrize("check", [False, "auto"])
@pytest.mark.parametrize("hidden", [3, 64])
def test_modes_below_rounding_grow(hidden, check) -> None:
    random, times = np.random.default_rng(0), np.linspace(0, 120, 121)
    first = np.zeros((hidden, 3))
    first[0, 0] = 1.0
    noise = [1e-14 * (np.eye(3) if hidden == 3 else random.normal(size=(hidden, 3))) for _ in range(2)]
    weights = {("x", "h"): first + noise[0], ("h", "y"): (first + noise[1]).T}
    keeps_its_promise(Case(three_modes(hidden), [weights], times), check=check)
    exact = {("x", "h"): first, ("h", "y"): first.T}  # a mode without any weight stays where it is
    assert nr.predict(three_modes(hidden), exact, times).method == "closed_form"


# Errors relative to the initial loss were most of what is left late: .037 off under certificates that held.
@pytest.mark.parametrize("check", [False, "auto"])
@pytest.mark.parametrize("ratio", [0.01, 0.02])
def test_times_at_which_little_is_left(ratio, check) -> None:
    inputs = 2 * np.eye(4)
    task = nr.Task({"x": inputs}, {"y": inputs * [1, ratio, ratio, 0]})
    problem = nr.Problem(nr.Architecture({"x": 4, "h": 3, "y": 4}, [("x", "h"), ("h", "y")]), task)
    weights = nr.initial.gaussian(1e-5)(problem, 0)
    keeps_its_promise(Case(problem, [weights], np.linspace(0, 31.2 / ratio, 201), late=3), check=check)


def test_repeated_times_are_compared() -> None:
    one, other = (nr.analysis.Line(np.array([5.0, 5.0]), np.full(2, loss)) for loss in (1.0, 2.0))
    assert nr.agreement(one, other).normalized_l1 == 0.5


# The flows at two tolerances agree by chance, to .0085 and .0059, and both are .5 and .02 off.
@pytest.mark.parametrize(("seed", "hidden"), [(75, 1), (1059, 2)])
def test_gates_of_few_neurons_may_agree_by_chance(seed, hidden) -> None:
    random = np.random.default_rng([seed, 91])
    inputs, targets = random.normal(size=(10, 3)), random.normal(size=(10, 2))
    inputs = inputs * [1, 10, 0.1] if seed % 5 == 0 else inputs
    task = nr.Task({"x": inputs}, {"y": targets}, 10 ** random.uniform(-5, 0, 10))
    problem = nr.ReLUNetwork(task, hidden)
    weights = nr.initial.gaussian(10 ** random.uniform(-3, -0.3))(problem, seed)
    keeps_its_promise(Case(problem, [weights], np.linspace(0, 60, 61)))


def test_unmeasured_gates_of_few_neurons_are_not_certified() -> None:
    few, many = (nr.ReLUNetwork(nr.tasks.xor().task, hidden) for hidden in (2, 64))
    times, initial = np.linspace(0, 5, 11), nr.initial.gaussian(0.01)
    assert not nr.predict(few, initial, times, check=False).certificate.holds
    assert nr.predict(many, initial, times, check=False).certificate.holds


def test_rough_integration_and_unstable_steps_are_not_certified() -> None:
    problem, times = three_modes(4), np.linspace(0, 30, 31)
    weights = nr.initial.gaussian(0.01)(problem, 0)
    assert not nr.predict(problem, weights, times, "flow", rtol=0.01).certificate.holds
    for rate, holds in (
        (0.1, True),
        (3.0, False),
    ):  # the sharpness is 2 at the end, so that 1 is the largest stable step
        assert nr.predict(problem, weights, times, "flow", learning_rate=rate).certificate.holds == holds


@pytest.mark.parametrize("kind", KINDS)
def test_random_problems(kind) -> None:
    found = [keeps_its_promise(make_case(kind, SHAPE, seed)) for seed in range(SEEDS)]
    assert any(forecast.certificate.holds for forecast in found)
    for seed, forecast in enumerate(found):
        assert_as_frozen(f"{kind} {seed}", summary(forecast))


def test_a_check_is_made_or_left_out_as_asked() -> None:
    problem = nr.tasks.semantic().problem("linear", hidden=16)
    times = np.linspace(0, 30, 31)
    weights = nr.initial.gaussian(1e-2)(problem, 0)
    unchecked = nr.predict(problem, weights, times, method="closed_form", check=False)
    assert unchecked.certificate.checked is None
    assert "not checked" in str(unchecked.certificate)
    checked = nr.predict(problem, weights, times, method="closed_form", check=True)
    assert 0 < checked.certificate.checked < TOLERANCE
    assert checked.certificate[CHECKED].needed
    with pytest.raises(RangeError, match="check must be True, False or 'auto'"):
        nr.predict(problem, weights, times, check="never")


def test_rows_that_were_only_measured_do_not_read_as_failures() -> None:
    problem = nr.tasks.semantic().problem("linear", hidden=16)
    certificate = nr.predict(problem, nr.initial.gaussian(1e-4)(problem, 0), np.linspace(0, 30, 31)).certificate
    assert certificate.holds
    assert any(not row.needed and not row.holds for row in certificate)
    required, measured = str(certificate).split("measured only:")
    assert "FAILS" not in str(certificate)
    assert "alignment of initial weights" in measured
    assert "alignment of initial weights" not in required
