"""The front door: bad input, the loop over the methods, its advice, certificates, and draws that no training has."""

import itertools
from dataclasses import replace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace import initial
from neuralrace.architecture import Architecture
from neuralrace.errors import AssumptionError, RangeError, UnknownNameError, WeightError
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.theory import (
    LADDER,
    METHODS,
    Aligned,
    Assumption,
    Certificate,
    Flow,
    NetworkFlow,
    Reduction,
    predict,
)
from neuralrace.theory.certificate import Declined
from oracle import random_weights
from random_problems import random_problem
from theory_problems import chain, gated, tangled

TIMES = np.linspace(0.0, 10.0, 41)
START = initial.decoupled(0.1)
PROBLEMS = {
    "xor": nr.tasks.xor().problem("xor", hidden=2),
    "tangled": tangled(),
    "gated": gated(1, 3),
    "chain": chain(),
}
ASSUMING = [method for method in LADDER if method.linear and method.name != "flow"]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ([0.0, 2.0, 1.0], "must increase"),
        ([-1.0, 0.0], "not be negative"),
        ([0.0, np.nan], "finite"),
        ([], "at least one"),
        ([[0.0]], "one axis"),
        ("soon", "numbers"),
    ],
)
def test_times_that_are_no_times(times, message):
    with pytest.raises(RangeError, match=message):
        predict(chain(), START, times)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"method": "reducton"}, UnknownNameError, "reduction"),
        ({"method": ()}, AssumptionError, "at least one method"),
        ({"dynamics": "decent"}, UnknownNameError, "descent"),
        ({"dynamics": "descent"}, RangeError, "learning_rate"),
        ({"dynamics": "descent", "learning_rate": 0.3}, RangeError, "whole number of steps"),
        (
            {"method": "closed_form", "dynamics": "descent", "learning_rate": 0.25},
            AssumptionError,
            r"gradient flow required; .*: use method='auto'",
        ),
        ({"rtol": 0.0}, RangeError, "rtol"),
        ({"initial": 0.1}, WeightError, "initializer"),
        ({"initial": {("x", "h0"): np.zeros((4, 3))}}, WeightError, "missing"),
        ({"initial": [START(chain(), 0), 3]}, WeightError, "initial must be weights, a list of these, or an init"),
    ],
)
def test_other_bad_input_says_what_to_do(options, error, message):
    with pytest.raises(error, match=message):
        predict(chain(), **({"initial": START, "times": TIMES} | options))


def test_initializers_without_weights_for_the_network_say_so():
    problem = random_problem(6)  # two paths share an edge, and their statistics share no modes
    with pytest.raises(WeightError, match="decoupled weights need statistics that are diagonal in shared bases"):
        predict(problem, initial.decoupled(0.01), [0.0, 1.0], "aligned")


def test_too_many_paths_are_refused_and_the_flow_is_offered():
    layers = [[f"n{level}_{i}" for i in range(2)] for level in range(11)]
    edges = [(a, b) for one, two in itertools.pairwise(layers) for a in one for b in two]
    nodes = dict.fromkeys([name for layer in layers for name in layer], 1)
    ends = [("x", name) for name in layers[0]] + [(name, "y") for name in layers[-1]]
    architecture = Architecture({"x": 1, **nodes, "y": 1}, ends + edges)
    problem = Problem(architecture, Task({"x": [[1.0]]}, {"y": [[1.0]]}))
    weights = {edge: np.full((1, 1), 0.1) for edge in architecture.edges}
    with pytest.raises(AssumptionError, match=r"can be listed; this problem has .* paths: use method='auto'$"):
        predict(problem, weights, [0.0], "reduction")
    assert predict(problem, weights, [0.0]).method == "flow"


def test_nothing_to_learn_and_nothing_to_see():
    problem = chain()
    weights = random_weights(problem.architecture, 0, 0.1)
    silent = Problem(problem.architecture, Task(problem.task.inputs, {"y": np.zeros((3, 3))}))
    forecast = predict(silent, weights, TIMES)
    assert forecast.method == "flow"  # nothing grows, so nothing aligns
    assert forecast.loss[0] == pytest.approx(silent.loss(weights), rel=1e-12)
    assert forecast.loss[-1] < forecast.loss[0]
    dark = Problem(problem.architecture, Task({"x": np.zeros((3, 3))}, problem.task.targets))
    forecast = predict(dark, weights, TIMES)
    np.testing.assert_allclose(forecast.loss, dark.loss(weights), rtol=1e-12)
    assert "at least one path must be open" in str(forecast.certificate)


def test_auto_takes_the_strongest_and_says_why():
    assert METHODS == ("closed_form", "reduction", "aligned", "flow", "representatives")
    certificate = predict(gated(0, 2), START, TIMES).certificate
    assert certificate.method == "reduction"
    assert [entry.method for entry in certificate.declined] == ["closed_form"]
    assert certificate.holds
    assert "alignment of initial weights" in certificate


def test_a_name_is_the_values_of_that_name():
    problem = chain()
    weights = START(problem, 0)
    by_name, by_value = (predict(problem, weights, TIMES, method) for method in ("reduction", Reduction(force=True)))
    assert by_name.method == by_value.method == "reduction"
    np.testing.assert_array_equal(by_name.loss, by_value.loss)
    assert by_value.certificate.holds  # nothing failed, so nothing is forced
    several = predict(gated(0, 2), START, TIMES, ["closed_form", Reduction(small=0.02)])
    assert several.method == "reduction"
    assert several.settings["asked"] == "ClosedForm(), Reduction(small=0.02)"
    assert repr(Aligned(diagonal=False, force=True)) == "Aligned(force=True, diagonal=False)"
    with pytest.raises(RangeError, match="small must be"):
        Reduction(small=-1.0)


