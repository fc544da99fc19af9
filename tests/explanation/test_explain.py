"""One small task explained: every part of the report is there, in words, in values and on the page."""

import json
import re

import numpy as np
import optax
import pandas
import pytest

import neuralrace as nr
from neuralrace.cli import perform
from neuralrace.errors import GateError, RangeError, TaskError, UnknownNameError, WeightError
from neuralrace.explanation import resolve
from neuralrace.explanation.recipe import choose_recipe, choose_width
from neuralrace.explanation.result import score
from neuralrace.plotting import COLORS

NAMED = nr.tasks.contextual(2, items=2)
SIGNS = nr.Task({"x": [[1.0], [-1.0]]}, {"y": [[1.0], [-1.0]]})  # where no neuron can fall silent
SMALLER = nr.initial.gaussian(1e-3)
RECORDED = {"record": ("gate_patterns", "weights"), "every": 20, "progress": False}
SMALL = {"hidden": 8, "seeds": 2, "learning_rate": 0.1, "modules": 2, "initial": nr.initial.gaussian(0.05)}


@pytest.fixture(scope="module")
def report():
    return nr.explain(NAMED, steps=200, **SMALL)


def test_the_report_has_the_whole_story(report):
    assert [module.name for module in report.modules] == ["m0", "m1"]
    assert sum(module.neurons for module in report.modules) <= 8
    assert set(report.agreements) == {"forecast", "reconstruction"}
    assert {(row.modules, row.stretches) for row in report.found.tried} == {(2, 1), (2, 2), (2, 4)}
    assert report.race.table.time.is_monotonic_increasing
    worth = report.tables()["What modules are worth"]
    assert [row["networks"] for row in worth] == ["as trained", "without m0", "without m1"]
    assert worth[0]["loss"] == pytest.approx(report.run.loss[:, -1].mean())
    text = str(report)
    for word in (*report.tables(), "m1"):
        assert word in text
    # the forecast was made before training, from other draws
    drawn, first = report.forecast.weights(0.0)["x", "h1"], report.run.initial_weights(0)["x", "h1"]
    assert not np.isclose(np.linalg.norm(drawn), np.linalg.norm(first), rtol=1e-6)
    apart = report.agreements["forecast"]
    assert report.held == (apart.normalized_l1 <= 0.1 and apart.log10_gap <= 0.3)
    assert {row.first.name for row in report.matches} == {"m0", "m1"}
    assert "Modules predicted: 2; found: 2" in report.verdict
    assert report.summary()["before_training"]
    assert ("held" if report.held else "did not hold") in report.verdict


def test_files_of_a_report(report, tmp_path):
    lines = {line.get_label(): line.get_color() for line in report.figure().axes[0].get_lines()}
    assert lines["forecast, before training"] == COLORS["theory"]
    assert lines["reconstruction, modules: 2"] == COLORS["reconstruction"]
    page = report.save(tmp_path / "new" / "folder")
    names = sorted(path.name for path in page.parent.iterdir())
    assert names == ["figure.png", "report.html", "run.nc", "summary.json"]
    html = page.read_text(encoding="utf-8")
    assert not re.findall(r'(?:src|href)="(?!data:|#)', html)
    assert html.count('<img class="panel"') == 4  # each panel by itself, for narrow screens
    assert "First the loss and the modules were predicted" in html
    summary = json.loads((page.parent / "summary.json").read_text(encoding="utf-8"))
    assert summary["explained"] == report.explained
    assert [len(row["pattern"]) for row in summary["Modules"]] == [4, 4]
    stored = nr.Trajectory.load(page.parent / "run.nc")
    assert stored.loss.shape == report.run.loss.shape
    assert not [name for name in stored.data.data_vars if str(name).startswith("weights[")]


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


def test_networks_that_learn_nothing_are_no_accident(tmp_path):
    found = nr.explain(NAMED, steps=200, quick=True, **(SMALL | {"initial": nr.initial.gaussian(0.0)}))
    assert not found.explained
    assert not found.modules
    assert "hardly learned" in str(found)
    found.save(tmp_path)


def test_two_hidden_layers_without_groups():
    options = SMALL | {"hidden": (6, 5), "modules": 1, "seeds": 1}
    report = nr.explain(NAMED.task, steps=20, quick=True, **options)
    assert [module.name for module in report.modules] == ["h1_m0", "h2_m0"]
    assert {row.stretches for row in report.found.tried} == {1}
    assert [(row.first.name, row.second.name) for row in report.matches] == [("h1_m0", "h1_m0"), ("h2_m0", "h2_m0")]


