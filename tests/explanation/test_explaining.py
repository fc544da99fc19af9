"""One small task explained: every part of the report is there, in words, in values and on the page."""

import dataclasses
import json
import re
from dataclasses import replace

import numpy as np
import optax
import pytest

import neuralrace as nr
from neuralrace.errors import GateError, ProblemError, RangeError, TaskError, UnknownNameError, WeightError
from neuralrace.explanation.recipe import choose_recipe, choose_width, curvature
from neuralrace.explanation.resolve import resolve, task_settings
from neuralrace.plotting import COLORS

NAMED = nr.tasks.contextual(2, items=2)
SIGNS = nr.Task({"x": [[1.0], [-1.0]]}, {"y": [[1.0], [-1.0]]})  # where no neuron can fall silent
SMALL = {"hidden": 8, "seeds": 2, "learning_rate": 0.1, "modules": 2, "initial": nr.initial.gaussian(0.05)}


@pytest.fixture(scope="module")
def report():
    return nr.explain(NAMED, steps=200, **SMALL)


def test_the_report_has_the_whole_story(report):
    assert [module.name for module in report.modules] == ["m0", "m1"]
    assert sum(module.neurons for module in report.modules) <= 8
    assert set(report.agreements) == {"forecast", "reconstruction"}
    assert {(row.modules, row.stretches) for row in report.prices} == {(2, 1), (2, 2), (2, 4)}
    assert report.race.runners[0].time <= report.race.runners[-1].time
    assert [one.layer for one in report.selectivity] == ["h1"]
    assert [score.module for score in report.scores] == ["", "m0", "m1"]
    assert report.scores[0].loss == pytest.approx(report.run.loss[:, -1].mean())
    text = str(report)
    for word in ("the forecast and training", "what fidelity costs", "race of gatings", "what modules are worth", "m1"):
        assert word in text


def test_the_forecast_is_made_before_training_from_other_draws(report):
    first = report.run.initial_weights(0)["x", "h1"]
    foreseen = next(iter(report.forecast.weights_at(np.zeros(1), 0)))
    assert not np.isclose(np.linalg.norm(next(iter(foreseen.values()))), np.linalg.norm(first), rtol=1e-6)
    assert report.held == (report.foreseen.normalized_l1 <= 0.1 and report.foreseen.log10_gap <= 0.3)
    assert ("held" if report.held else "did not hold") in report.verdict


def test_modules_are_foreseen_from_the_neurons_of_the_forecast(report):
    gating = report.foretold.chosen.gatings[-1]
    assert report.foretold.chosen.modules == 2
    assert gating.members.shape == (1, 8)  # of one draw
    assert {row.foreseen for row in report.matches} == {0, 1}
    assert "2 modules were foreseen" in report.verdict
    assert "modules foreseen" in str(report)
    assert report.summary()["modules_foreseen"]["before_training"]


def test_forecast_and_reconstruction_are_drawn_apart(report):
    lines = {line.get_label(): line.get_color() for line in report.panels()["learning"].axes[0].get_lines()}
    assert lines["forecast, before training"] == COLORS["theory"]
    assert lines["reconstruction, 2 modules"] == COLORS["reconstruction"]
    assert len(report.figure().axes) >= len(report.panels())


def test_whether_the_found_gating_wins_is_known_without_reading_names(report):
    for runner in report.race.runners:
        asked = dataclasses.replace(report, entered=(runner.name,))
        assert asked.found_wins == (runner is report.race.runners[0])
    never = [dataclasses.replace(runner, time=float("inf")) for runner in report.race.runners]
    nobody = dataclasses.replace(report, race=dataclasses.replace(report.race, runners=tuple(never)))
    assert nobody.found_wins is None
    assert "Nobody finished" in str(nobody)


def test_what_modules_add_is_no_less_than_the_output(report):
    outputs = [np.abs(report_outputs(report, seed)).mean(axis=0) for seed in range(2)]
    assert (sum(module.written for module in report.modules) >= np.mean(outputs, axis=0) - 1e-9).all()


def report_outputs(report, seed):
    return nr.ReLUNetwork(NAMED.task, hidden=8).forward(report.run.weights(seed))["y"]


def test_the_effective_data_of_a_module_is_what_it_is_on_for(report):
    for module in report.modules:
        rows, wanted = NAMED.task.inputs["x"][module.on], NAMED.task.targets["y"][module.on]
        values = np.linalg.svd(wanted.T @ rows / len(NAMED.task), compute_uv=False)
        assert len(module.singular_values) == np.linalg.matrix_rank(wanted.T @ rows)  # and none that is rounding
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
    assert html.count("<img") == len(report.panels())  # each panel by itself, for narrow screens
    assert html.count('class="panel"') == len(report.panels())  # which the script enlarges
    assert "First the loss and the modules were foreseen" in html
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    assert summary["explained"] == report.explained
    assert len(summary["modules"]) == 2
    stored = nr.Trajectory.load(page.parent / "run.nc")
    assert stored.loss.shape == report.run.loss.shape
    assert not [name for name in stored.data.data_vars if str(name).startswith("weights[")]


