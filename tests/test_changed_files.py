"""Files with bytes changed and headers edited, and any arguments: right as it was, or refused in one line."""

import json
import zipfile

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bad_files
import neuralrace as nr
from neuralrace.errors import FileFormatError, NeuralRaceError
from neuralrace.io import read_archive, save_dataset

MANY = settings.default.max_examples if settings.default.max_examples < 100 else 3000  # 8 in the suite
often = settings(max_examples=MANY, suppress_health_check=[HealthCheck.function_scoped_fixture])

ARRAYS = {"inputs": np.arange(8.0).reshape(4, 2), "targets": np.array([[1.0], [0.5], [-2.0], [7.0]])}
TABLE = "größe;b;label\n1,5;2;x\n-3;4e1;y\n.5;6;x\n7;8;y\n".encode()
PLACE = st.floats(0, 1, exclude_max=True)


def answer(call):
    """What a call gives, or None and the one line with which it refuses; any other exception fails."""
    try:
        return call(), ""
    except NeuralRaceError as error:
        line = str(error)
    assert line
    assert "\n" not in line
    assert len(line) < 1000
    return None, line


@st.composite
def changed(draw, whole):
    """Bytes of a file with a few of them flipped, cut off, put in, doubled or left out."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = int(draw(PLACE) * len(content))
        kind = draw(st.sampled_from(["flip", "flip", "set", "cut", "insert", "remove", "append"]))
        if kind == "flip" and content:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "set" and content:
            content[at] = draw(st.sampled_from([0, 1, 0x7F, 0x80, 0xFF]))
        elif kind == "cut":
            del content[at:]
        elif kind == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        elif kind == "remove":
            del content[at : at + draw(st.integers(1, 40))]
        else:
            content += draw(st.binary(min_size=1, max_size=40))
    return bytes(content)


@pytest.fixture(scope="module")
def run():
    task = nr.Task({"x": np.eye(2)}, {"y": np.array([[1.0], [0.5]])})
    return nr.train(nr.ReLUNetwork(task, 2), nr.initial.gaussian(0.1), 0.1, 4, record="gate_patterns", progress=False)


@pytest.fixture(scope="module")
def written(run, tmp_path_factory):
    return run.save(tmp_path_factory.mktemp("runs") / "run.nc").read_bytes()


@given(data=st.data())
@often
def test_a_changed_record_is_never_used(data, written, tmp_path):
    path = tmp_path / "run.nc"
    path.write_bytes(data.draw(changed(written)))
    if path.read_bytes() == written:
        nr.Trajectory.load(path)
    else:
        with pytest.raises(FileFormatError, match=r"damaged|cut short"):
            nr.Trajectory.load(path)


def misshaped(data):
    kept = data.drop_vars("final_weights[x->h1]")
    return kept.assign({"final_weights[x->h1]": (("seed", "h1_out", "x_in"), np.ones((1, 2, 5)))})


EDITS = {
    "no loss": lambda data: data.drop_vars("loss"),
    "a loss of words": lambda data: data.assign(loss=data["loss"].astype(str)),
    "a loss that is none": lambda data: data.assign(loss=data["loss"] * np.nan),
    "time before zero": lambda data: data.assign_coords(time=data["time"] - 9),
    "time that runs back": lambda data: data.assign_coords(time=data["time"].values[::-1]),
    "an unknown status": lambda data: data.assign(status=data["status"] + 9),
    "axes of another name": lambda data: data.rename(seed="place"),
    "an edge that is not there": lambda data: data.rename({"final_weights[x->h1]": "final_weights[x->h9]"}),
    "weights of another shape": misshaped,
    "another format": lambda data: data.assign_attrs(neuralrace_format=99),
    "no format": lambda data: data.assign_attrs(neuralrace_format="2; import os"),
    "no description": lambda data: data.assign_attrs(problem="{"),
    "a description that is a list": lambda data: data.assign_attrs(settings="[1]"),
    "edges that are none": lambda data: data.assign_attrs(edges=json.dumps([[1, 2, 3]])),
}


@pytest.mark.parametrize("name", EDITS)
def test_a_record_with_an_edited_head_is_refused(name, run, tmp_path):
    path = save_dataset(EDITS[name](run.data), tmp_path / "edited.nc")
    with pytest.raises(NeuralRaceError, match=r"edited\.nc"):
        nr.Trajectory.load(path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@given(data=st.data())
@often
def test_a_changed_archive_loads_as_it_was_or_is_refused(kind, data, tmp_path):
    path = tmp_path / "arrays.npz"
    bad_files.archive(path, [(f"{name}.npy", bad_files.stored(array)) for name, array in ARRAYS.items()], kind)
    path.write_bytes(data.draw(changed(path.read_bytes())))
    found, line = answer(lambda: read_archive(path))
    assert found is not None or "arrays.npz" in line
    for name, array in (found or {}).items():  # a list that lost a member hides it from every reader
        np.testing.assert_array_equal(array, ARRAYS[name])


HEADERS = st.builds(
    lambda kind, shape, order, end: f"{{'descr': {kind!r}, 'fortran_order': {order}, 'shape': {shape}, }}" + end,
    st.sampled_from(["<f8", ">f8", "<f4", "<i8", "|O", "<c16", "<U4", "|V8", "|S8", "x", "", "<M8[s]", [("a", "<f8")]]),
    st.sampled_from(
        ["(4, 2)", "(2, 4)", "(8,)", "()", "(-4, -2)", "(4, 2.0)", "(10**9,)", "(4, 2, 1)", "8", "None", "((4, 2),)"]
    ),
    st.sampled_from(["True", "False", "0", "None", "'no'"]),
    st.sampled_from(["\n", "", " " * 50, "\0", "#", "}", "\xff"]),
)


@given(words=HEADERS)
@often
def test_an_array_with_an_edited_header_fits_or_is_refused(words, tmp_path):
    path, content = tmp_path / "arrays.npz", np.arange(8.0).tobytes()
    head = b"\x93NUMPY\x01\x00" + len(words).to_bytes(2, "little") + words.encode("latin-1")
    bad_files.archive(path, [("inputs.npy", head + content), ("targets.npy", bad_files.stored(ARRAYS["targets"]))])
    named, _ = answer(lambda: nr.tasks.read(path))
    assert named is None or named.task.inputs["x"].size == 8


@given(data=st.data())
@often
def test_a_changed_table_is_a_task_or_one_clear_line(data, tmp_path):
    path = tmp_path / "table.csv"
    path.write_bytes(data.draw(changed(TABLE)))
    named, _ = answer(lambda: nr.tasks.read(path, targets="label", sep=";", decimal=","))
    if named is not None:
        assert np.isfinite(named.task.inputs["x"]).all()
        targets = named.task.targets["y"]
        assert np.isfinite(targets).all()
        if targets.shape[1] > 1:  # classes; what is left of the labels may also be one number
            np.testing.assert_array_equal(targets.sum(axis=1), 1)


ANYTHING = st.one_of(
    st.integers(-2, 20),
    st.floats(),
    st.sampled_from([None, True, "", "a", "²", b"b", 1j, 10**400, -(2**64), object(), [], {}, (), [[]], {"x": 1}]),
    st.lists(st.one_of(st.floats(), st.integers(-2, 5), st.text(max_size=2), st.none()), max_size=4),
    st.lists(st.lists(st.floats(-5, 5), min_size=2, max_size=2), min_size=1, max_size=4),
)
NODES = st.dictionaries(st.one_of(st.sampled_from("xhy"), ANYTHING.filter(lambda v: v.__hash__ is not None)), ANYTHING)
CHAIN = nr.Architecture({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
TASK = nr.Task({"x": [[1.0, 0.0]]}, {"y": [[1.0]]})
LINEAR = nr.Problem(CHAIN, TASK)
CALLS = [
    lambda a, b, c: nr.Architecture(a, b),
    lambda a, b, c: nr.Architecture({"x": a, "y": b}, [("x", c)]),
    lambda a, b, c: nr.Task({"x": a}, {"y": b}, c),
    lambda a, b, c: nr.Task(a, b, c),
    lambda a, b, c: nr.Gates({"h": a}, {("x", "h"): b}),
    lambda a, b, c: nr.Problem(CHAIN, TASK, nr.Gates({"h": a}), {"h": b}, bool(c)),
    lambda a, b, c: nr.Problem(a, b, c),
    lambda a, b, c: nr.ReLUNetwork(TASK, a, b),
    lambda a, b, c: nr.initial.gaussian(a)(LINEAR, b),
    lambda a, b, c: nr.initial.orthogonal({("x", "h"): a, ("h", "y"): b})(LINEAR, c),
    lambda a, b, c: nr.views.race(a, b, 2, c),
    lambda a, b, c: nr.tasks.read("none.csv", targets=a, drop=b, classes=c),
    lambda a, b, c: nr.reln.implementable(a, b),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
@given(a=st.one_of(ANYTHING, NODES), b=ANYTHING, c=ANYTHING)
@settings(max_examples=MANY)
def test_any_arguments_make_a_value_or_one_clear_line(number, a, b, c):
    found, line = answer(lambda: CALLS[number](a, b, c))
    assert (found is None) == bool(line)  # never nothing without a word
