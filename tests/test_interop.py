"""Networks that another framework trained: files, names and transposes, learning rates, and the record of a run."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

import neuralrace as nr
from neuralrace.errors import FileFormatError, ProblemError, RangeError, WeightError
from neuralrace.interop import layers_of, read_folder, read_weights, step_of, weights_by_edge

ARRAYS = {"0.weight": np.eye(2, dtype=np.float32)}
FIRST, SECOND = np.arange(12.0).reshape(4, 3), np.arange(8.0).reshape(2, 4)  # (outputs, inputs)
BIASES = np.ones(4), np.ones(2)
NORM = {"weight": np.array([1.0, 2.0, 0.5, 1.5]), "bias": np.array([0.1, 0.0, -0.2, 0.3])}
NORM |= {"running_mean": np.array([0.5, -1.0, 0.0, 2.0]), "running_var": np.array([1.0, 4.0, 0.3, 2.0])}
NORM |= {"num_batches_tracked": np.array(7)}
TASK = nr.Task({"x": np.eye(3)}, {"y": np.ones((3, 2))})


# files


def test_steps_are_the_last_numbers_of_names(tmp_path):
    for step in (100, 0, 20):
        np.savez(tmp_path / f"run7_step{step}.npz", **ARRAYS)
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    ((steps, arrays),), skipped = read_folder(tmp_path)
    assert steps == (0, 20, 100)
    assert skipped == ("notes.txt",)
    np.testing.assert_array_equal(arrays[2]["0.weight"], np.eye(2))


def test_networks_have_folders_of_their_own(tmp_path):
    for seed in "ab":
        (tmp_path / seed).mkdir()
        save_file(ARRAYS, tmp_path / seed / "0.safetensors")
    (tmp_path / "plots").mkdir()
    found, skipped = read_folder(tmp_path)
    assert ([steps for steps, _ in found], skipped) == ([(0,), (0,)], ("plots",))


@pytest.mark.parametrize(
    ("name", "step"),
    [("step_100", 100), ("100", 100), ("epoch-007", 7), ("epoch=3-step=200", 200), ("run7_step20", 20)],
)
def test_names_of_steps(name, step):
    assert step_of(Path(f"{name}.npz")) == step


@pytest.mark.parametrize("name", ["step_1e3", "step_1.5", "step_-5", "step_1k", "last", "a1_b2", "step_1_step_2"])
def test_steps_that_are_ambiguous_are_refused(name):
    with pytest.raises(FileFormatError, match=f"{name}.npz has .*: rename it"):
        step_of(Path(f"{name}.npz"))


def test_pickles_are_not_opened(tmp_path):
    (tmp_path / "step_0.pt").write_bytes(b"")
    for place in (tmp_path, tmp_path / "step_0.pt"):
        with pytest.raises(FileFormatError, match=r"torch.load\('step_0.pt', .*numpy.savez\('step_0.npz', \*\*weights"):
            read_folder(place)


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
    found, _ = weights_by_edge(arrays, nr.ReLUNetwork(TASK, 4).architecture, False)
    np.testing.assert_array_equal(found["x", "h1"], FIRST)
    np.testing.assert_array_equal(found["h1", "y"], SECOND)


def test_biases_are_edges_from_the_bias_node():
    network = nr.ReLUNetwork(TASK, 4, biases=True)
    arrays = {"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND, "2.bias": BIASES[1]}
    found, _ = weights_by_edge(arrays, network.architecture, True)
    assert set(found) == set(network.architecture.edges)
    assert found["bias", "h1"].shape == (4, 1)


def test_layer_ten_comes_after_layer_nine():
    square = [np.full((3, 3), float(i)) for i in range(11)]
    found, _ = layers_of({f"layers.{i}.weight": square[i] for i in (10, 2, 9, *range(2), *range(3, 9))}, 3, 3)
    assert [matrix[0, 0] for _, matrix, _ in found] == list(range(11))


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"norm.weight": np.ones(4)}, r"'norm' has weight of shape \(4,\), as a LayerNorm has"),
        ({"conv.weight": np.ones((4, 3, 3, 3))}, "a chain of linear layers.* as a Conv2d has"),
        ({"0.weight": FIRST, "2.weight": SECOND} | {f"3.{k}": v for k, v in NORM.items()}, "'3', of 4 values, fits no"),
        ({"0.weight": FIRST, "2.weight": np.ones((2, 5))}, r"from 3 inputs to 2 outputs; .* \(5, 2\)"),
        ({"0.weight": FIRST, "0.bias": BIASES[0], "2.weight": SECOND}, "with biases=True: make the network like them"),
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


def normalized(values, norm):
    """Batch normalization in evaluation, as PyTorch documents it."""
    there = (values - norm["running_mean"]) / np.sqrt(norm["running_var"] + 1e-5)
    return there * norm.get("weight", 1.0) + norm.get("bias", 0.0)


@pytest.mark.parametrize(
    ("names", "place", "told"),
    [
        (("0", "1", "3"), "before", "1 after 0, before its activation"),
        (("fc1", "bn1", "fc2"), "before", "bn1 after fc1, before its activation"),
        (("net.0", "net.2", "net.3"), "after", "net.2 before net.3"),
        (("1", "0", "3"), "first", "0 before 1"),
    ],
)
def test_batch_normalization_is_folded(names, place, told):
    first, norm, last = names
    affine = NORM if place != "first" else {k: NORM[k][:3] for k in ("running_mean", "running_var")}  # affine=False
    arrays = {f"{norm}.{part}": values for part, values in affine.items()}
    arrays |= {f"{first}.weight": FIRST, f"{last}.weight": SECOND, f"{last}.bias": BIASES[1]}  # the first has no bias
    layers, notes = layers_of(arrays, 3, 2)
    rows = np.random.default_rng(0).normal(size=(5, 3))
    hidden = (normalized(rows, affine) if place == "first" else rows) @ FIRST.T
    hidden = np.maximum(normalized(hidden, NORM) if place == "before" else hidden, 0)
    wanted = (normalized(hidden, NORM) if place == "after" else hidden) @ SECOND.T + BIASES[1]
    (_, one, here), (_, two, there) = layers
    np.testing.assert_allclose(np.maximum(rows @ one.T + here, 0) @ two.T + there, wanted, atol=1e-12)
    assert notes[0].endswith(f"given zeros: {first}")
    assert f"{told}. eps was taken as 1e-05" in notes[1]


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


def test_weights_that_did_not_descend_are_accepted(saved):
    """Time is then the step; a learning rate that is given is kept."""
    made = nr.Trajectory.from_checkpoints(NETWORK, STEPS, [saved[0][::-1]])
    assert made.settings["learning_rate"] is None
    assert made.settings["rule"]["cosine"] < 0
    np.testing.assert_array_equal(made.time, STEPS)
    made = nr.Trajectory.from_checkpoints(NETWORK, STEPS, [saved[0][::-1]], learning_rate=0.5)
    np.testing.assert_array_equal(made.time, 0.5 * np.array(STEPS))


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