def test_the_width_is_a_rule():
    tables = [nr.Task({"x": np.ones((rows, 28))}, {"y": np.ones((rows, 2))}) for rows in (100, 1000)]
    assert [choose_width(task) for task in (NAMED.task, *tables)] == [700, 200, 64]
    assert choose_width(tables[1], quick=True) == 32


@pytest.mark.parametrize(
    ("task", "options", "error", "words"),
    [
        ("contextul", {}, UnknownNameError, "did you mean 'contextual'"),
        (NAMED, {"modules": "many"}, RangeError, "modules must be"),
        (NAMED, {"initial": {}}, WeightError, "initial must be an initializer"),
        (NAMED, {"groups": "color"}, UnknownNameError, "has no grouping 'color'"),
        (NAMED, {"groups": [1, 2]}, TaskError, "one label per example, 4"),
        (SIGNS, {"initial": nr.initial.gaussian(1.0), "learning_rate": 30.0, "steps": 9}, RangeError, "a smaller one"),
        (nr.Task({"x": 1e9 * np.eye(2)}, {"y": np.eye(2)}), {}, RangeError, "standardize the inputs, which are as l"),
        (nr.Task({"x": np.eye(2)}, {"y": np.zeros((2, 1))}), {}, RangeError, "not all zero"),
    ],
)
def test_bad_input_is_one_clear_line(task, options, error, words):
    with pytest.raises(error, match=words) as caught:
        nr.explain(task, **({"hidden": 6, "seeds": 1} | options))
    assert "\n" not in str(caught.value)


def test_settings_of_a_task_from_text(tmp_path, monkeypatch):
    assert resolve("contextual", settings={"contexts": "4", "structure": "mixed"}).settings["contexts"] == 4
    with pytest.raises(RangeError, match="whole number"):
        resolve("contextual", settings={"contexts": "four"})
    with pytest.raises(TaskError, match="sep: for tables and files; 'xor' is a named task"):
        resolve("xor", reading={"sep": ";"})
    (tmp_path / "xor").mkdir()  # a folder named like a task is not its data
    monkeypatch.chdir(tmp_path)
    assert resolve("xor").name == "xor"


def test_a_run_of_an_optimizer_that_does_not_descend_is_told():
    """Of these weights the pace is measured by descent that diverges, which says as much."""
    random = np.random.default_rng(3)
    inputs = random.normal(size=(40, 3))
    targets = np.eye(4)[(inputs[:, 0] > 0) + 2 * (inputs[:, 1] > 0)]
    network = nr.ReLUNetwork(nr.Task({"x": inputs}, {"y": targets}), 20)
    run = nr.train(network, nr.initial.gaussian(0.01), 0.01, 400, optimizer=optax.adam(0.01), seeds=2, **RECORDED)
    found = nr.explain(run, modules=2, quick=True, progress=False)
    assert found.forecast is None
    assert any("no learning rate of descent" in warning for warning in found.warnings)


def test_the_rate_of_an_optimizer_that_descends_is_measured():
    """The learning rate of such a run is a unit of time, one unless it is given. A loss that rises brings nothing."""
    network = nr.ReLUNetwork(NAMED.task, 8)
    run = nr.train(network, nr.initial.gaussian(0.05), steps=200, optimizer=optax.sgd(0.05), **RECORDED)
    assert run.settings["learning_rate"] == 1.0
    found = nr.explain(run, modules=2, quick=True, progress=False)
    assert found.run.settings["learning_rate"] == pytest.approx(0.05, rel=2e-3)  # measured to a thousandth
    rising = nr.train(network, nr.initial.gaussian(0.5), 0.9, 1, **RECORDED)
    assert rising.loss[0, 1] > rising.loss[0, 0]
    found = nr.explain(rising, modules=2, quick=True, progress=False)
    assert any("(the loss did not fall)" in warning for warning in found.warnings)


def test_a_run_is_explained_as_it_is_by_the_modules_that_discover_finds(report):
    again = nr.explain(report.run, groups=NAMED.groups["context"], quick=True, progress=False)
    assert again.before is False
    assert again.settings["initial weights"] == {"name": "gaussian", "std": 0.05}
    found = nr.reln.discover(report.run)
    np.testing.assert_array_equal(found.patterns, again.found.patterns)
    assert found.agreement == again.agreements["reconstruction"]
    explain = [row for row in found.tried if row.explains]
    assert found.chosen is min(explain, key=lambda row: (row.stretches, row.modules))


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"record": "loss"}, GateError, r"record=\('gate_patterns', 'weights'\)"),
        ({"record": "gate_patterns", "steps": 9, "learning_rate": 1e6}, RangeError, "1 of 1 diverged"),
    ],
)
def test_a_run_that_cannot_be_explained_says_why(options, error, words):
    task = nr.Task({"x": np.eye(2)}, {"y": np.eye(2)})
    how = {"record": "gate_patterns", "steps": 2, "learning_rate": 0.01, "progress": False} | options
    run = nr.train(nr.ReLUNetwork(task, 4), nr.initial.gaussian(1.0), **how)
    with pytest.raises(error, match=words):
        nr.explain(run, progress=False)
    with pytest.raises(RangeError, match="hidden and steps cannot be given: the run"):
        nr.explain(run, hidden=4, steps=3)


