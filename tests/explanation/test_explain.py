"""One small task explained: every part of the report is there, in words, in values and on the page."""

import dataclasses
import json
import re

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.analysis import Agreement
from neuralrace.errors import GateError, ProblemError, RangeError, TaskError, UnknownNameError, WeightError
from neuralrace.explanation.recipe import choose_recipe, curvature
from neuralrace.explanation.resolve import resolve, task_settings
from neuralrace.plotting import COLOURS

NAMED = nr.tasks.contextual(2, items=2)
SIGNS = nr.Task({"x": [[1.0], [-1.0]]}, {"y": [[1.0], [-1.0]]})  # where no neuron can fall silent
SMALL = {"hidden": 8, "seeds": 2, "learning_rate": 0.1, "modules": 2, "initial": nr.initial.gaussian(0.05)}


@pytest.fixture(scope="module")
def report():
    return nr.explain(NAMED, steps=200, **SMALL)


def test_the_report_has_the_whole_story(report):
    assert [module.name for module in report.modules] == ["m0", "m1"]
    assert sum(module.neurons for module in report.modules) <= 8
    assert set(report.agreements) == {"one gating", "two stretches"}
    assert report.race.runners[0].time <= report.race.runners[-1].time
    assert [one.layer for one in report.selectivity] == ["h1"]
    assert report.selectivity[0].share.sum() == pytest.approx(1)
    text = str(report)
    for word in ("modules", "agreement with training", "race of gatings", "selectivity", "assumptions", "m1"):
        assert word in text


def test_the_words_speak_of_reconstructions_and_of_no_forecast(report, tmp_path):
    page = report.save(tmp_path).read_text(encoding="utf-8")
    for text in (str(report), page, json.dumps(report.summary())):
        assert "forecast" not in text.replace("are no forecasts", "")
    styles = {line.get_color() for line in report.figure().axes[0].get_lines()}
    assert COLOURS["theory"] not in styles
    assert COLOURS["reconstruction"] in styles


def test_whether_the_found_gating_wins_is_known_without_reading_names(report):
    for runner in report.race.runners:
        assert dataclasses.replace(report, entered=(runner.name,)).found_wins == (runner is report.race.runners[0])
    order = report.summary()["race"]["order"]
    assert [row["gating"] for row in order if row["found"]] == [
        r.name for r in report.race.runners if r.name in report.entered
    ]


def test_what_a_module_adds_sums_to_the_output(report):
    """Without cancellation between modules the mean sizes add up to at least the size of the output."""
    network = nr.ReLUNetwork(NAMED.task, hidden=8)
    outputs = [network.forward(report.run.weights(seed))["y"] for seed in range(2)]
    size = np.mean(np.abs(outputs), axis=(0, 1))
    assert (sum(module.written for module in report.modules) >= size - 1e-9).all()


def test_the_effective_data_of_a_module_is_what_it_is_on_for(report):
    for module in report.modules:
        rows, wanted = NAMED.task.inputs["x"][module.on], NAMED.task.targets["y"][module.on]
        values = np.linalg.svd(wanted.T @ rows / len(NAMED.task), compute_uv=False)
        np.testing.assert_allclose(module.singular_values, values[: len(module.singular_values)], atol=1e-12)


def test_files_of_a_report(report, tmp_path):
    page = report.save(tmp_path / "new" / "folder")
    assert sorted(path.name for path in page.parent.iterdir()) == [
        "figure.png",
        "report.html",
        "run.nc",
        "summary.json",
    ]
    html = page.read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    assert "How far the assumptions held" in html
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    assert summary["explained"] == report.explained
    assert len(summary["modules"]) == 2
    assert nr.Trajectory.load(page.parent / "run.nc").loss.shape == report.run.loss.shape


def test_the_verdict_says_so_when_modules_do_not_explain(report):
    near, far = Agreement(0.01, 0.01, 0.01), Agreement(0.5, 0.01, 0.5)
    found = {name: dataclasses.replace(report.found, agreement=a) for name, a in (("near", near), ("far", far))}
    trained = dataclasses.replace(report, staged=None, run=fallen(report.run, 0.01))
    assert dataclasses.replace(trained, found=found["near"]).explained
    poor = dataclasses.replace(trained, found=found["far"])
    assert not poor.explained
    assert "do not explain" in poor.verdict
    short = dataclasses.replace(trained, found=found["near"], run=fallen(report.run, 0.9))
    assert not short.explained
    assert "hardly learned: 90%" in short.verdict