def test_networks_that_hardly_learned(report):
    trained = dataclasses.replace(report, run=fallen(report.run, 0.9), warnings=())
    assert not trained.explained
    assert "hardly learned: 90%" in trained.verdict
    assert "Give more steps" in trained.verdict
    warned = dataclasses.replace(trained, warnings=("the inputs differ in scale",))
    assert "Give more steps" not in warned.verdict  # it would be wrong advice


def test_a_run_is_explained_as_it_is(report, tmp_path):
    saved = nr.Trajectory.load(report.run.save(tmp_path / "run.nc"))
    again = nr.explain(saved, groups=NAMED.groups["context"], modules=2, progress=False)
    assert again.agreements == report.agreements
    assert again.settings["first weights"] == {"name": "gaussian", "std": 0.05}
    np.testing.assert_array_equal(again.layers["h1"].gates, report.layers["h1"].gates)


def test_checkpoints_in_a_folder_are_explained(report, tmp_path, capsys):
    """Networks of the run itself, saved in another framework's names, on the same task."""
    steps = list(range(0, 201, 20))
    network = nr.ReLUNetwork(NAMED.task, 8, biases=True)
    run = nr.train(network, SMALL["initial"], 0.1, 200, record=("weights",), at=steps, progress=False)
    for record, step in enumerate(steps):
        weights = run.weights(0, record)
        arrays = {"0.weight": weights["x", "h1"], "2.weight": weights["h1", "y"]}
        arrays |= {"0.bias": weights["bias", "h1"][:, 0], "2.bias": weights["bias", "y"][:, 0]}
        np.savez(tmp_path / f"step_{step}.npz", **arrays)
    found = nr.explain(NAMED, checkpoints=tmp_path, modules=2, quick=True)
    assert found.settings["learning_rate"] == pytest.approx(0.1, rel=0.01)
    np.testing.assert_allclose(found.run.loss, run.loss, rtol=1e-9)
    assert found.foreseen is not None
    assert found.modules
    assert "reading the checkpoints" in capsys.readouterr().err  # said when piped, too


def test_a_run_that_cannot_be_explained_says_why():
    network = nr.ReLUNetwork(SIGNS, hidden=(4,))
    weights = nr.initial.gaussian(1.0)(network, 0)
    given = nr.train(network, weights, 0.1, 3, record="gate_patterns")
    with pytest.raises(ProblemError, match=r"record=\('gate_patterns', 'weights'\)"):
        nr.explain(given)
    with pytest.raises(RangeError, match="has its own hidden and steps: leave that out"):
        nr.explain(given, hidden=4, steps=3)
    with pytest.raises(GateError, match="record='gate_patterns'"):
        nr.explain(nr.train(network, nr.initial.gaussian(1.0), 0.1, 3))


def test_two_neurons_that_learn_nothing_are_no_accident(tmp_path):
    found = nr.explain("xor", hidden=2, steps=20, seeds=1, quick=True, progress=False)
    assert not found.explained
    assert "hardly learned" in str(found)
    found.save(tmp_path)


def fallen(run, part):
    """The same run with a loss that falls to a part of its first."""
    loss = np.broadcast_to(np.linspace(1, part, len(run.time)), run.loss.shape)
    return replace(run, data=run.data.assign(loss=(("seed", "time"), loss)))


def test_two_hidden_layers_without_groups():
    options = SMALL | {"hidden": (6, 5), "modules": 1, "seeds": 1}
    report = nr.explain(NAMED.task, steps=20, **options)
    assert [module.name for module in report.modules] == ["h1_m0", "h2_m0"]
    assert {row.stretches for row in report.prices} == {1}
    assert "several hidden layers" in str(report)
    assert report.selectivity == ()
    assert [(row.layer, row.foreseen, row.found) for row in report.matches] == [("h1", 0, 0), ("h2", 0, 0)]
    assert report.figure() is not None


def test_a_plan_fills_in_what_is_missing():
    network = nr.ReLUNetwork(nr.tasks.xor(delta=0.0).task, hidden=20)
    plan = choose_recipe(network, None, None, None, key=0)
    run = nr.train(network, plan.law, plan.learning_rate, plan.steps)
    assert run.loss[0, -1] < 0.01 * run.loss[0, 0]
    assert plan.law == nr.initial.gaussian(0.005 / 20)
    assert not plan.capped