def test_what_was_not_descent_is_explained_from_its_weights(tmp_path):
    """Without a learning rate, a forecast or a replay: modules, what they do and what they are worth."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(60, 3))
    task = nr.Task({"x": inputs}, {"y": np.eye(2)[(inputs[:, 0] > 0) * 1]})
    how = {"loss": "cross-entropy", "optimizer": optax.adam(0.003), "batch_size": 20, **RECORDED}
    run = nr.train(nr.ReLUNetwork(task, 12, biases=True), nr.initial.gaussian(0.3), steps=200, **how)
    run.save(tmp_path / "run.nc")
    found = nr.explain(tmp_path / "run.nc", progress=False)
    assert found.run.settings["learning_rate"] is None
    assert (found.held, found.race, found.agreements) == (None, None, {})
    assert found.explained
    assert re.match(
        r"The gates of \d modules?, imposed on the trained networks, reproduce their outputs", found.verdict
    )
    assert any("closest that was tried is the sign of the gradient of the cross-entropy" in w for w in found.warnings)
    tables = found.tables()
    assert tables["What modules are worth"][0]["loss"] == pytest.approx(run.loss[0, -1])  # the loss that it descended
    assert tables["What gates reproduce"][-1]["chosen"]
    assert "What gates reproduce" in found._repr_html_()
    assert "<img" not in found._repr_html_()
    found.save(tmp_path / "page")
    status, values = perform(["explain", str(tmp_path / "run.nc"), "--quick"])
    assert (status, values["verdict"]) == (0, found.verdict)
    with pytest.raises(RangeError, match="seeds and target cannot be given"):
        nr.explain(tmp_path / "run.nc", seeds=3, target="y")


def test_failure_comes_first():
    """Two classes that no input tells apart, three to one, in inputs that are far from centered."""
    inputs = 100 + np.random.default_rng(0).normal(size=(40, 2))
    task = nr.Task({"x": inputs}, {"y": np.eye(2)[np.arange(40) % 4 // 3]})
    found = nr.explain(task, hidden=6, seeds=1, steps=100, modules=1, quick=True, progress=False)
    assert not found.explained
    assert found.verdict.startswith("The networks answer no better than a constant: accuracy 0.750, not above 0.750. ")
    assert "What may help: standardize the inputs, add a constant input" in found.verdict


def test_modules_are_described_by_the_examples_that_they_are_on_for(report):
    inputs, targets = NAMED.task.inputs["x"], NAMED.task.targets["y"]
    for module in report.modules:
        rows, wanted = inputs[module.pattern], targets[module.pattern]
        values = np.linalg.svd(wanted.T @ rows / len(NAMED.task), compute_uv=False)
        found = report.singular_values(module)
        assert len(found) == np.linalg.matrix_rank(wanted.T @ rows)  # and none that is rounding
        np.testing.assert_allclose(found, values[: len(found)], atol=1e-12)
    assert report.words(report.modules[0])[0] == "every example"


def test_a_module_is_worth_what_is_lost_without_it(report):
    network, module = report.found.network, report.modules[1]
    loss, outputs = [], []
    for seed in range(2):
        weights = report.run.weights(seed)
        weights["h1", "y"] = weights["h1", "y"] * ~module.members[seed]
        loss.append(network.loss(weights))
        outputs.append(network.forward(weights)["y"])
    row = report.tables()["What modules are worth"][2]
    assert row["loss"] == pytest.approx(np.mean(loss))
    targets = network.task.targets["y"]
    left = [np.sum((one - targets) ** 2) / np.sum((targets - targets.mean(axis=0)) ** 2) for one in outputs]
    assert row["R^2"] == pytest.approx(1 - np.mean(left))


def test_what_is_counted():
    """Accuracy of classes, by their names where all occur; R^2 of numbers; nothing of a silent network."""
    kinds, equal = np.eye(3)[[0, 1, 2, 2]], np.full(4, 0.25)
    ones = np.ones((4, 1))
    task = nr.Task({"x": ones}, {"y": kinds})
    assert (task.classes.tolist(), task.class_names) == ([0, 1, 2, 2], ("class 1", "class 2", "class 3"))
    classes = task.classes
    assert score(np.eye(3)[[0, 1, 2, 0]], kinds, classes, equal) == 0.75
    assert score(np.eye(3)[[0, 1, 2, 0]], kinds, classes, np.array([0, 0, 0.5, 0.5])) == 0.5
    assert np.isnan(score(1e-9 * kinds, kinds, classes, equal))
    signs = np.array([[1.0], [-1.0]])
    both = nr.Task({"x": ones[:2]}, {"y": signs}, names={"y": ["up"]})
    assert both.class_names == ("up -1", "up 1")
    assert score(0.1 * signs, signs, both.classes, np.full(2, 0.5)) == 1
    numbers, third = np.array([[1.0], [2.0], [4.0]]), np.full(3, 1 / 3)
    assert nr.Task({"x": ones[:3]}, {"y": numbers}).classes is None
    assert score(numbers, numbers, None, third) == 1
    assert score(np.full((3, 1), 7 / 3), numbers, None, third) == pytest.approx(0)


def test_the_recipe_trains_until_the_task_is_learned():
    """Of two orthogonal examples one is learned by step 1,000, and the other, with a smaller target, after 3,000."""
    network = nr.ReLUNetwork(nr.Task({"x": np.eye(2)}, {"y": np.diag([1.0, 0.15])}), 16)
    _, rate, steps, caution = choose_recipe(network, SMALLER, 0.02, None, key=0)
    assert (rate, caution) == (0.02, "")
    assert steps > 3000  # a plateau does not count as the end
    run = nr.train(network, SMALLER, rate, steps)
    assert run.loss[0, -1] < 0.02 * run.loss[0, 0]
    assert choose_recipe(network, None, None, 10, key=0)[::2] == (nr.initial.gaussian(0.005 / 16), 10)
    assert "still on a plateau: the next drop" in choose_recipe(network, SMALLER, 0.02, 2000, key=0)[3]
    assert choose_recipe(network, SMALLER, 0.02, steps, key=0)[3] == ""


def test_tables_are_standardized_and_some_examples_kept_for_a_test(tmp_path):
    """The examples that are kept decide no mean, and networks and forecast are evaluated on them."""
    random = np.random.default_rng(0)
    frame = pandas.DataFrame({"size": random.normal(50, 9, 40), "hue": list("rgrb") * 10})
    frame["kind"] = np.where(frame["size"] > 50, "large", "small")
    options = {
        "hidden": 6,
        "seeds": 2,
        "steps": 60,
        "learning_rate": 0.1,
        "modules": 1,
        "quick": True,
        "progress": False,
    }
    found = nr.explain(frame, target="kind", test=0.25, **options)
    task = found.found.network.task
    assert (len(task), task.names["x"]) == (30, ("size", "hue=b", "hue=g", "hue=r", "constant"))
    np.testing.assert_allclose(task.inputs["x"][:, 0].mean(), 0, atol=1e-12)
    assert found.run.evaluated["test"]["accuracy"].shape == found.run.loss.shape
    assert found.forecast.evaluated["test"]["loss"].shape[1] == found.run.loss.shape[1]
    networks, forecast = found.tables()["Other examples"]
    assert networks["loss"] == pytest.approx(found.run.evaluated["test"]["loss"].values[:, -1].mean())
    assert forecast["best stop at step"] == found.forecast.best_stop("test").step
    assert "networks on 'test'" in [line.get_label() for line in found.figure().axes[0].get_lines()]
    assert any("constant input was added" in warning for warning in found.warnings)
    frame.to_csv(tmp_path / "t.csv", index=False)
    for given in ((tmp_path / "t.csv", None, "kind"), (frame, None, "kind"), (frame[["size", "hue"]], frame["kind"])):
        named = resolve(*given, reading={"raw": True})
        np.testing.assert_array_equal(named.task.inputs["x"][:, 0], frame["size"])
        assert named.groups["kind"][0] == frame["kind"][0]
    for wrong, words in (
        ({"task": frame}, "target='NAME', the column to learn, is required; there are size, hue, kind"),
        ({"task": NAMED, "missing": "drop"}, "missing: for tables and files; this is a task already"),
        ({"task": [1, 2]}, "a data frame with target='NAME', or arrays X and y are required; got list"),
    ):
        with pytest.raises(TaskError, match=words):
            nr.explain(**wrong, **options)
    parts = [nr.explain(frame, target="kind", test=0.25, key=key, **options).run.problem.task for key in (-1, 1)]
    assert not np.array_equal(parts[0].targets["y"], parts[1].targets["y"])  # every key draws other examples
    with pytest.raises(RangeError, match=r"test must be a finite number, above 0 and at most 0.9"):
        nr.explain(frame, target="kind", test=1.5, **options)
