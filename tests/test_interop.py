"""Networks that another framework trained: files, names and transposes, learning rates, and the record of a run."""

import numpy as np
import pytest
from safetensors.numpy import save_file

import neuralrace as nr
from neuralrace.errors import FileFormatError, ProblemError, RangeError, WeightError
from neuralrace.interop import estimate_learning_rate, layers_of, read_folder, read_weights, weights_by_edge
from oracle import descend, gradient

ARRAYS = {"0.weight": np.eye(2, dtype=np.float32)}
FIRST, SECOND = np.arange(12.0).reshape(4, 3), np.arange(8.0).reshape(2, 4)  # (outputs, inputs)
BIASES = np.ones(4), np.ones(2)
TASK = nr.Task({"x": np.eye(3)}, {"y": np.ones((3, 2))})


# files


def test_steps_are_the_last_numbers_of_names(tmp_path):
    for step in (100, 0, 20):
        np.savez(tmp_path / f"run7_step{step}.npz", **ARRAYS)
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    ((steps, arrays),) = read_folder(tmp_path)
    assert steps == (0, 20, 100)
    np.testing.assert_array_equal(arrays[2]["0.weight"], np.eye(2))


def test_networks_have_folders_of_their_own(tmp_path):
    for seed in "ab":
        (tmp_path / seed).mkdir()
        save_file(ARRAYS, tmp_path / seed / "0.safetensors")
    assert [steps for steps, _ in read_folder(tmp_path)] == [(0,), (0,)]


def test_errors_of_files(tmp_path):
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(FileFormatError, match="it holds none"):
            read_folder(place)
    np.savez(tmp_path / "last.npz", **ARRAYS)
    with pytest.raises(FileFormatError, match="must have its step in its name"):
        read_folder(tmp_path)
    (tmp_path / "last.npz").rename(tmp_path / "a5.npz")
    np.savez(tmp_path / "b5.npz", **ARRAYS)
    with pytest.raises(FileFormatError, match=r"a5.npz and b5.npz have the same step"):
        read_folder(tmp_path)
    for name in ("bad1.safetensors", "bad1.npz"):
        (tmp_path / name).write_bytes(b"\x80\x04\x95 no weights")
        with pytest.raises(FileFormatError, match="bad1") as caught:
            read_weights(tmp_path / name)
        assert "\n" not in str(caught.value)


# layers


@pytest.mark.parametrize(
    "arrays",
    [
        {"0.weight": FIRST, "2.weight": SECOND},  # PyTorch, Sequential
        {"fc_out.weight": SECOND, "fc_in.weight": FIRST},  # the order of names is wrong, that of shapes right
        {"Dense_0/kernel": FIRST.T, "Dense_1/kernel": SECOND.T},  # Flax
        {"params.Dense_0.kernel": FIRST.T, "params.Dense_1.kernel": SECOND.T},
        {".layers[0].weight": FIRST, ".layers[1].weight": SECOND},  # Equinox
        {"x->h1": FIRST, "h1->y": SECOND},
        {("x", "h1"): FIRST, ("h1", "y"): SECOND},
    ],
)
def test_names_and_transposes(arrays):
    found = weights_by_edge(arrays, nr.ReLUNetwork(TASK, 4).architecture, False)
    np.testing.assert_array_equal(found["x", "h1"], FIRST)
    np.testing.assert_array_equal(found["h1", "y"], SECOND)


def test_biases_are_edges_from_the_bias_node():
    network = nr.ReLUNetwork(TASK, 4, biases=True)
    arrays = {"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND, "2.bias": BIASES[1]}
    found = weights_by_edge(arrays, network.architecture, True)
    assert set(found) == set(network.architecture.edges)
    assert found["bias", "h1"].shape == (4, 1)


def test_layer_ten_comes_after_layer_nine():
    square = [np.full((3, 3), float(i)) for i in range(11)]
    found = layers_of({f"layers.{i}.weight": square[i] for i in (10, 2, 9, *range(2), *range(3, 9))}, 3, 3)
    assert [matrix[0, 0] for _, matrix, _ in found] == list(range(11))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"norm.weight": np.ones(4)}, "leave it out of the checkpoint"),
        ({"conv.weight": np.ones((4, 3, 3, 3))}, "a chain of linear layers"),
        ({"0.weight": FIRST, "2.weight": np.ones((2, 5))}, r"from 3 inputs to 2 outputs; .* \(5, 2\)"),
        ({"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND}, "in every layer or in none"),
        ({"0.weight": np.ones((5, 3)), "2.weight": np.ones((2, 5))}, "layers of 3 -> 4 -> 2 .* 3 -> 5 -> 2"),
        (
            {"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND, "2.bias": BIASES[1]},
            "with biases=False; .* with biases=True: make the network like them",
        ),
        ({}, "none"),
    ],
)
def test_layers_that_do_not_fit(arrays, words):
    network = nr.ReLUNetwork(TASK, 4)
    with pytest.raises(WeightError, match=words):
        weights_by_edge(arrays, network.architecture, False) if arrays else layers_of(arrays, 3, 2)


def test_the_learning_rate_is_measured_where_the_weights_moved():
    """The weights of the last checkpoints differ by rounding alone, if at all."""
    network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(16,))
    history = descend(lambda at: gradient(network, at), nr.initial.gaussian(0.1)(network, 0), 0.2, 600)
    found = estimate_learning_rate(network, list(range(0, 601, 20)), history[::20])
    assert found[0] == pytest.approx(0.2, rel=3e-3)  # the adjustment ends where the way is right to 1e-3
    assert found[1] > 0.999


# the record of a run

LEARNED = nr.tasks.contextual(2, items=2).task
NETWORK = nr.ReLUNetwork(LEARNED, 8, biases=True)
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
    np.testing.assert_array_equal(made.problem.task.targets["y"], LEARNED.targets["y"])


def test_the_pace_is_measured(made):
    """From weights in single precision, whose differences are good to a thousandth."""
    settings = made.settings
    assert settings["learning_rate"] == pytest.approx(RATE, rel=3e-3)
    assert settings["rule"]["cosine"] > 0.99
    np.testing.assert_allclose(made.time, settings["learning_rate"] * np.array(STEPS))


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        (lambda steps, sets: (steps[:-1], sets), WeightError, "one set for each of the 10 steps; it was"),
        (lambda steps, sets: ([s + 20 for s in steps], sets), RangeError, r"increase from 0, .* were \[20, 40"),
        (lambda steps, sets: (steps[:1], [sets[0][:1]]), RangeError, "at least two"),
        (lambda steps, sets: (steps, [[sets[0][0]] * 11]), WeightError, "the same at every step"),
        (lambda steps, sets: (steps, [sets[0][::-1]]), WeightError, "moved against it"),
        (
            lambda steps, sets: (steps, [[sets[0][0] | {"0.bias": np.full(8, np.nan)}, *sets[0][1:]]]),
            WeightError,
            "checkpoint of step 0: .*finite",
        ),
        (lambda steps, sets: (steps, [[3, *sets[0][1:]]]), WeightError, "must be a Mapping; it was 3"),
    ],
)
def test_what_does_not_fit_is_said(saved, change, error, words):
    with pytest.raises(error, match=words):
        nr.Trajectory.from_checkpoints(NETWORK, *change(STEPS, saved))
    with pytest.raises(ProblemError, match="network must be a Problem; it was None"):
        nr.Trajectory.from_checkpoints(None, STEPS, saved)
