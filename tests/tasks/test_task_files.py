"""Tasks from files: what was written comes back, and a bad file gets one clear line."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import FileFormatError

INPUTS, TARGETS = np.arange(6.0).reshape(3, 2), np.array([[1.0], [0.5], [-2.0]])


def test_an_npz_comes_back(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, inputs=INPUTS, targets=TARGETS[:, 0], groups=["a", "b", "a"], weights=[1, 1, 2])
    named = nr.tasks.read(path)
    assert named.name == "mine"
    np.testing.assert_array_equal(named.task.inputs["x"], INPUTS)
    np.testing.assert_array_equal(named.task.targets["y"], TARGETS)
    np.testing.assert_array_equal(named.task.weights, [0.25, 0.25, 0.5])
    assert named.groups["group"].tolist() == ["a", "b", "a"]


@pytest.mark.parametrize("names", ["", "first,second\n"])
def test_csv_files_come_back(tmp_path, names):
    (tmp_path / "x.csv").write_text(names + "0,1\n2, 3\n4,5e0\n\n", encoding="utf-8")
    (tmp_path / "y.csv").write_text("1\n.5\n-2\n", encoding="utf-8")
    (tmp_path / "g.csv").write_text("group\na\nb\na\n", encoding="utf-8")
    named = nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv", tmp_path / "g.csv")
    np.testing.assert_array_equal(named.task.inputs["x"], INPUTS)
    np.testing.assert_array_equal(named.task.targets["y"], TARGETS)
    assert named.labels == ({"x": ("first", "second")} if names else {})
    assert named.groups["group"].tolist() == ["a", "b", "a"]
    assert nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv").groups == {}


@pytest.mark.parametrize(
    ("arrays", "words"),
    [
        ({"inputs": INPUTS}, "must hold inputs and targets; it holds inputs"),
        ({"inputs": INPUTS, "targets": TARGETS, "more": 1}, "it also holds more"),
        ({"inputs": np.array([["a"]]), "targets": TARGETS}, "inputs must be numbers"),
        ({"inputs": np.ones((1, 1, 1)), "targets": TARGETS}, r"their shape is \(1, 1, 1\)"),
        ({"inputs": INPUTS, "targets": TARGETS[:2]}, "the same examples"),
        ({"inputs": INPUTS, "targets": TARGETS * np.nan}, "must be finite"),
        ({"inputs": INPUTS, "targets": TARGETS, "groups": [1, 2]}, "one label per example, 3; it has 2"),
        ({"inputs": INPUTS, "targets": TARGETS, "weights": [0, 0, 0]}, "positive sum"),
    ],
)
def test_a_bad_npz_is_refused(tmp_path, arrays, words):
    np.savez(tmp_path / "bad.npz", **arrays)
    with pytest.raises(FileFormatError, match=words) as caught:
        nr.tasks.read(tmp_path / "bad.npz")
    assert "bad.npz" in str(caught.value)


def test_nothing_in_a_file_is_executed(tmp_path):
    marker = tmp_path / "marker"

    class Trap:
        def __reduce__(self):
            return (marker.touch, ())

    np.savez(tmp_path / "trap.npz", inputs=np.array([Trap()], dtype=object), targets=TARGETS)
    (tmp_path / "trash.npz").write_bytes(b"not an archive")
    for name in ("trap.npz", "trash.npz"):
        with pytest.raises(FileFormatError, match=r"not a readable \.npz of plain arrays"):
            nr.tasks.read(tmp_path / name)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "it is empty"),
        ("a,b\n", "names alone"),
        ("1,2\n3\n", "2 columns in every line; line 2 has 1"),
        ("a,b\n1,2\n3,x\n", "line 3, column 2 is 'x'"),
        ("1,2\n3,nan\n5,6\n", "must be finite"),
    ],
)
def test_a_bad_csv_is_refused(tmp_path, text, words):
    (tmp_path / "x.csv").write_text(text, encoding="utf-8")
    (tmp_path / "y.csv").write_text("1\n.5\n-2\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=words):
        nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv")


def test_bytes_and_missing_files_are_refused(tmp_path):
    (tmp_path / "x.csv").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "y.csv").write_text("1\n", encoding="utf-8")
    (tmp_path / "g.csv").write_text("1,2\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"not a readable \.csv"):
        nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv")
    with pytest.raises(FileFormatError, match="there is no file"):
        nr.tasks.read(tmp_path / "none.npz")
    with pytest.raises(FileFormatError, match=r"two or three \.csv"):
        nr.tasks.read(tmp_path / "y.csv")
    with pytest.raises(FileFormatError, match="one label per line"):
        nr.tasks.read(tmp_path / "y.csv", tmp_path / "y.csv", tmp_path / "g.csv")