def test_the_width_is_a_rule():
    table = nr.Task({"x": np.ones((1000, 28))}, {"y": np.ones((1000, 2))})
    assert choose_width(NAMED.task) == 700
    assert [choose_width(table, quick) for quick in (False, True)] == [64, 32]
    assert choose_width(nr.Task({"x": np.ones((100, 28))}, {"y": np.ones((100, 2))})) == 200


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
        (NAMED, {"groups": "color"}, UnknownNameError, "has no grouping 'color'"),
        (NAMED, {"groups": [1, 2]}, TaskError, "one label per example, 4"),
        (SIGNS, {"initial": nr.initial.gaussian(1.0), "learning_rate": 30.0}, RangeError, "give a smaller one"),
        (SIGNS, {"initial": nr.initial.gaussian(1.0), "learning_rate": 30.0, "steps": 9}, RangeError, "a smaller one"),
        (
            nr.Task({"x": 1e9 * np.eye(2)}, {"y": np.eye(2)}),
            {},
            RangeError,
            "standardize the inputs, which are as large",
        ),
        (nr.Task({"x": np.eye(2)}, {"y": np.zeros((2, 1))}), {}, RangeError, "not all zero"),
    ],
)
def test_bad_input_is_one_clear_line(task, options, error, words):
    with pytest.raises(error, match=words) as caught:
        nr.explain(task, **({"hidden": 6, "seeds": 1} | options))
    assert "\n" not in str(caught.value)


def test_a_folder_named_like_a_task_is_not_its_data(tmp_path, monkeypatch):
    (tmp_path / "xor").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("xor").name == "xor"


def test_settings_of_a_task_from_text():
    assert task_settings("contextual", {"contexts": "4", "structure": "mixed"}) == {"contexts": 4, "structure": "mixed"}
    assert resolve("contextual", settings={"contexts": 4}).settings["contexts"] == 4
    with pytest.raises(TaskError, match="beside 'xor' came '16': repeat --hidden"):
        resolve("xor", "16")
    with pytest.raises(RangeError, match="whole number"):
        task_settings("contextual", {"contexts": "four"})


def test_a_run_of_an_optimizer_that_does_not_descend_is_told():
    """Of these weights the pace is measured by descent that diverges, which says as much."""
    random = np.random.default_rng(3)
    inputs = random.normal(size=(40, 3))
    targets = np.eye(4)[(inputs[:, 0] > 0) + 2 * (inputs[:, 1] > 0)]
    network = nr.ReLUNetwork(nr.Task({"x": inputs}, {"y": targets}), 20)
    how = {"record": ("gate_patterns", "weights"), "every": 20, "seeds": 2, "progress": False}
    run = nr.train(network, nr.initial.gaussian(0.01), 0.01, 400, optimizer="adam", **how)
    found = nr.explain(run, modules=2, quick=True, progress=False)
    assert found.forecast is None
    assert any("did not move down the gradient" in warning for warning in found.warnings)


def test_a_run_whose_loss_rises_brought_no_part_of_the_fall():
    network = nr.ReLUNetwork(NAMED.task, hidden=8)
    run = nr.train(network, nr.initial.gaussian(0.5), 0.9, 1, record=("gate_patterns", "weights"), progress=False)
    assert run.loss[0, 1] > run.loss[0, 0]
    found = nr.explain(run, modules=2, quick=True, progress=False)
    assert any("(the loss did not fall)" in warning for warning in found.warnings)


def test_the_rate_of_an_optimizer_that_descends_is_measured():
    """The learning rate of such a run is a unit of time, one unless it is given."""
    network = nr.ReLUNetwork(nr.tasks.contextual(contexts=2, items=2).task, 8)
    how = {"record": ("gate_patterns", "weights"), "every": 20, "progress": False}
    run = nr.train(network, nr.initial.gaussian(0.05), steps=200, optimizer=optax.sgd(0.05), **how)
    assert run.settings["learning_rate"] == 1.0
    found = nr.explain(run, modules=2, quick=True, progress=False)
    # measured to a thousandth
    assert found.run.settings["learning_rate"] == pytest.approx(0.05, rel=2e-3)


def test_runs_that_cannot_be_explained_are_told_why():
    deep = nr.ReLUNetwork(NAMED.task, (4, 4))
    how = {"record": "gate_patterns", "progress": False}
    run = nr.train(deep, nr.initial.gaussian(0.1), optimizer="adam", learning_rate=0.01, steps=2, **how)
    with pytest.raises(ProblemError, match=r"train with record=\('gate_patterns', 'weights'\)"):
        nr.explain(run, progress=False)
    still = nr.train(deep, nr.initial.gaussian(0.1), 0.01, steps=0, **how)
    with pytest.raises(ProblemError, match="two records or more"):
        nr.explain(still, progress=False)


@pytest.mark.parametrize("hidden", [24, (10, 10)])
def test_reconstructions_have_a_score_and_modules_have_neurons(hidden):
    task = nr.Task({"x": np.eye(3)}, {"y": np.eye(3)})
    found = nr.explain(task, hidden, seeds=2, quick=True, progress=False)
    assert found.chosen.score == pytest.approx(found.scores[0].score)  # both know all three classes
    assert found.summary()["prices"][0].keys() >= {"accuracy", "normalized_l1"}
    for gating in found.layers.values():
        assert set(range(len(gating))) == set(gating.members.ravel()) - {-1}
