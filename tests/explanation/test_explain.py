"""One small task explained: every part of the report is there, in words, in values and on the page."""

import dataclasses
import json
import re
from dataclasses import replace

import numpy as np
import optax
import pytest
from sklearn.datasets import make_moons

import neuralrace as nr
from neuralrace.errors import GateError, ProblemError, RangeError, TaskError, UnknownNameError, WeightError
from neuralrace.explanation import resolve, task_settings
from neuralrace.explanation.page import WIDE, render_text
from neuralrace.explanation.recipe import choose_recipe, choose_width, linear_fit
from neuralrace.explanation.result import plain
from neuralrace.explanation.scores import measure_of, score_networks
from neuralrace.explanation.tables import Section, beside
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
    assert {(row.modules, row.stretches) for row in report.found.tried} == {(2, 1), (2, 2), (2, 4)}
    assert report.race.runners[0].time <= report.race.runners[-1].time
    assert list(report.selectivity) == ["h1"]
    assert [score.without for score in report.scores] == ["", "m0", "m1"]
    assert report.scores[0].loss == pytest.approx(report.run.loss[:, -1].mean())
    text = str(report)
    for word in ("the forecast and training", "what fidelity costs", "race of gatings", "what modules are worth", "m1"):
        assert word in text


def test_the_forecast_is_made_before_training_from_other_draws(report):
    first = report.run.initial_weights(0)["x", "h1"]
    drawn = report.forecast.weights(0.0)
    assert not np.isclose(np.linalg.norm(next(iter(drawn.values()))), np.linalg.norm(first), rtol=1e-6)
    apart = report.agreements["forecast"]
    assert report.held == (apart.normalized_l1 <= 0.1 and apart.log10_gap <= 0.3)
    assert {row.first.name for row in report.matches} == {"m0", "m1"}
    assert "2 modules were predicted" in report.verdict
    assert "modules predicted" in str(report)
    assert report.summary()["modules_predicted"]["before_training"]
    assert ("held" if report.held else "did not hold") in report.verdict


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
    assert "No candidate finished" in str(nobody)


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
    assert "First the loss and the modules were predicted" in html
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
    assert found.forecast is not None
    assert found.modules
    assert "reading the checkpoints" in capsys.readouterr().err  # said when piped, too


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
    assert {row.stretches for row in report.found.tried} == {1}
    assert "several hidden layers" in str(report)
    assert report.selectivity == {}
    assert [(row.first.name, row.second.name) for row in report.matches] == [("h1_m0", "h1_m0"), ("h2_m0", "h2_m0")]
    assert report.figure() is not None


def test_a_plan_fills_in_what_is_missing():
    network = nr.ReLUNetwork(nr.tasks.xor(delta=0.0).task, hidden=20)
    plan = choose_recipe(network, None, None, None, key=0)
    run = nr.train(network, plan.initial, plan.learning_rate, plan.steps)
    assert run.loss[0, -1] < 0.01 * run.loss[0, 0]
    assert plan.initial == nr.initial.gaussian(0.005 / 20)
    assert not plan.capped


def test_the_width_is_a_rule():
    table = nr.Task({"x": np.ones((1000, 28))}, {"y": np.ones((1000, 2))})
    assert choose_width(NAMED.task) == 700
    assert [choose_width(table, quick) for quick in (False, True)] == [64, 32]
    assert choose_width(nr.Task({"x": np.ones((100, 28))}, {"y": np.ones((100, 2))})) == 200


@pytest.mark.parametrize(
    ("task", "options", "error", "words"),
    [
        ("contextul", {}, UnknownNameError, "did you mean 'contextual'"),
        (3, {}, TaskError, "a file is required; int came"),
        (NAMED, {"seeds": 0}, RangeError, "seeds must be"),
        (NAMED, {"modules": "many"}, RangeError, "modules must be"),
        (NAMED, {"initial": {}}, WeightError, "initial must be an initializer"),
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


def test_a_run_is_explained_as_it_is(report):
    again = nr.explain(report.run, groups=NAMED.groups["context"], modules=2, progress=False)
    assert again.agreements == report.agreements
    assert again.settings["initial weights"] == {"name": "gaussian", "std": 0.05}
    np.testing.assert_array_equal(again.found.patterns, report.found.patterns)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"record": "loss"}, GateError, r"record=\('gate_patterns', 'weights'\)"),
        ({"optimizer": "adam"}, ProblemError, r"train with record=\('gate_patterns', 'weights'\)"),
        ({"steps": 0}, ProblemError, "two records or more"),
        ({"loss": "cross-entropy"}, ProblemError, "these used 'cross-entropy'"),
    ],
)
def test_a_run_that_cannot_be_explained_says_why(options, error, words):
    task = nr.Task({"x": np.eye(2)}, {"y": np.eye(2)})
    how = {"record": "gate_patterns", "steps": 2, "learning_rate": 0.01, "progress": False} | options
    run = nr.train(nr.ReLUNetwork(task, 4), nr.initial.gaussian(1.0), **how)
    with pytest.raises(error, match=words):
        nr.explain(run, progress=False)
    with pytest.raises(RangeError, match="has its own hidden and steps: leave that out"):
        nr.explain(run, hidden=4, steps=3)


