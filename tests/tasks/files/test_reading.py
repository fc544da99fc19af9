"""Tasks from files: what was written comes back, labels and names with it, and what was done unasked is told."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import FileFormatError, UnknownNameError

INPUTS, TARGETS = np.arange(6.0).reshape(3, 2), np.array([[1.0], [0.5], [-2.0]])
WORDS = ["b", "a", "b", "a"]


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


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kind", ["<f4", ">f8", "u1", "?"])
def test_an_npz_of_any_plain_type_and_order_comes_back(tmp_path, kind, order):
    rows = np.asarray(np.arange(6).reshape(3, 2) % 3, dtype=kind, order=order)
    np.savez_compressed(tmp_path / "kind.npz", inputs=rows, targets=[b"u", b"v", b"u"])
    named = nr.tasks.read(tmp_path / "kind.npz")
    np.testing.assert_array_equal(named.task.inputs["x"], rows)
    assert named.labels == {"y": ("u", "v")}


def test_whole_numbers_of_an_npz_are_classes_or_not_as_told(tmp_path):
    np.savez(tmp_path / "n.npz", inputs=np.ones((6, 1)), targets=[0, 2, 1, 0, 1, 2])
    named = nr.tasks.read(tmp_path / "n.npz")
    np.testing.assert_array_equal(named.task.targets["y"], np.eye(3)[[0, 2, 1, 0, 1, 2]])
    assert "read as classes" in named.notes[0]
    as_numbers = nr.tasks.read(tmp_path / "n.npz", classes=False)
    np.testing.assert_array_equal(as_numbers.task.targets["y"], [[0], [2], [1], [0], [1], [2]])


@pytest.mark.parametrize("names", ["", "first,second\n"])
def test_separate_tables_come_back(tmp_path, names):
    (tmp_path / "x.csv").write_text(names + "0,1\n2, 3\n4,5e0\n\n", encoding="utf-8")
    (tmp_path / "y.csv").write_text("1\n.5\n-2\n", encoding="utf-8")
    (tmp_path / "g.csv").write_text("group\na\nb\na\n", encoding="utf-8")
    (tmp_path / "h.csv").write_text("a\nb\na\n", encoding="utf-8")
    for groups in ("g.csv", "h.csv"):
        named = nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv", tmp_path / groups)
        np.testing.assert_array_equal(named.task.inputs["x"], INPUTS)
        np.testing.assert_array_equal(named.task.targets["y"], TARGETS)
        assert named.labels == ({"x": ("first", "second")} if names else {})
        assert named.groups["group"].tolist() == ["a", "b", "a"]
    assert nr.tasks.read(tmp_path / "x.csv", tmp_path / "y.csv").groups == {}
    named = nr.tasks.read(tmp_path / "x.csv", tmp_path / "h.csv")  # labels without a name on top
    assert named.task.targets["y"].tolist() == [[1, 0], [0, 1], [1, 0]]


def test_labels_become_one_output_for_each_class(table):
    named = table("p,q,y\n1,2,b\n3,4,a\n5,6,b\n7,8,a\n")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    assert named.labels == {"x": ("p", "q"), "y": ("a", "b")}
    assert named.groups["y"].tolist() == WORDS
    assert (named.notes, named.settings) == ((), {"targets": "y"})


def test_numbers_and_labels_stand_side_by_side_under_their_names(table):
    named = table("p,y,q\n1,b,.5\n3,a,1\n5,b,2\n7,a,4\n", targets=["q", "y"])
    np.testing.assert_array_equal(named.task.targets["y"], [[0.5, 0, 1], [1, 1, 0], [2, 0, 1], [4, 1, 0]])
    assert named.labels["y"] == ("q", "y=a", "y=b")


def test_classes_that_are_whole_numbers_come_in_their_order(table):
    labels = [*range(1, 12), *range(1, 12)]
    named = table("x,y\n" + "".join(f"{i * 7 % 5},{label}\n" for i, label in enumerate(labels)))
    assert named.labels["y"] == tuple(map(str, range(1, 12)))
    np.testing.assert_array_equal(named.task.targets["y"].argmax(axis=1), np.array(labels) - 1)
    assert "'y' holds 11 whole numbers" in named.notes[0]


@pytest.mark.parametrize("numbers", [[0, 1, 0, 1, 0, 1], [1, 2, 4, 1, 2, 4], [2, 3, 4, 2, 3, 4], [0, 1, 2, 3, 4, 0]])
def test_other_whole_numbers_stay_numbers(table, numbers):
    named = table("x,y\n" + "".join(f"{i % 4},{number}\n" for i, number in enumerate(numbers)))
    np.testing.assert_array_equal(named.task.targets["y"][:, 0], numbers)


@pytest.mark.parametrize("targets", ["3", 3, -1, "-1", [3]])
def test_a_table_without_a_head_is_asked_by_number(table, targets):
    named = table("1,2,b\n3,4,a\n5,6,b\n7,8,a\n", targets=targets)
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert named.labels == {"y": ("a", "b")}


def test_a_head_is_known_by_the_names_that_are_asked_for(table):
    named = table("0,1,y\n1,2,b\n3,4,a\n5,6,b\n7,8,a\n")  # a head that begins like an example
    assert named.labels == {"x": ("0", "1"), "y": ("a", "b")}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (",p,y\n0,5,1\n1,6,4\n2,9,2\n", "the first column was left out: it only says which row it is; rename it"),
        ("ID,p,y\n1,5,1\n2,6,4\n3,9,2\n", "the first column, 'ID', was left out"),
        ("who,p,y\nann,5,1\nbob,6,4\ncy,9,2\n", "row it is; write it as numbers to keep it"),
        ("p,y\n5,1\n6,4\n9,2\n", ""),
    ],
)
def test_an_index_is_noticed_and_left_out(table, text, told):
    named = table(text)
    np.testing.assert_array_equal(named.task.inputs["x"], [[5], [6], [9]])
    assert told in " ".join(named.notes)
    assert bool(told) == bool(named.notes)


def test_numbers_in_another_way_of_writing_are_no_names_of_rows(table):
    with pytest.raises(FileFormatError, match=r"column 'p' holds words, such as '10%': write numbers as"):
        table("p,q,y\n10%,5,1\n20%,6,4\n30%,9,2\n")


def test_an_input_that_counts_the_rows_stays_and_is_told(table):
    named = table("time,p,y\n0,5,1\n1,6,4\n2,9,2\n")
    assert named.labels["x"] == ("time", "p")
    assert "'time' counts the rows" in named.notes[0]
    assert table("time,p,y\n0,5,1\n1,6,4\n2,9,2\n", drop="time").labels["x"] == ("p",)


@pytest.mark.parametrize(
    ("separator", "mark", "given"),
    [
        *((",", ".", None), (";", ",", None), (";", ".", None), ("\t", ",", None), ("|", ".", None), (" ", ".", None)),
        *((":", ".", ":"), ("\t", ".", "tab"), (";", ",", ";")),
    ],
)
def test_separators_and_decimal_marks(table, separator, mark, given):
    rows = [["p", "q", "y"], ["1.5", "-2.25", "3"], [".5", "1e3", "4.5"], ["7", "8", "9"]]
    text = "\r\n".join(separator.join(cell.replace(".", mark) for cell in row) for row in rows)
    named = table(text, separator=given)
    np.testing.assert_array_equal(named.task.inputs["x"], [[1.5, -2.25], [0.5, 1000], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"], [[3], [4.5], [9]])
    assert bool(named.notes) == (mark == ",")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "latin-1"])
def test_encodings(table, encoding):
    named = table('größe,"a, b",y\n1,"2",3\n4,5,6\n', encoding=encoding)
    assert named.labels == {"x": ("größe", "a, b"), "y": ("y",)}
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [4, 5]])
    assert ("Latin-1" in " ".join(named.notes)) == (encoding == "latin-1")


def test_standardize_and_bias(table):
    text = "p,q,y\n1,7,10\n2,7,20\n6,7,60\n"
    named = table(text, standardize=True, bias=True)
    inputs, targets = named.task.inputs["x"], named.task.targets["y"]
    expected = (np.array([1, 2, 6]) - 3) / np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(inputs[:, 0], expected, rtol=1e-14)
    np.testing.assert_array_equal(inputs[:, 1], 1)  # constant already: it stays so, and serves as the bias
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-14)
    assert (inputs.shape, "constant already" in named.notes[0]) == ((3, 2), True)
    biased = table("constant,y\n1,b\n2,a\n3,b\n6,a\n", bias=True, standardize=True)
    assert biased.labels["x"] == ("constant", "constant 2")
    np.testing.assert_array_equal(biased.task.inputs["x"][:, 1], 1)
    np.testing.assert_array_equal(biased.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    assert biased.settings == {"targets": "y", "standardize": True, "bias": True}


@pytest.mark.parametrize("scale", [1e-300, 1e99])
def test_standardize_neither_overflows_nor_vanishes(table, scale):
    named = table(f"p,y\n{1 * scale!r},1\n{2 * scale!r},2\n{6 * scale!r},3\n", standardize=True)
    expected = (np.array([1, 2, 6]) - 3) / np.sqrt(14 / 3)
    np.testing.assert_allclose(named.task.inputs["x"][:, 0], expected, rtol=1e-13)


def test_what_varies_where_nothing_counts_is_constant(tmp_path):
    np.savez(tmp_path / "w.npz", inputs=[[2.0], [2.0], [8.0]], targets=[[1.0], [2.0], [9.0]], weights=[1.0, 1.0, 0.0])
    task = nr.tasks.read(tmp_path / "w.npz", standardize=True).task
    np.testing.assert_array_equal(task.inputs["x"], [[1.0], [1.0], [4.0]])
    np.testing.assert_allclose(task.targets["y"], [[-1], [1], [15]], rtol=1e-14)


def test_nothing_in_a_file_is_executed(tmp_path):
    marker = tmp_path / "marker"

    class Trap:
        def __reduce__(self):
            return (marker.touch, ())

    np.savez(tmp_path / "trap.npz", inputs=np.array([Trap()], dtype=object), targets=TARGETS)
    with pytest.raises(FileFormatError, match="Python objects, which are never read"):
        nr.tasks.read(tmp_path / "trap.npz")
    assert not marker.exists()


def test_files_that_do_not_go_together(tmp_path):
    for name in ("a.csv", "b.csv", "c.csv", "d.csv", "e.npz"):
        (tmp_path / name).write_text("1\n2\n", encoding="utf-8")
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv", "d.csv", "e.npz")]
    for given, options, words in (
        (paths[:4], {}, "two or three .csv: inputs, targets, groups; a.csv, b.csv, c.csv, d.csv came"),
        (paths[3:], {}, "d.csv, e.npz came"),
        ([], {}, "nothing came"),
        (paths[:2], {"targets": 1}, "here the second file holds the targets"),
        (paths[4:], {"separator": ";"}, "an .npz names its arrays itself"),
        ([3], {}, "each argument must be the name of a file; it was 3"),
        (["a\0b"], {}, "must be the name of a file"),
        (paths[:1], {"targets": 1.5}, "targets must be columns by name or number; it was 1.5"),
        (paths[:1], {"targets": "a,,b"}, "targets must name its columns; it was 'a,,b'"),
    ):
        with pytest.raises(FileFormatError) as caught:
            nr.tasks.read(*given, **options)
        assert words in str(caught.value)
    with pytest.raises(UnknownNameError, match="has no column 'z'; it has 1 without names"):
        nr.tasks.read(paths[0], targets="z")
