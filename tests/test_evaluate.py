"""Other examples along trajectories, when groups are learned, and when to stop, beside weights at single times."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError

RANDOM = np.random.default_rng(4)
INPUTS = RANDOM.normal(size=(40, 3))
TASK = nr.Task(INPUTS, (INPUTS[:, 0] * INPUTS[:, 1] > 0).astype(int), names={"x": "pqr", "y": ["same", "other"]})
TRAINING, TEST = TASK.take(np.arange(30)), TASK.take(np.arange(30, 40))
NETWORK, INITIAL = nr.ReLUNetwork(TRAINING, (8,), biases=True), nr.initial.gaussian(0.3)
OPTIONS = {"learning_rate": 0.1, "steps": 120, "seeds": 2, "every": 10, "progress": False}


@pytest.fixture(scope="module")
def run():
    return nr.train(NETWORK, INITIAL, record=("outputs", "weights"), evaluate={"test": TEST}, **OPTIONS)


def by_hand(loss, weights, problem):
    """Loss and accuracy from the outputs for every example."""
    outputs, targets = problem.forward(weights)["y"], problem.task.targets["y"]
    chances = np.exp(outputs) / np.exp(outputs).sum(axis=1, keepdims=True)
    each = {"squared": 0.5 * (outputs - targets) ** 2, "cross-entropy": -targets * np.log(chances)}[loss]
    return each, np.mean(outputs.argmax(axis=1) == targets.argmax(axis=1))


@pytest.mark.parametrize("loss", ["squared", "cross-entropy"])
def test_loss_and_accuracy_on_other_examples(loss, tmp_path):
    run = nr.train(NETWORK, INITIAL, record="weights", loss=loss, evaluate={"test": TEST, "same": TRAINING}, **OPTIONS)
    run.save(tmp_path / "run.nc")
    found = nr.Trajectory.load(tmp_path / "run.nc").evaluated
    np.testing.assert_allclose(found["same"]["loss"], run.loss, rtol=1e-12)
    for seed, record in ((0, 0), (1, 7)):
        each, accuracy = by_hand(loss, run.weights(seed, record), NETWORK.on(TEST))
        assert found["test"]["loss"].values[seed, record] == pytest.approx(each.sum(axis=1).mean(), rel=1e-12)
        assert found["test"]["accuracy"].values[seed, record] == pytest.approx(accuracy, rel=1e-12)


def test_a_forecast_of_the_same(run):
    forecast = nr.predict(NETWORK, run.initial_weights(0), run.time, evaluate={"test": TEST}, check=False)
    weights = forecast.weights_at(run.time)[5]
    each, accuracy = by_hand("squared", weights, NETWORK.on(TEST))
    assert forecast.evaluated["test"]["loss"].values[0, 5] == pytest.approx(each.sum(axis=1).mean(), rel=1e-12)
    assert forecast.evaluated["test"]["accuracy"].values[0, 5] == pytest.approx(accuracy, rel=1e-12)
    forecast = nr.predict(NETWORK, run.initial_weights(0), run.time, learning_rate=0.1, evaluate={"test": TEST})
    labels = [line.get_label() for line in nr.compare(forecast, run).axes[0].get_lines()]
    assert labels.count("on 'test'") == 2


def test_other_statistics_suffice_for_linear_nodes():
    """Every way to give other data gives one loss, and untrained routes are other data."""
    trained, every = nr.tasks.routing(3, 1), nr.tasks.routing(3, 3)
    problem, other = (named.problem("shared", hidden=5) for named in (trained, every))
    others = {"examples": other, "statistics": other.statistics()}
    forecast = nr.predict(problem, nr.initial.orthogonal(0.3), [0.0, 0.5, 1.0], evaluate=others)
    losses = [forecast.evaluated[name]["loss"].values for name in others]
    np.testing.assert_allclose(*losses, rtol=1e-12)
    assert losses[0][0, 2] == pytest.approx(other.loss(forecast.weights(1.0)), rel=1e-12)
    alone = nr.predict(
        problem.statistics(), nr.initial.orthogonal(0.3), [0.0, 0.5, 1.0], evaluate={"s": others["statistics"]}
    )
    np.testing.assert_allclose(alone.evaluated["s"]["loss"], losses[1], rtol=1e-9)
    run = nr.train(problem, nr.initial.orthogonal(0.3), 0.01, 3, evaluate={"every": other}, progress=False)
    assert run.evaluated["every"]["loss"].values[0, 3] == pytest.approx(other.loss(run.weights()), rel=1e-12)


@pytest.mark.parametrize("by", ["class", "output", "label"])
def test_when_groups_are_learned(run, by):
    labels, targets = np.arange(30) % 4, TRAINING.targets["y"]
    found = run.learned(labels if by == "label" else by, fraction=0.3)
    inside = {"class": targets, "output": np.ones((30, 1)), "label": np.eye(4)[labels]}[by]
    for group in range(len(found)):
        times = []
        for seed in range(2):
            each = np.array([by_hand("squared", run.weights(seed, record), NETWORK)[0] for record in range(13)])
            part = each[:, :, group] if by == "output" else each.sum(axis=2) * inside[:, group]
            curve = part.sum(axis=1)
            after = int(np.argmax(curve <= 0.7 * curve[0]))
            share = (curve[after - 1] - 0.7 * curve[0]) / (curve[after - 1] - curve[after])
            times.append(after - 1 + share if curve.min() <= 0.7 * curve[0] else np.inf)  # of 10 steps of 0.1
        row = found.iloc[group]
        np.testing.assert_allclose(
            row[["earliest", "time", "latest"]].astype(float), [min(times), np.mean(times), max(times)]
        )
        assert row["step"] is not None
    if by != "label":
        assert list(found[by]) == ["same", "other"]


def test_outputs_or_weights_suffice(run, tmp_path):
    for kind in ("outputs", "weights"):
        other = nr.train(NETWORK, INITIAL, record=kind, **OPTIONS)
        other.save(tmp_path / f"{kind}.nc")
        again = nr.Trajectory.load(tmp_path / f"{kind}.nc").learned()
        np.testing.assert_allclose(again[["time", "latest"]], run.learned()[["time", "latest"]], rtol=1e-9)
    forecast = nr.predict(NETWORK, [run.initial_weights(seed) for seed in range(2)], run.time, learning_rate=0.1)
    np.testing.assert_allclose(forecast.learned()["time"], run.learned()["time"], rtol=0.05)  # the flow beside steps


def test_a_saved_forecast_has_no_weights(run, tmp_path):
    nr.predict(NETWORK, INITIAL, run.time, learning_rate=0.1).save(tmp_path / "forecast.nc")
    with pytest.raises(ProblemError, match="call this before saving it"):
        nr.Trajectory.load(tmp_path / "forecast.nc").learned()


def test_where_to_stop(run):
    stop, losses = run.best_stop("test"), run.evaluated["test"]["loss"].values
    assert stop.loss == losses.mean(axis=0).min()
    assert stop.step == run.data["step"].values[losses.mean(axis=0).argmin()]
    assert stop.last == (stop.step == 120)
    assert sorted(run.time[losses.argmin(axis=1)]) == [stop.earliest, stop.latest]


def test_what_cannot_be_evaluated_says_why(run):
    with pytest.raises(UnknownNameError, match=r"nothing was evaluated as 'tests'.*did you mean 'test'"):
        run.best_stop("tests")
    with pytest.raises(ProblemError, match="record='outputs'"):
        nr.train(NETWORK, INITIAL, **OPTIONS).learned()
    with pytest.raises(TaskError, match="by must be 'class', 'output' or one label for each of the 30"):
        run.learned("color")
    with pytest.raises(RangeError, match="fraction"):
        run.learned(fraction=0)
    with pytest.raises(TaskError, match="targets that are classes"):
        nr.predict(nr.tasks.semantic().problem("linear"), INITIAL, [1.0]).learned()
    gated = nr.tasks.xor().problem("xor", hidden=2)
    for evaluate, words in (
        ({"test": gated.task}, "the gates of the other examples are required"),
        (gated.task, "evaluate must name the other examples"),
        ({"te]st": NETWORK}, "must map names, without brackets, to examples for the same graph"),
        ({"test": nr.tasks.xor()}, r"must be a Task or Problem.*its examples are its \.task"),
    ):
        with pytest.raises((ProblemError, TaskError), match=words):
            nr.train(gated, INITIAL, 0.1, 1, evaluate=evaluate)
        with pytest.raises((ProblemError, TaskError), match=words):
            nr.predict(gated, INITIAL, [1.0], evaluate=evaluate)