def test_modules_are_described_by_the_examples_that_they_are_on_for(report):
    inputs, targets = NAMED.task.inputs["x"], NAMED.task.targets["y"]
    for module in report.modules:
        rows, wanted = inputs[module.pattern], targets[module.pattern]
        values = np.linalg.svd(wanted.T @ rows / len(NAMED.task), compute_uv=False)
        found = report.singular_values(module)
        assert len(found) == np.linalg.matrix_rank(wanted.T @ rows)  # and none that is rounding
        np.testing.assert_allclose(found, values[: len(found)], atol=1e-12)
    assert report.words(report.modules[0])[0] == "every example"


def test_a_module_is_worth_what_is_lost_without_it():
    """Two neurons, each sees one class: without one of them the outputs of its class are zero."""
    task = nr.Task({"x": [[1.0, 0], [0, 1], [0, 1]]}, {"y": [[1.0, 0], [0, 1], [0, 1]]})
    network = nr.ReLUNetwork(task, 2)
    weights = {("x", "h1"): np.eye(2), ("h1", "y"): np.eye(2)}
    measure = measure_of(network.targets, ("cat", "dog"), None)
    module = nr.reln.Module("m0", "h1", np.array([0.0, 1, 1]), np.array([[False, True]]), 1.0, 0.5, 1.0)
    whole, without = score_networks(measure, network, [weights], [module])
    assert (whole.loss, whole.score, whole.by_class) == (0, 1, (1, 1))
    assert without.loss == pytest.approx(0.5 * 2 / 3)
    assert without.loss_by_class == pytest.approx((0, 0.5))
    assert without.by_class == (1, 0)
    assert without.score == pytest.approx(1 / 3)


def test_what_is_counted():
    assert measure_of(np.eye(3)[[0, 0, 1, 2]], (), None).constant == 0.5
    assert measure_of(np.eye(3)[[0, 0, 1, 2]], (), None, np.array([0.1, 0.1, 0.6, 0.2])).constant == pytest.approx(0.6)
    assert measure_of(np.array([[1.0], [-1.0]]), ("up",), None).names == ("up -1", "up 1")
    plain_measure = measure_of(np.array([[0.5], [1.5], [2.0]]), (), np.array(["a", "b", "b"]))
    assert (plain_measure.kind, plain_measure.names, plain_measure.constant) == ("R^2", ("a", "b"), 0)
    targets, every = np.array([[1.0], [2.0], [4.0]]), np.ones(3, dtype=bool)
    assert plain_measure.score(targets, targets, np.full(3, 1 / 3), every) == 1
    assert plain_measure.score(np.full((3, 1), 7 / 3), targets, np.full(3, 1 / 3), every) == pytest.approx(0)
    # with zeros for outputs every example would count as the first class
    silent = measure_of(np.eye(2), (), None)
    assert np.isnan(silent.score(np.full((2, 2), 1e-9), np.eye(2), np.full(2, 0.5), every[:2]))


def moons():
    points, side = make_moons(200, noise=0.1, random_state=0)
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    return nr.ReLUNetwork(nr.Task({"x": np.column_stack([points, np.ones(200)])}, {"y": side[:, None] * 1.0}), 64)


def test_a_plateau_does_not_count_as_the_end():
    """Two moons rest at the loss of the linear fit from step 200 to about 2,500, and then fall to a quarter of it."""
    network = moons()
    assert choose_recipe(network, None, None, None, key=0).steps >= 4000
    rest = network.targets - network.inputs @ np.linalg.lstsq(network.inputs, network.targets, rcond=None)[0]
    assert linear_fit(network.task) == pytest.approx(0.5 * np.mean(rest**2))


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.10022, "0.1002"), (0.099996, "0.099996"), (0.1, "0.100"), (0.0789, "0.079"), (float("nan"), "not finite")],
)
def test_digits_show_on_which_side_of_a_limit_a_number_is(value, text):
    assert beside(value, 0.1) == text


def test_tables_as_text():
    narrow = Section("Race", "A note.", ("gating", "time"), (("common", "3"), ("common + all", "12")))
    lines = ["  A note.", "  gating        time", "  common        3", "  common + all  12"]
    assert render_text("lead", [narrow]).splitlines() == ["lead", "", "race", *lines]
    wide = Section("Modules", "", ("module", "on for"), (("m0", "x " * 60),))
    lines = render_text("lead", [wide]).splitlines()[2:]
    assert lines[:2] == ["modules", "  m0"]
    assert lines[2].startswith("      on for: x x")
    assert max(map(len, lines)) <= WIDE


def test_values_that_json_cannot_hold():
    value = {"a": (float("inf"), np.array([0.5, np.nan])), "b": np.float64(3), "c": np.array([True])}
    assert plain(value) == {"a": [None, [0.5, None]], "b": 3.0, "c": [True]}
