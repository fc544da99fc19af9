"""The front door: bad input, the loop over the methods, its advice, and draws that no training has."""

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
from neuralrace.theory import LADDER, METHODS, Aligned, ClosedForm, Flow, NetworkFlow, Reduction, predict
from theory_problems import chain, gated, small_weights, tangled

TIMES = np.linspace(0.0, 10.0, 41)
START = initial.decoupled(0.1)


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


def test_other_bad_input_says_what_to_do():
    problem = chain()
    with pytest.raises(UnknownNameError, match="reduction"):
        predict(problem, START, TIMES, "reducton")
    with pytest.raises(UnknownNameError, match="descent"):
        predict(problem, START, TIMES, dynamics="decent")
    with pytest.raises(RangeError, match="learning_rate"):
        predict(problem, START, TIMES, dynamics="descent")
    with pytest.raises(RangeError, match="whole number of steps"):
        predict(problem, START, TIMES, dynamics="descent", learning_rate=0.3)
    with pytest.raises(RangeError, match="rtol"):
        predict(problem, START, TIMES, rtol=0.0)
    with pytest.raises(WeightError, match="initializer"):
        predict(problem, 0.1, TIMES)
    with pytest.raises(WeightError, match="missing"):
        predict(problem, {("x", "h0"): np.zeros((4, 3))}, TIMES)
    with pytest.raises(AssumptionError, match=r"gradient flow required; .*: use method='auto'"):
        predict(problem, START, TIMES, "closed_form", dynamics="descent", learning_rate=0.25)
    with pytest.raises(AssumptionError, match="at least one method"):
        predict(problem, START, TIMES, ())


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
    weights = small_weights(problem, scale=0.1)
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
    chosen = predict(gated(0, 2), START, TIMES)
    assert chosen.method == "reduction"
    assert [entry.method for entry in chosen.certificate.declined] == ["closed_form"]
    assert chosen.certificate.holds
    assert "alignment of initial weights" in chosen.certificate


def test_a_name_is_the_values_of_that_name():
    problem = chain()
    weights = START(problem, 0)
    for name, value in (("closed_form", ClosedForm()), ("reduction", Reduction()), ("flow", Flow())):
        by_name, by_value = (predict(problem, weights, TIMES, method) for method in (name, value))
        assert by_name.method == by_value.method == name
        np.testing.assert_array_equal(by_name.loss, by_value.loss)
    several = predict(gated(0, 2), START, TIMES, ["closed_form", Reduction(lump=False)])
    assert several.method == "reduction"
    assert several.settings["asked"] == "ClosedForm(), Reduction(lump=False)"
    assert repr(Aligned(diagonal=False, force=True)) == "Aligned(force=True, diagonal=False)"


PROBLEMS = {
    "xor": nr.tasks.xor().problem("xor", hidden=2),
    "tangled": tangled(),
    "gated": gated(1, 3),
    "chain": chain(),
}
REFUSING = [method for method in LADDER if method.name != "flow"]


def test_no_loss_is_below_zero():
    problem = PROBLEMS["xor"]
    flow = predict(problem, initial.gaussian(0.3)(problem, 0), np.linspace(0.0, 200.0, 801), "flow")
    assert 0 <= flow.losses.min() < 1e-12


def test_methods_for_linear_nodes_are_given_no_example(monkeypatch):
    given = []
    monkeypatch.setattr(Flow, "setup", lambda method, request: given.append(request))
    for method in ("flow", Flow(), [Flow(), NetworkFlow()]):
        with pytest.raises(TypeError):  # nothing was set up
            predict(chain(), initial.decoupled(0.1), [0.0, 1.0], method)
    assert [request.problem is None for request in given] == [True, True, False]
    assert {type(value) for value in vars(given[0].statistics).values()}.isdisjoint({Task, Problem})


def test_several_sets_of_weights_are_as_many_draws():
    problem = chain()
    sets = [START(problem, key) for key in (0, 1)]
    both = predict(problem, sets, TIMES)
    for draw, weights in enumerate(sets):
        np.testing.assert_allclose(both.losses[draw], predict(problem, weights, TIMES).loss, rtol=1e-6)
    for wrong in ([], "gaussian", [sets[0], 3]):
        with pytest.raises(WeightError, match="initial must be weights, a list of these, or an initializer"):
            predict(problem, wrong, TIMES)


