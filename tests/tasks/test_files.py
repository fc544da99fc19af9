"""Tasks from files: what was written comes back, with labels and names, and bad files are refused in one line."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import FileFormatError, NeuralRaceError, UnknownNameError

INPUTS, TARGETS = np.arange(6.0).reshape(3, 2), np.array([[1.0], [0.5], [-2.0]])


@pytest.fixture
def table(tmp_path):
    """Write a table and read it."""

    def read(text, name="t.csv", encoding="utf-8", **options):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return nr.tasks.read(path, **{"targets": "y"} | options)

    return read


def test_an_npz_comes_back(tmp_path):
    path = tmp_path / "mine.npz"
    names = {"input_names": ["p", "q"], "target_names": ["r"]}
    np.savez(path, inputs=INPUTS, targets=TARGETS[:, 0], groups=["a", "b", "a"], weights=[1, 1, 2], **names)
    named = nr.tasks.read(path)
    assert named.name == "mine"
    np.testing.assert_array_equal(named.task.inputs["x"], INPUTS)
    np.testing.assert_array_equal(named.task.targets["y"], TARGETS)
    np.testing.assert_array_equal(named.task.weights, [0.25, 0.25, 0.5])
    assert named.groups["group"].tolist() == ["a", "b", "a"]
    assert named.labels == {"x": ("p", "q"), "y": ("r",)}


@pytest.mark.parametrize("kind", ["<f4", ">f8", "u1", "?"])
def test_an_npz_of_any_plain_type_and_order_comes_back(tmp_path, kind):
    rows = np.asarray(np.arange(6).reshape(3, 2) % 3, dtype=kind, order="F")
    np.savez_compressed(tmp_path / "kind.npz", inputs=rows, targets=[b"u", b"v", b"u"])
    named = nr.tasks.read(tmp_path / "kind.npz")
    np.testing.assert_array_equal(named.task.inputs["x"], rows)
    assert named.labels["y"] == ("u", "v")
    np.savez(tmp_path / "several.npz", inputs=rows, targets=np.hstack([TARGETS, TARGETS]))
    assert nr.tasks.read(tmp_path / "several.npz").task.targets["y"].shape == (3, 2)


def test_whole_numbers_are_classes_or_not_as_told(tmp_path, table):
    np.savez(tmp_path / "n.npz", inputs=np.ones((6, 1)), targets=[0, 2, 1, 0, 1, 2])
    named = nr.tasks.read(tmp_path / "n.npz")
    np.testing.assert_array_equal(named.task.targets["y"], np.eye(3)[[0, 2, 1, 0, 1, 2]])
    assert "read as classes" in named.notes[0]
    as_numbers = nr.tasks.read(tmp_path / "n.npz", classes=False)
    np.testing.assert_array_equal(as_numbers.task.targets["y"], [[0], [2], [1], [0], [1], [2]])
    for numbers in ([0, 1, 0, 1, 0, 1], [1, 2, 4, 1, 2, 4], [2, 3, 4, 2, 3, 4], [0, 1, 2, 3, 4, 0]):
        named = table("x,y\n" + "".join(f"{i % 4},{number}\n" for i, number in enumerate(numbers)))
        np.testing.assert_array_equal(named.task.targets["y"][:, 0], numbers)


def test_labels_become_one_output_for_each_class(table):
    named = table("p,q,y\n1,2,b\n3,4,a\n5,6,b\n7,8,a\n")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    assert named.labels == {"x": ("p", "q"), "y": ("a", "b")}
    assert named.groups["y"].tolist() == ["b", "a", "b", "a"]
    assert (named.notes, named.settings) == ((), {"targets": "y"})
    both = table("p,y,q\n1,b,.5\n3,a,1\n5,b,2\n7,a,4\n", targets=["q", "y"])
    np.testing.assert_array_equal(both.task.targets["y"], [[0.5, 0, 1], [1, 1, 0], [2, 0, 1], [4, 1, 0]])
    assert both.labels["y"] == ("q", "y=a", "y=b")


def test_classes_that_are_whole_numbers_come_in_their_order(table):
    labels = [*range(1, 12), *range(1, 12)]
    named = table("x,y\n" + "".join(f"{i * 7 % 5},{label}\n" for i, label in enumerate(labels)))
    assert named.labels["y"] == tuple(map(str, range(1, 12)))
    np.testing.assert_array_equal(named.task.targets["y"].argmax(axis=1), np.array(labels) - 1)


@pytest.mark.parametrize("targets", ["3", 3, -1, "-1", [3]])
def test_a_table_without_a_head_is_asked_by_number(table, targets):
    named = table("1,2,3\n3,4,1\n5,6,4\n7,8,1\n", targets=targets)
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"][:, 0], [3, 1, 4, 1])
    assert named.labels["x"] == ("column 1", "column 2")


def test_a_first_column_that_counts_is_left_out_or_dropped(table):
    for text in (",p,y\n0,5,1\n1,6,4\n2,9,2\n", "ID,p,y\n1,5,1\n2,6,4\n3,9,2\n"):
        named = table(text)
        np.testing.assert_array_equal(named.task.inputs["x"], [[5], [6], [9]])
        assert "was left out: it counts the rows" in named.notes[0]
    assert table("time,p,y\n0,5,1\n1,6,4\n2,9,2\n", drop="time").labels["x"] == ("p",)


def test_options_of_pandas(table):
    named = table("größe;q;y\r\n1,5;-2,25;3\r\n,5;1e3;4,5\r\n", sep=";", decimal=",")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1.5, -2.25], [0.5, 1000]])
    assert named.labels["x"] == ("größe", "q")
    quoted = table('größe,"a, b",y\n1,"2",3\n4,5,6\n', encoding="utf-8-sig")
    assert quoted.labels["x"] == ("größe", "a, b")


def test_standardize_and_bias(table):
    named = table("p,q,y\n1,7,10\n2,7,20\n6,7,60\n", standardize=True, bias=True)
    inputs, targets = named.task.inputs["x"], named.task.targets["y"]
    expected = (np.array([1, 2, 6]) - 3) / np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(inputs[:, 0], expected, rtol=1e-14)
    np.testing.assert_array_equal(inputs[:, 1], 1)  # constant already: it stays so, and serves as the bias
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-14)
    assert (inputs.shape, "constant already" in named.notes[0]) == ((3, 2), True)
    biased = table("constant,y\n1,b\n2,a\n3,b\n6,a\n", bias=True, standardize=True)
    assert biased.labels["x"] == ("constant", "constant 2")
    np.testing.assert_array_equal(biased.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    for scale in (1e-300, 1e99):  # neither overflows nor vanishes
        scaled = table(f"p,y\n{1 * scale!r},1\n{2 * scale!r},2\n{6 * scale!r},3\n", standardize=True)
        np.testing.assert_allclose(scaled.task.inputs["x"][:, 0], expected, rtol=1e-13)


def test_nothing_in_a_file_is_executed(tmp_path):
    marker = tmp_path / "marker"

    class Trap:
        def __reduce__(self):
            return (marker.touch, ())

    np.savez(tmp_path / "trap.npz", inputs=np.array([Trap()], dtype=object), targets=TARGETS)
    with pytest.raises(FileFormatError, match="Object arrays cannot be loaded"):
        nr.tasks.read(tmp_path / "trap.npz")
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,2\n", {"targets": "c"}, "has no column 'c'; known: a, b"),
        ("a;y\n1;2\n", {}, "has no column 'y'; known: a;y; was another separator meant"),
        ("a,y\n1,2\n", {"targets": None}, "must say which columns are targets .* a, y"),
        ("a,y\n1,2\n", {"targets": "y,y"}, "'y' came twice"),
        ("a,y\n1,2\n", {"targets": 1.5}, "targets must be columns by name or number; it was 1.5"),
        ("a,y\n1,2\n", {"targets": "a,,y"}, "targets must be columns by name or number"),
        ("a,y\n1,2\n", {"drop": "a"}, "must hold a column of inputs beside the targets"),
        ("a,y\n", {}, "it holds names alone"),
        ("", {}, "is not a readable table"),
        ("a,y\n1,2\n3\n", {}, "example 2 has none in column 'y': fill it"),
        ("a,y\n1,2\n3,4,5,6\n", {}, "is not a readable table"),
        ('a,y\n"1,2\n3,4\n', {}, "is not a readable table"),
        ("a,y\n10%,1\n20%,2\n", {}, "column 'a' holds '10%': name it as a target"),
        ("a,y\n1,2\nNA,3\n", {}, "column 'a' holds 'NA'"),
        ("a,y\ninf,2\n1,3\n", {}, "must be finite; it has inf at example 0"),
        ("a,y\n1,2\n2,3\n3,x\n", {}, "target 'y' holds numbers, and 'x' in example 3"),
        ("a,y\n1,x\n2,x\n", {}, "must have two to 1,000 classes"),
        ("a,y\n1,p\n2,q\n3,r\n", {}, "has 3 different labels in 3 rows"),
        ("a,y\n1,2\n", {"sep": ""}, "is not a readable table|no column"),
        ("a,y\n1,2\n", {"nonsense": 1}, "is not a readable table .*nonsense"),
    ],
)
def test_bad_tables_are_one_line(table, text, options, words):
    with pytest.raises(NeuralRaceError, match=words) as caught:
        table(text, **options)
    assert "\n" not in str(caught.value)


def test_files_of_other_kinds(tmp_path):
    (tmp_path / "a.xlsx").write_text("1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"a table .* or an \.npz is required; a\.xlsx came"):
        nr.tasks.read(tmp_path / "a.xlsx")
    with pytest.raises(FileFormatError, match="there is no file"):
        nr.tasks.read(tmp_path / "none.csv")
    with pytest.raises(FileFormatError, match="must be the name of a file; it was 3"):
        nr.tasks.read(3)
    (tmp_path / "e.npz").write_text("1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"are for tables; an \.npz has none"):
        nr.tasks.read(tmp_path / "e.npz", sep=";")
    (tmp_path / "b.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match="encoding='latin-1'"):
        nr.tasks.read(tmp_path / "b.csv", targets="y")
    with pytest.raises(UnknownNameError):
        nr.tasks.read(tmp_path / "b.csv", targets="z", encoding="latin-1")