def test_a_run_is_explained_as_it_is(report, tmp_path):
    saved = nr.Trajectory.load(report.run.save(tmp_path / "run.nc"))
    again = nr.explain(saved, groups=NAMED.groups["context"], modules=2, progress=False)
    assert again.agreements == report.agreements
    assert again.settings["first weights"] == {"law": "gaussian", "std": 0.05}
    np.testing.assert_array_equal(again.found.patterns, report.found.patterns)


def test_a_run_that_cannot_be_explained_says_why():
    network = nr.ReLUNetwork(SIGNS, hidden=(4,))
    weights = nr.initial.gaussian(1.0)(network, 0)
    given = nr.train(network, weights, 0.1, 3, record="gate_patterns")
    with pytest.raises(ProblemError, match=r"give initial=\.\.\."):
        nr.explain(given)
    with pytest.raises(RangeError, match="leave them out"):
        nr.explain(given, steps=3)
    with pytest.raises(GateError, match="record='gate_patterns'"):
        nr.explain(nr.train(network, nr.initial.gaussian(1.0), 0.1, 3))


def fallen(run, part):
    """The same run with a loss that falls to a part of its first."""
    loss = np.broadcast_to(np.linspace(1, part, len(run.time)), run.loss.shape)
    return nr.Trajectory(run.data.assign(loss=(("seed", "time"), loss)))


def test_two_hidden_layers_without_groups():
    options = SMALL | {"hidden": (6, 5), "modules": 1, "seeds": 1}
    report = nr.explain(NAMED.task, steps=20, **options)
    assert [module.name for module in report.modules] == ["h1_m0", "h2_m0"]
    assert report.staged is None
    assert report.selectivity == ()
    assert report.figure() is not None


def test_a_plan_fills_in_what_is_missing():
    network = nr.ReLUNetwork(nr.tasks.xor(delta=0.0).task, hidden=20)
    plan = choose_recipe(network, None, None, None, key=0, progress=False)
    run = nr.train(network, plan.law, plan.learning_rate, plan.steps)
    assert run.loss[0, -1] < 0.01 * run.loss[0, 0]
    assert plan.law == nr.initial.gaussian(0.005 / 20)


def test_the_curvature_bounds_that_of_a_trained_linear_network():
    """The oracle: the largest eigenvalue of the Hessian of one map W2 W1 at its best, from its singular values."""
    random = np.random.default_rng(0)
    for layers in (2, 3):
        rows, wanted = random.normal(size=(30, 4)), random.normal(size=(30, 3))
        task = nr.Task({"x": rows}, {"y": wanted})
        second, correlation = rows.T @ rows / 30, wanted.T @ rows / 30
        strength = np.linalg.svd(correlation @ np.linalg.inv(second), compute_uv=False)[0]
        eigenvalues = np.linalg.eigvalsh(second)
        assert curvature(task, layers) >= layers * eigenvalues[0] * strength ** (2 - 2 / layers)


@pytest.mark.parametrize(
    ("task", "options", "error", "words"),
    [
        ("contextul", {}, UnknownNameError, "did you mean 'contextual'"),
        (3, {}, TaskError, "a file is required; int came"),
        (NAMED, {"seeds": 0}, RangeError, "seeds must be"),
        (NAMED, {"modules": "many"}, RangeError, "modules must be"),
        (NAMED, {"initial": {}}, WeightError, "initial must be a law"),
        (NAMED, {"groups": "colour"}, UnknownNameError, "has no grouping 'colour'"),
        (NAMED, {"groups": [1, 2]}, TaskError, "one label per example, 4"),
        (SIGNS, {"initial": nr.initial.gaussian(1.0), "learning_rate": 30.0}, RangeError, "give a smaller one"),
        (nr.Task({"x": np.eye(2)}, {"y": np.zeros((2, 1))}), {}, RangeError, "not all zero"),
    ],
)
def test_bad_input_is_one_clear_line(task, options, error, words):
    with pytest.raises(error, match=words) as caught:
        nr.explain(task, **({"hidden": 6, "seeds": 1} | options))
    assert "\n" not in str(caught.value)


def test_settings_of_a_task_from_text():
    assert task_settings("contextual", {"contexts": "4", "structure": "mixed"}) == {"contexts": 4, "structure": "mixed"}
    assert resolve("contextual", settings={"contexts": 4}).settings["contexts"] == 4
    with pytest.raises(RangeError, match="whole number"):
        task_settings("contextual", {"contexts": "four"})