def test_methods_for_linear_nodes_are_given_no_example():
    given = []

    class Watching(Flow):
        def setup(self, request):
            given.append(request)
            return super().setup(request)

    for methods in (Watching(), [Watching(), NetworkFlow()]):
        predict(chain(), START, [0.0, 1.0], methods)
    assert [request.problem is None for request in given] == [True, False]
    assert {type(value) for value in vars(given[0].statistics).values()}.isdisjoint({Task, Problem})


def test_several_sets_of_weights_are_as_many_draws():
    problem = chain()
    sets = [START(problem, key) for key in (0, 1)]
    both = predict(problem, sets, TIMES)
    for draw, weights in enumerate(sets):
        np.testing.assert_allclose(both.losses[draw], predict(problem, weights, TIMES).loss, rtol=1e-6)


def test_no_loss_is_below_zero():
    problem = PROBLEMS["xor"]
    flow = predict(problem, initial.gaussian(0.3)(problem, 0), np.linspace(0.0, 200.0, 801), "flow")
    assert 0 <= flow.losses.min() < 1e-12


@given(st.sampled_from([*PROBLEMS, 0, 1]), st.sampled_from([1e-4, 0.3]), st.sampled_from(ASSUMING), st.booleans())
@settings(max_examples=14)
def test_advice_is_true_and_no_certificate_contradicts_itself(which, scale, method, descent):
    """What an error tells the caller to do works; a forecast that was not forced has a certificate that holds."""
    problem = PROBLEMS[which] if isinstance(which, str) else random_problem(which, sizes=(2, 3))
    weights, forced = initial.gaussian(scale)(problem, 0), replace(method, force=True)
    dynamics = {"dynamics": "descent", "learning_rate": 0.1} if descent else {}
    try:
        assert predict(problem, weights, [0.0, 0.1], method, **dynamics).certificate.holds
    except AssumptionError as error:
        advice = str(error).rsplit(": ", 1)[1]
        assert advice in ("use method='auto'", f"use method='auto', or force it with {forced!r}")
        if repr(forced) in advice:
            assert not predict(problem, weights, [0.0, 0.1], forced, **dynamics).certificate.holds


def test_forecasts_and_trainings_never_share_a_draw():
    """The same key, an integer or a JAX key, given or left out, gives other weights to the two roads."""
    problem = chain(strengths=(1.0,), hidden=(2,), outputs=1)
    drawn = []

    def initializer(network, key):
        weights = initial.gaussian(1.0)(network, key)
        drawn.append(tuple(weights["x", "h0"].ravel()))
        return weights

    trained, forecast = [], []
    for key in (0, 1, jax.random.key(0), jax.random.key(7)):
        nr.train(problem, initializer, learning_rate=0.1, steps=1, seeds=4, key=key, progress=False)
        trained += drawn
        drawn.clear()
        predict(problem, initializer, [0.0], "flow", key=key, draws=4)
        predict(problem, initializer, [0.0], "flow", key=key, draws=1)  # one draw is the first of many
        forecast += drawn
        drawn.clear()
    assert len(set(trained)) == 12  # the keys 0 and jax.random.key(0) are one
    assert len(set(forecast)) == 12
    assert not set(trained) & set(forecast)
    predict(problem, initializer, [0.0], "flow", draws=1)
    assert drawn[0] not in trained


@pytest.mark.parametrize(("hidden", "draws"), [((4,), 8), ((700,), 2), ((100, 100), 7)])
def test_narrow_layers_are_drawn_more_often(hidden, draws):
    """1,400 neurons in all draws, which are two to eight; all layers count."""
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=hidden)
    assert len(predict(network, initial.gaussian(1e-3), [0.0]).losses) == draws


def test_the_words_of_a_certificate():
    rows = (Assumption("alignment", 0.5, 0.1, "node 'h'", needed=False), Assumption("decoupling", 0.5, 0.1, "overlap"))
    declined = (Declined("closed_form", Assumption("terms with a formula", 1, 0.0, "term 0 is coupled")),)
    failing = Certificate("reduction", rows, declined, ("lost",))
    assert not failing.holds
    for words in (
        "does NOT hold; not checked",
        "decoupling                   FAILS",
        "not closed_form: terms",
        "note: lost",
    ):
        assert words in str(failing)
    assert tuple(failing) == rows == (failing["alignment"], rows[1])
    with pytest.raises(UnknownNameError, match=r"no assumption .*; known: alignment, decoupling"):
        failing["luck"]


def test_step_size_is_compared_with_the_sharpness():
    fine = predict(chain(), START, TIMES, learning_rate=0.01).certificate["flow regime"]
    # at the end the strongest mode has b^2 = 3 on both layers and unit variance: sharpness 2 * 3
    assert fine.residual == pytest.approx(0.06, rel=0.02)
    assert fine.holds
    coarse = predict(chain(), START, TIMES, learning_rate=0.5).certificate
    assert not coarse["flow regime"].holds
    assert not coarse.holds  # descent at that rate does not follow the flow
