import json
import pickle
from dataclasses import replace

import h5py
import numpy as np
import pytest
import xarray

import neuralrace as nr
from neuralrace.activations import Activation
from neuralrace.datafiles import load_dataset, save_dataset
from neuralrace.errors import FileFormatError, RangeError, UnknownNameError
from neuralrace.trajectory import FORMAT, Trajectory, make_trajectory


def problem():
    """A network with gates, an activation and a weighting of the examples."""
    random = np.random.default_rng(1)
    architecture = nr.Architecture({"x": 2, "h": 5, "y": 1}, {"up": ("x", "h"), "bridge": ("h", "y")})
    task = nr.Task({"x": random.normal(size=(4, 2))}, {"y": random.normal(size=(4, 1))}, [0.1, 0.2, 0.3, 0.7])
    gates = nr.Gates({"h": [0, 1, 1, 2]}, {"bridge": [1, 0, 0.5, 1]})
    return nr.Problem(architecture, task, gates, {"h": nr.leaky_relu(0.1)})


@pytest.fixture
def run():
    """Two seeds, three moments, made by hand."""
    random = np.random.default_rng(0)
    variables = {
        "loss": (("seed", "time"), random.normal(size=(2, 3))),
        "gate_patterns[h]": (("seed", "time", "example", "h_unit"), random.random((2, 3, 4, 5)) > 0.5),
        "weights[up]": (("seed", "time", "h_unit", "x_unit"), random.normal(size=(2, 3, 5, 2))),
        "weights[bridge]": (("seed", "time", "y_unit", "h_unit"), random.normal(size=(2, 3, 1, 5))),
        "initial_weights[up]": (("seed", "h_unit", "x_unit"), random.normal(size=(2, 5, 2))),
        "initial_weights[bridge]": (("seed", "y_unit", "h_unit"), random.normal(size=(2, 1, 5))),
        "final_weights[up]": (("seed", "h_unit", "x_unit"), random.normal(size=(2, 5, 2))),
        "final_weights[bridge]": (("seed", "y_unit", "h_unit"), random.normal(size=(2, 1, 5))),
    }
    variables["loss"][1][1, 2] = np.inf
    settings = {"learning_rate": 0.1, "key": "7", "note": "ä → ö"}
    times, steps, status = np.array([0.0, 0.5, 1.0]), np.array([0, 5, 10]), np.array([1, 2])
    return make_trajectory(times, steps, variables, status, problem=problem(), settings=settings)


def test_the_contract(run):
    np.testing.assert_array_equal(run.time, [0.0, 0.5, 1.0])
    assert run.loss.shape == (2, 3)
    assert run.status.tolist() == ["converged", "diverged"]
    assert run.edges == ("up", "bridge")
    assert run.settings["learning_rate"] == 0.1
    assert json.loads(run.data.attrs["versions"])["jax"].count(".") == 2
    np.testing.assert_array_equal(run.initial_weights(1)["up"], run.data["initial_weights[up]"][1])
    np.testing.assert_array_equal(run.weights(1)["up"], run.data["final_weights[up]"][1])
    np.testing.assert_array_equal(run.weights(0, record=-1)["bridge"], run.data["weights[bridge]"][0, 2])