def test_a_law_without_weights_for_the_network_is_what_is_told():
    problem = nr.tasks.random_problem(6)  # two paths share an edge, and their statistics share no modes
    with pytest.raises(WeightError, match="decoupled weights need statistics that are diagonal in shared bases"):
        predict(problem, initial.decoupled(0.01), [0.0, 1.0], "aligned")


@given(st.sampled_from([*PROBLEMS, 0, 1]), st.sampled_from([1e-4, 0.3]), st.sampled_from(REFUSING), st.booleans())
@settings(max_examples=14)
def test_advice_is_true(which, scale, method, descent):
    """Whatever an error tells the caller to do works: the method that it names, and the force that it offers."""
    problem = PROBLEMS[which] if isinstance(which, str) else nr.tasks.random_problem(which, sizes=(2, 3))
    weights = initial.gaussian(scale)(problem, 0)
    dynamics = {"dynamics": "descent", "learning_rate": 0.1} if descent else {}
    forced = replace(method, force=True)
    try:
        predict(problem, weights, [0.0, 0.1], method, **dynamics)
    except AssumptionError as error:
        advice = str(error).rsplit(": ", 1)[1]
        assert advice in ("use method='auto'", f"use method='auto', or go on with {forced!r}")
        if repr(forced) in advice:
            assert not predict(problem, weights, [0.0, 0.1], forced, **dynamics).certificate.holds


def test_forecasts_and_trainings_never_share_a_draw():
    """The same key, an integer or a JAX key, given or left out, gives other weights to the two roads."""
    problem = chain(strengths=(1.0,), hidden=(2,), outputs=1)
    drawn = []

    def law(network, key):
        weights = initial.gaussian(1.0)(network, key)
        drawn.append(tuple(weights["x", "h0"].ravel()))
        return weights

    trained, forecast = [], []
    for key in (0, 1, jax.random.key(0), jax.random.key(7)):
        nr.train(problem, law, learning_rate=0.1, steps=1, seeds=4, key=key, progress=False)
        trained += drawn
        drawn.clear()
        predict(problem, law, [0.0], "flow", key=key, draws=4)
        predict(problem, law, [0.0], "flow", key=key, draws=1)  # one draw is the first of many
        forecast += drawn
        drawn.clear()
    assert len(set(trained)) == 12  # the keys 0 and jax.random.key(0) are one
    assert len(set(forecast)) == 12
    assert not set(trained) & set(forecast)
    predict(problem, law, [0.0], "flow", draws=1)
    assert drawn[0] not in trained


@pytest.mark.parametrize(("end", "plain"), [(5.0, False), (40.0, True)])
def test_modes_that_turn_into_each_other_are_declined(end, plain):
    """Before the paths have learned, solving shows it; where they learn, what each would alone shows it without."""
    problem = nr.tasks.contextual(3, "mixed").problem("common + all-but-one, items only", hidden=200)
    weights = initial.gaussian(1e-5)(problem, 0)
    forecast = predict(problem, weights, [0.0, end], "aligned")
    (declined,) = forecast.certificate.declined
    assert declined.failed.name == "own modes stay diagonal"
    assert ("alone" in declined.failed.detail) == plain
    assert forecast.certificate.holds


def test_narrow_layers_are_drawn_more_often():
    """With activations 1,400 neurons in all draws, which are two to eight; eight of linear networks."""
    task, law = nr.tasks.xor().task, initial.gaussian(1e-3)
    widths = {4: 8, 200: 7, 700: 2, 5000: 2}
    found = {width: len(predict(nr.ReLUNetwork(task, hidden=(width,)), law, [0.0]).losses) for width in widths}
    assert found == widths
    assert len(predict(nr.ReLUNetwork(task, hidden=(100, 100)), law, [0.0]).losses) == 7  # all layers count
    assert len(predict(chain(strengths=(1.0,), hidden=(2,), outputs=1), law, [0.0], "flow").losses) == 8
