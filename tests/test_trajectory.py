import json
import pickle

import h5py
import numpy as np
import pytest
import xarray

import neuralrace as nr
from neuralrace import trajectory as module
from neuralrace.datafiles import save_dataset
from neuralrace.errors import FileFormatError, RangeError, UnknownNameError
from neuralrace.trajectory import FORMAT, Trajectory, make_trajectory


@pytest.fixture
def run():
    """Two seeds, three moments, made by hand."""
    random = np.random.default_rng(0)
    variables = {
        "loss": (("seed", "time"), random.normal(size=(2, 3))),
        "gate_patterns[h]": (("seed", "time", "example", "h_unit"), random.random((2, 3, 4, 5)) > 0.5),
        "weights[x->h]": (("seed", "time", "h_unit", "x_unit"), random.normal(size=(2, 3, 5, 2))),
        "weights[bridge]": (("seed", "time", "y_unit", "h_unit"), random.normal(size=(2, 3, 1, 5))),
        "final_weights[x->h]": (("seed", "h_unit", "x_unit"), random.normal(size=(2, 5, 2))),
        "final_weights[bridge]": (("seed", "y_unit", "h_unit"), random.normal(size=(2, 1, 5))),
    }
    variables["loss"][1][1, 2] = np.inf
    return make_trajectory(
        np.array([0.0, 0.5, 1.0]),
        np.array([0, 5, 10]),
        variables,
        np.array([1, 2]),
        edges=(("x", "h"), "bridge"),
        problem={"nodes": {"x": 2, "h": 5, "y": 1}},
        settings={"learning_rate": 0.1, "key": "7", "note": "ä → ö"},
    )


def test_the_contract(run):
    np.testing.assert_array_equal(run.time, [0.0, 0.5, 1.0])
    assert run.loss.shape == (2, 3)
    assert run.status.tolist() == ["converged", "diverged"]
    assert run.edges == (("x", "h"), "bridge")
    assert run.settings["settings"]["learning_rate"] == 0.1
    assert run.settings["versions"]["jax"].count(".") == 2
    np.testing.assert_array_equal(run.weights(1)["x", "h"], run.data["final_weights[x->h]"][1])
    np.testing.assert_array_equal(run.weights(0, record=-1)["bridge"], run.data["weights[bridge]"][0, 2])


def test_everything_comes_back_from_a_file(run, tmp_path):
    path = run.save(tmp_path / "run.nc")
    back = Trajectory.load(path)
    xarray.testing.assert_identical(back.data, run.data)
    for name, variable in run.data.variables.items():
        assert back.data[name].dtype == variable.dtype, name
    assert back.settings == run.settings
    assert back.edges == run.edges
    assert back.status.tolist() == run.status.tolist()
    assert list(tmp_path.iterdir()) == [path]
    again = Trajectory.load(back.save(str(path)))
    xarray.testing.assert_identical(again.data, run.data)


def test_a_real_run_comes_back_with_every_variable(tmp_path):
    problem = nr.tasks.xor(0.5).problem("linear", hidden=3)
    record = ("outputs", "weights", "path_singular_values", "weight_singular_values", "activity")
    real = nr.train(problem, nr.initial.gaussian(0.1), 0.1, 4, seeds=2, record=record)
    back = Trajectory.load(real.save(tmp_path / "real.nc"))
    xarray.testing.assert_identical(back.data, real.data)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(run, tmp_path, monkeypatch):
    path = run.save(tmp_path / "run.nc")
    before = path.read_bytes()

    def half(self, name, **options):
        with open(name, "wb") as file:
            file.write(b"half a file")
        raise OSError("no space left on device")

    monkeypatch.setattr(xarray.Dataset, "to_netcdf", half)
    with pytest.raises(FileFormatError, match=r"cannot write .*run\.nc \(no space left on device\): free some space"):
        run.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_appears_under_its_name_only_when_it_is_complete(run, tmp_path, monkeypatch):
    path, seen = tmp_path / "run.nc", []
    write = xarray.Dataset.to_netcdf

    def watched(self, name, **options):
        write(self, name, **options)
        seen.append((path.exists(), len(list(tmp_path.iterdir()))))

    monkeypatch.setattr(xarray.Dataset, "to_netcdf", watched)
    run.save(path)
    assert seen == [(False, 1)]