def test_everything_comes_back_from_a_file(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    back = Trajectory.load(path)
    xarray.testing.assert_identical(back.data, run.data)
    for name, variable in run.data.variables.items():
        assert back.data[name].dtype == variable.dtype, name
    assert back.settings == run.settings
    assert_same_problem(back.problem, run.problem)
    assert back.status.tolist() == run.status.tolist()
    assert list(tmp_path.iterdir()) == [path]
    again = Trajectory.load(back.save(str(path)))
    xarray.testing.assert_identical(again.data, run.data)


def assert_same_problem(found, wanted):
    """The same class, and the same loss, gradient and outputs at some weights."""
    assert type(found) is type(wanted)
    assert found.architecture == wanted.architecture
    assert found.activations == wanted.activations
    weights = nr.initial.gaussian(1.0)(wanted, 0)
    assert found.loss(weights) == wanted.loss(weights)
    for node, rows in wanted.forward(weights).items():
        np.testing.assert_array_equal(found.forward(weights)[node], rows)
    for edge, matrix in wanted.gradient(weights).items():
        np.testing.assert_array_equal(found.gradient(weights)[edge], matrix)


def neuron_gates():
    task = nr.tasks.xor(0.5).task
    gates = nr.Gates({"h": np.random.default_rng(2).random((4, 3)) > 0.5})
    return nr.Problem(nr.Architecture({"x": 3, "h": 3, "y": 1}, [("x", "h"), ("h", "y")]), task, gates, biases=True)


def relu_network():
    parts = np.random.default_rng(3).normal(size=(4, 4))
    return nr.ReLUNetwork(nr.Task({"a": parts[:, :2], "b": parts[:, 2:3]}, {"c": parts[:, 3:]}), (3, 4), 0.2, True)


@pytest.mark.parametrize("make", [problem, neuron_gates, relu_network])
def test_a_saved_run_holds_its_problem(tmp_path, make):
    record = ("outputs", "weights", "path_singular_values", "weight_singular_values", "activity")
    learned = make()
    real = nr.train(learned, nr.initial.gaussian(0.1), 0.1, 4, seeds=2, record=record)
    assert real.problem is learned
    back = Trajectory.load(real.save(tmp_path / "real.nc"))
    xarray.testing.assert_identical(back.data, real.data)
    assert_same_problem(back.problem, learned)
    assert back.weights(1).keys() == learned.architecture.edges.keys()


def test_an_activation_of_your_own_needs_its_problem(tmp_path):
    class Square(Activation):
        homogeneous = False

        def __call__(self, received):
            return received**2

        def as_data(self):
            return {"name": "my square"}

    chain = nr.Architecture({"x": 3, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
    learned = nr.Problem(chain, nr.tasks.xor(0.5).task, activations={"h": Square()})
    path = nr.train(learned, nr.initial.gaussian(0.1), 0.1, 2).save(tmp_path / "own.nc")
    assert_refused(path, "there is no activation 'my square'")
    assert Trajectory.load(path, learned).problem is learned


def test_saving_into_a_folder_that_is_not_there(run, tmp_path):
    with pytest.raises(FileFormatError, match=r"nowhere does not exist; make it first"):
        run.save(tmp_path / "nowhere" / "run.nc")
    with pytest.raises(FileFormatError, match="it is a folder"):
        run.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


# bad files


def assert_refused(path, words):
    with pytest.raises(FileFormatError, match=words) as raised:
        Trajectory.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_truncated_file(run, tmp_path, part):
    path = run.save(tmp_path / "cut.nc")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert_refused(path, "cut short, or something else wrote it")


def test_every_flipped_bit_is_noticed(run, tmp_path):
    """One bit at each of 300 places over the whole file, its checksum included."""
    path = run.save(tmp_path / "flipped.nc")
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 300).astype(int):
        changed_bytes = bytearray(whole)
        changed_bytes[place] ^= 1 << int(place) % 8
        path.write_bytes(changed_bytes)
        assert_refused(path, "is damaged|cut short")


def test_other_programs_read_the_file(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        plain = opened.load()
    held = run.data
    xarray.testing.assert_equal(plain[list(held.data_vars)], held)
    with h5py.File(path, "r") as file:
        assert file["loss"].shape == (2, 3)


@pytest.mark.parametrize("found", [FORMAT + 1, 1, str(FORMAT), 1.5, np.array([FORMAT, FORMAT])])
def test_another_format(run, tmp_path, found):
    path = tmp_path / "later.nc"
    save_dataset(run.data.assign_attrs(neuralrace_format=found), path)
    assert_refused(path, f"must be a trajectory of format {FORMAT}; it says ")


def changed(data, name):
    """The data set with one thing wrong, by name."""
    if name == "no loss":
        return data.drop_vars("loss")
    if name == "loss without seeds":
        return data.assign(loss=data["loss"][0].drop_vars("seed"))
    if name == "loss in words":
        return data.assign(loss=(("seed", "time"), np.full((2, 3), "low", dtype=object)))
    if name == "no time":
        return data.drop_vars("time")
    if name == "no step":
        return data.drop_vars("step")
    if name == "unknown status":
        return data.assign(status=("seed", np.array([0, 7], dtype=np.int8)))
    if name == "loss that is no number":
        return data.assign(loss=(("seed", "time"), np.array([[1.0, np.nan, 0.1], [1.0, 2.0, np.inf]])))
    if name == "time that is no number":
        return data.assign_coords(time=("time", [0.0, np.nan, 1.0]))
    if name == "negative time":
        return data.assign_coords(time=("time", [-1.0, 0.5, 1.0]))
    if name == "time that runs back":
        return data.assign_coords(time=("time", [0.0, 1.0, 0.5]))
    if name == "negative step":
        return data.assign_coords(step=("time", [-5, 5, 10]))
    if name == "misshaped weights":
        return data.assign({"final_weights[up]": (("seed", "a", "b"), np.zeros((2, 5, 3)))})
    if name == "unknown edge":
        return data.assign({"final_weights[x->y]": (("seed", "a", "b"), np.zeros((2, 1, 2)))})
    if name == "examples without targets":
        return data.drop_vars("targets[y]")
    if name == "gates for more examples":
        return data.assign({"node_gates[h]": (("other",), np.ones(7))})
    if name == "no settings":
        return (
            data.assign_attrs(settings=None)
            .drop_attrs()
            .assign_attrs({key: value for key, value in data.attrs.items() if key != "settings"})
        )
    return data.assign_attrs(problem="{broken" if name == "broken JSON" else json.dumps({"nodes": 3}))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("no loss", r"must hold numbers 'loss' over \('seed', 'time'\)"),
        ("loss without seeds", r"must hold numbers 'loss' over \('seed', 'time'\)"),
        ("loss in words", r"must hold numbers 'loss' over \('seed', 'time'\)"),
        ("no time", r"must hold numbers 'time' over \('time',\)"),
        ("no step", r"must hold numbers 'step' over \('time',\)"),
        ("unknown status", "holds a status other than running, converged, diverged"),
        ("loss that is no number", "must hold a finite loss for every seed that did not diverge"),
        ("time that is no number", "must hold a time that is not negative and increases"),
        ("negative time", "must hold a time that is not negative and increases"),
        ("time that runs back", "must hold a time that is not negative and increases"),
        ("negative step", "must hold a step that is not negative and increases"),
        ("misshaped weights", r"'final_weights\[up\]' with the sizes \[5, 2\] of its nodes; it has \[5, 3\]"),
        ("unknown edge", r"'final_weights\[x->y\]', of an edge that its network does not have"),
        ("examples without targets", r"does not hold a whole problem: 'targets\[y\]'"),
        ("gates for more examples", "does not hold a whole problem: the gate of node 'h' must have one value per exam"),
        ("no settings", "must describe its settings in JSON"),
        ("broken JSON", "must describe its problem in JSON"),
        ("no problem", "does not hold a whole problem"),
    ],
)
def test_a_trajectory_with_something_wrong(run, tmp_path, name, words):
    path = tmp_path / "wrong.nc"
    run.save(path)
    save_dataset(changed(load_dataset(path), name), path)
    assert_refused(path, words)


class Bomb:
    """Sets a flag if anything unpickles it."""

    went_off = False

    def __reduce__(self):
        return (setattr, (Bomb, "went_off", True))


def test_nothing_in_a_file_is_executed(run, tmp_path):
    """Bytes of a pickle stay bytes."""
    payload = pickle.dumps(Bomb())
    run.save(tmp_path / "run.nc")
    data = load_dataset(tmp_path / "run.nc").assign_attrs(payload=np.frombuffer(payload, dtype=np.uint8))
    back = Trajectory.load(save_dataset(data, tmp_path / "bomb.nc"))
    assert not Bomb.went_off
    assert back.data.attrs["payload"].tobytes() == payload


# looking at it


def test_a_tidy_table(run):
    frame = run.to_frame()
    assert len(frame) == 6
    assert set(frame.columns) == {"seed", "time", "step", "loss"}
    one = frame[(frame["seed"] == 1) & (frame["step"] == 5)]
    assert one["loss"].item() == run.loss[1, 1]
    assert len(run.to_frame("final_weights[bridge]")) == 2 * 5
    with pytest.raises(UnknownNameError, match="was not recorded"):
        run.to_frame("los")


def test_the_losses_drawn(run):
    axis = run.plot()
    np.testing.assert_array_equal(axis.get_lines()[0].get_ydata(), run.loss.mean(axis=0))
    assert run.plot(axis) is axis
    assert len(axis.get_lines()) == 2


# bad questions


def test_what_was_not_recorded_is_named(run):
    with pytest.raises(UnknownNameError, match=r"'weights\[x->y\]' was not recorded; did you mean 'weights\[up\]'\?"):
        run.values("weights[x->y]")
    with pytest.raises(UnknownNameError, match=r"\(ask for it with record=...\)"):
        replace(run, data=run.data.drop_vars("weights[bridge]")).weights(0, record=0)


@pytest.mark.parametrize("seed", [2, -3])
def test_a_seed_that_was_not_run(run, seed):
    with pytest.raises(RangeError, match=f"seed must be from 0 to 1; it was {seed}"):
        run.weights(seed)
