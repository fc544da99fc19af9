"""A training of one's own as a trajectory: the same record as that of the training itself."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import ProblemError, RangeError, WeightError

TASK = nr.tasks.contextual(2, items=2).task
NETWORK = nr.ReLUNetwork(TASK, 8, biases=True)
STEPS = list(range(0, 201, 20))
RATE = 0.1


@pytest.fixture(scope="module")
def run():
    law = nr.initial.gaussian(dict.fromkeys(NETWORK.architecture.edges, 0.3))
    return nr.train(NETWORK, law, RATE, 200, seeds=2, record=("gate_patterns", "weights"), at=STEPS, progress=False)


@pytest.fixture(scope="module")
def saved(run):
    """As PyTorch would write them, in single precision."""
    names = {"0.weight": ("x", "h1"), "0.bias": ("bias", "h1"), "2.weight": ("h1", "y"), "2.bias": ("bias", "y")}
    sets = []
    for seed in range(2):
        weights = [run.weights(seed, record) for record in range(len(STEPS))]
        sets.append([{k: np.float32(w[e][:, 0] if "bias" in k else w[e]) for k, e in names.items()} for w in weights])
    return sets


@pytest.fixture(scope="module")
def made(saved):
    return nr.Trajectory.from_checkpoints(NETWORK, STEPS, saved)


def test_losses_gates_and_weights_are_those_of_the_run(run, made):
    np.testing.assert_allclose(made.loss, run.loss, rtol=1e-4)  # single precision
    assert (made.values("gate_patterns[h1]") == run.values("gate_patterns[h1]")).mean() > 0.999
    np.testing.assert_allclose(made.weights(1)["h1", "y"], run.weights(1)["h1", "y"], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(made.task.targets["y"], TASK.targets["y"])


def test_the_pace_is_measured(made):
    """From weights in single precision, whose differences are good to a thousandth."""
    settings = made.settings
    assert settings["learning_rate"] == pytest.approx(RATE, rel=3e-3)
    assert settings["rule"]["cosine"] > 0.99
    np.testing.assert_allclose(made.time, settings["learning_rate"] * np.array(STEPS))


def test_it_is_saved_and_read_back(made, tmp_path):
    again = nr.Trajectory.load(made.save(tmp_path / "own.nc"))
    assert again.data.equals(made.data)


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda steps, sets: (steps[:-1], sets), WeightError, "each of the 10 steps; there are 11, 11"),
        (lambda steps, sets: ([s + 20 for s in steps], sets), RangeError, "at step 0, are required; the first .* 20"),
        (lambda steps, sets: ([0, 0, *steps[2:]], sets), RangeError, "steps must increase; 0 comes after 0"),
        (lambda steps, sets: (steps[:1], [sets[0][:1]]), RangeError, "at least two"),
        (lambda steps, sets: (steps, [[sets[0][0]] * 11]), WeightError, "the same at every step"),
        (lambda steps, sets: (steps, [sets[0][::-1]]), WeightError, "moved against it"),
        (
            lambda steps, sets: (steps, [[sets[0][0] | {"0.bias": np.full(8, np.nan)}, *sets[0][1:]]]),
            WeightError,
            "checkpoint of step 0: .*finite",
        ),
        (lambda steps, sets: (steps, [[3, *sets[0][1:]]]), WeightError, "by name or by edge; int came"),
        (lambda steps, sets: (steps, [3] * 11), WeightError, "weights of each network must be a Sequence; it was 3"),
        (
            lambda steps, sets: (steps, [[dict.fromkeys(NETWORK.architecture.edges, "abc")] * 11]),
            WeightError,
            "must be numbers; they were 'abc'",
        ),
    ],
)
def test_what_does_not_fit_is_said(saved, change, error, words):
    with pytest.raises(error, match=words):
        nr.Trajectory.from_checkpoints(NETWORK, *change(STEPS, saved))
    with pytest.raises(ProblemError, match="network must be a ReLUNetwork"):
        nr.Trajectory.from_checkpoints(None, STEPS, saved)