def test_saving_into_a_folder_that_is_not_there(run, tmp_path):
    with pytest.raises(FileFormatError, match=r"nowhere is not there; make it first"):
        run.save(tmp_path / "nowhere" / "run.nc")
    with pytest.raises(FileFormatError, match="it is a folder"):
        run.save(tmp_path)
    assert list(tmp_path.iterdir()) == []


# bad files


def assert_refused(path, words):
    with pytest.raises(FileFormatError, match=words) as raised:
        Trajectory.load(path)
    assert str(path) in str(raised.value)


def test_a_missing_file(tmp_path):
    assert_refused(tmp_path / "missing.nc", "there is no file")
    assert_refused(tmp_path, "there is no file")


def test_a_text_file(tmp_path):
    path = tmp_path / "notes.nc"
    path.write_text("this is no data set\n" * 10)
    assert_refused(path, "cut short, or something else wrote it")


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty.nc"
    path.touch()
    assert_refused(path, "cut short, or something else wrote it")


@pytest.mark.parametrize("part", [0.1, 0.5, 0.95])
def test_a_truncated_file(run, tmp_path, part):
    path = run.save(tmp_path / "cut.nc")
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    assert_refused(path, "cut short, or something else wrote it")


def test_every_flipped_bit_is_seen(run, tmp_path):
    """One bit at each of 300 places over the whole file, its checksum included."""
    path = run.save(tmp_path / "flipped.nc")
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 300).astype(int):
        changed_bytes = bytearray(whole)
        changed_bytes[place] ^= 1 << int(place) % 8
        path.write_bytes(changed_bytes)
        assert_refused(path, "is damaged|cut short")


def test_a_file_that_was_written_by_something_else(run, tmp_path):
    path = tmp_path / "foreign.nc"
    run.data.to_netcdf(path, engine="h5netcdf")
    assert_refused(path, "cut short, or something else wrote it")


def test_other_programs_read_the_file(run, tmp_path):
    """The checksum after the end disturbs neither HDF5 nor netCDF; gates are bits, eight to a byte."""
    path = run.save(tmp_path / "run.nc")
    bits = [name for name, array in run.data.data_vars.items() if array.dtype == bool]
    assert bits
    with xarray.open_dataset(path, engine="h5netcdf") as opened:
        plain = opened.load()
    xarray.testing.assert_identical(plain.drop_vars(bits), run.data.drop_vars(bits))
    for name in bits:
        np.testing.assert_array_equal(plain[name].values, np.packbits(run.values(name), axis=-1))
        assert plain[name].attrs["neuralrace_bits"] == run.values(name).shape[-1]
    with h5py.File(path, "r") as file:
        assert file["loss"].shape == (2, 3)


def test_another_netcdf_file(tmp_path):
    path = tmp_path / "climate.nc"
    save_dataset(xarray.Dataset({"temperature": ("time", np.arange(3.0))}), path)
    assert_refused(path, f"must be a trajectory of format {FORMAT}; it says None")


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
        return data.assign({"final_weights[x->h]": (("seed", "a", "b"), np.zeros((2, 5, 3)))})
    if name == "unknown edge":
        return data.assign({"final_weights[x->y]": (("seed", "a", "b"), np.zeros((2, 1, 2)))})
    if name == "edges that join three":
        return data.assign_attrs(edges=json.dumps([["x", "h", "y"]]))
    if name == "no settings":
        return (
            data.assign_attrs(settings=None)
            .drop_attrs()
            .assign_attrs({key: value for key, value in data.attrs.items() if key != "settings"})
        )
    return data.assign_attrs({"problem": "{broken"} if name == "broken JSON" else {"edges": json.dumps(3)})


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
        ("misshaped weights", r"'final_weights\[x->h\]' with the sizes \[5, 2\] of its nodes; it has \[5, 3\]"),
        ("unknown edge", r"'final_weights\[x->y\]', of an edge that its network does not have"),
        ("edges that join three", "must name each edge, or give its two nodes"),
        ("no settings", "must describe its settings in JSON"),
        ("broken JSON", "must describe its problem in JSON"),
        ("edges that are none", "must describe its edges in JSON"),
    ],
)
def test_a_trajectory_with_something_wrong(run, tmp_path, name, words):
    path = tmp_path / "wrong.nc"
    save_dataset(changed(run.data, name), path)
    assert_refused(path, words)


