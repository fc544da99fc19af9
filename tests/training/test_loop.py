"""What a user expects of a training loop: early ends, a callback, weights for each seed, nothing compiled twice."""

import jax
import numpy as np
import optax
import pytest

import neuralrace as nr
import oracle
from neuralrace.errors import WeightError
from neuralrace.training import Condition, loop, train_together
from neuralrace.training.rules import Descent, Momentum

XOR = nr.tasks.xor().problem("xor", hidden=3)
LAW = nr.initial.gaussian(0.3)


def test_a_list_gives_each_seed_its_own_weights():
    sets = [oracle.random_weights(XOR.architecture, seed, 0.4) for seed in range(3)]
    together = nr.train(XOR, sets, 0.1, 12, seeds=3)
    for seed, weights in enumerate(sets):
        np.testing.assert_allclose(together.loss[seed], nr.train(XOR, weights, 0.1, 12).loss[0], rtol=1e-13)
    with pytest.raises(WeightError, match="one set per seed, 2; it has 3"):
        nr.train(XOR, sets, 0.1, 12, seeds=2)


def test_a_second_training_of_the_same_shape_compiles_nothing():
    options = {"seeds": 2, "record": ("weights", "outputs"), "optimizer": optax.adam(0.1)}
    nr.train(XOR, LAW, 0.1, 60, **options)
    other = nr.Problem(XOR.architecture, nr.Task(XOR.task.inputs, {"y": 2 * XOR.task.targets["y"]}), XOR.gates)
    counted = []
    jax.monitoring.register_event_duration_secs_listener(lambda event, seconds, **more: counted.append(event))
    nr.train(other, nr.initial.gaussian(0.1), 0.05, 60, key=3, **options)
    assert [event for event in counted if event.endswith("/backend_compile_duration")] == []
    nr.train(other, nr.initial.gaussian(0.1), 0.05, 60, seeds=7)  # another shape
    assert [event for event in counted if event.endswith("/backend_compile_duration")] != []


def test_a_callback_sees_the_losses_and_may_stop(monkeypatch):
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 1e-9)  # one evaluation at a time
    seen = []

    def callback(step, losses):
        seen.append((step, losses.shape))
        return step >= 40

    run = nr.train(XOR, LAW, 0.1, 400, seeds=2, every=10, callback=callback)
    last = int(run.data["step"].values[-1])
    assert 40 <= last < 400
    assert run.loss.shape == (2, len(run.data["step"]))
    assert XOR.loss(run.weights(1)) == pytest.approx(run.loss[1, -1], rel=1e-12)
    assert [shape[0] for _, shape in seen] == [2] * len(seen)
    assert [step for step, _ in seen] == sorted(step for step, _ in seen)


@pytest.mark.parametrize("pace", [(5, 2), (1, 1)], ids=["in blocks", "in turn"])
def test_steps_in_blocks_and_in_turn_are_the_same_steps(monkeypatch, pace):
    """As on a GPU, and as large networks on a CPU; conditions, mini-batches and memory go by seed and step."""
    conditions = [
        Condition(XOR, LAW, Momentum(np.asarray(rate), np.asarray(0.5)), rate, batch_size=2) for rate in (0.1, 0.2)
    ]
    monkeypatch.setattr(loop, "FEWEST_EVALUATIONS", 6)  # several steps from one evaluation to the next
    options = {"seeds": 1, "at": [0, 20, 60], "progress": False}
    usual = train_together(conditions, 60, **options)
    asked = []
    monkeypatch.setattr(loop, "_pace", lambda *given: asked.append(given) or pace)
    for one, other in zip(train_together(conditions, 60, **options), usual, strict=True):
        np.testing.assert_allclose(one.loss, other.loss, rtol=1e-12)
        np.testing.assert_array_equal(one.status, other.status)
    assert len(asked) == 1


def test_conditions_side_by_side_are_what_they_are_alone():
    harder = nr.Problem(XOR.architecture, nr.Task(XOR.task.inputs, {"y": 1.5 * XOR.task.targets["y"]}), XOR.gates)
    relu = nr.ReLUNetwork(XOR.task, 4)
    conditions = [
        Condition(XOR, LAW, Descent(np.asarray(0.1)), 0.1),
        Condition(relu, LAW, Descent(np.asarray(0.1)), 0.1),
        Condition(harder, nr.initial.gaussian(0.1), Descent(np.asarray(0.05)), 0.05),
    ]
    runs = train_together(conditions, 30, seeds=2, key=4, record="weights")
    for run, one in zip(runs, conditions, strict=True):
        alone = nr.train(one.network, one.initial, one.time, 30, seeds=2, key=4, record="weights")
        np.testing.assert_allclose(run.loss, alone.loss, rtol=1e-11)
        np.testing.assert_allclose(run.time, alone.time, rtol=1e-15)
        for seed in range(2):
            oracle.assert_weights_close(run.weights(seed), alone.weights(seed), 1e-11)


def test_the_heavy_ball_by_hand():
    weights = oracle.random_weights(XOR.architecture, 2, 0.4)
    ball = Condition(XOR, weights, Momentum(np.asarray(0.05), np.asarray(0.9)), 0.05)
    (pushed,) = train_together([ball], 20)
    at, velocity = dict(weights), {edge: np.zeros_like(matrix) for edge, matrix in weights.items()}
    for _ in range(20):
        slope = oracle.gradient(XOR, at)
        velocity = {edge: 0.9 * velocity[edge] + slope[edge] for edge in at}
        at = {edge: at[edge] - 0.05 * velocity[edge] for edge in at}
    oracle.assert_weights_close(pushed.weights(0), at, 1e-12)


def test_examples_drawn_by_weight_have_the_mean_of_the_whole():
    """Many first steps from the same weights: their mean is that of the full batch, within the error of the mean."""
    problem = nr.Problem(
        nr.Architecture({"x": 3, "y": 1}, [("x", "y")]),
        nr.Task({"x": np.eye(3)}, {"y": np.ones((3, 1))}, [0.2, 0.3, 0.5]),
    )
    start = {("x", "y"): np.zeros((1, 3))}
    one = Condition(problem, start, Descent(np.asarray(1.0)), 1.0, batch_size=4, drawn=True)
    (run,) = train_together([one], 1, seeds=400)
    moved = np.array([run.weights(seed)["x", "y"][0] for seed in range(400)])
    assert set(np.unique(moved)) <= {0.0, 0.25, 0.5, 0.75, 1.0}
    np.testing.assert_allclose(moved.mean(axis=0), [0.2, 0.3, 0.5], atol=4 * 0.25 / np.sqrt(400))