class Bomb:
    """Sets a flag if anything unpickles it."""

    went_off = False

    def __reduce__(self):
        return (setattr, (Bomb, "went_off", True))


def test_nothing_in_a_file_is_executed(run, tmp_path):
    """Bytes of a pickle stay bytes."""
    payload = pickle.dumps(Bomb())
    data = run.data.assign_attrs(payload=np.frombuffer(payload, dtype=np.uint8))
    back = Trajectory.load(save_dataset(data, tmp_path / "bomb.nc"))
    assert not Bomb.went_off
    assert back.data.attrs["payload"].tobytes() == payload


def test_a_variable_of_bytes_is_refused(run, tmp_path):
    data = run.data.assign(loss=(("seed", "time"), np.full((2, 3), b"cos\nsystem\n")))
    assert_refused(save_dataset(data, tmp_path / "opaque.nc"), "must hold numbers 'loss'")


def test_a_file_that_others_changed_is_refused(run, tmp_path):
    path = run.save(tmp_path / "changed.nc")
    with h5py.File(path, "a") as file:
        file["loss"][0, 0] = 71.0
    assert_refused(path, "is damaged|cut short")


# looking at it


def test_a_short_description(run):
    assert repr(run) == (
        "Trajectory(2 seeds, 3 times from 0 to 1: loss, gate_patterns, weights, final_weights, status)"
    )
    assert "gate_patterns[h]" in run._repr_html_()


def test_a_tidy_table(run):
    frame = run.to_frame()
    assert len(frame) == 6
    assert set(frame.columns) == {"seed", "time", "step", "loss"}
    one = frame[(frame["seed"] == 1) & (frame["step"] == 5)]
    assert one["loss"].item() == run.loss[1, 1]
    assert len(run.to_frame("final_weights[bridge]")) == 2 * 5
    with pytest.raises(UnknownNameError, match="was not recorded"):
        run.to_frame("los")


def test_first_weights_are_those_recorded_at_step_0(run):
    for edge, first in run.first_weights(1).items():
        np.testing.assert_array_equal(first, run.weights(1, record=0)[edge])
    with pytest.raises(UnknownNameError, match="record='weights', from step 0 on"):
        Trajectory(run.data.isel(time=slice(1, None))).first_weights()


def test_the_losses_drawn(run):
    axis = run.plot()
    np.testing.assert_array_equal(axis.get_lines()[0].get_ydata(), run.loss.mean(axis=0))
    assert run.plot(axis) is axis
    assert len(axis.get_lines()) == 2


# bad questions


def test_what_was_not_recorded_is_named(run):
    with pytest.raises(UnknownNameError, match=r"'weights\[x->y\]' was not recorded; did you mean 'weights\[x->h\]'\?"):
        run.values("weights[x->y]")
    with pytest.raises(UnknownNameError, match=r"\(ask for it with record=...\)"):
        Trajectory(run.data.drop_vars("weights[bridge]")).weights(0, record=0)


@pytest.mark.parametrize("seed", [2, -3])
def test_a_seed_that_was_not_run(run, seed):
    with pytest.raises(RangeError, match=f"seed must be from 0 to 1; it was {seed}"):
        run.weights(seed)


@pytest.mark.parametrize("record", [3, -4])
def test_a_moment_that_was_not_recorded(run, record):
    with pytest.raises(RangeError, match=f"record must be from 0 to 2; it was {record}"):
        run.weights(0, record=record)


def test_status_has_three_values():
    assert module.STATUS == ("running", "converged", "diverged")
