"""Tasks from tables and archives: what was written comes back, bad files are refused, and scales are warned about."""

import numpy as np
import pandas
import pytest

import neuralrace as nr
from neuralrace import tasks
from neuralrace.errors import FileFormatError, NeuralRaceError, UnknownNameError
from neuralrace.tasks.frames import from_frame

INPUTS, TARGETS = np.arange(6.0).reshape(3, 2), np.array([[1.0], [0.5], [-2.0]])
CENTERED = np.linspace(-1, 1, 12)[:, None] * [1.0, -2.0]
LABELS = np.eye(3)[np.arange(12) % 3]


@pytest.fixture
def table(tmp_path):
    """Write a table and read it."""

    def read(text, name="t.csv", encoding="utf-8", **options):
        path = tmp_path / name
        path.write_bytes(text.encode(encoding))
        return tasks.read(path, **{"targets": "y"} | options)

    return read


@pytest.fixture
def archive(tmp_path):
    """Write an archive and read it."""

    def read(classes=None, **arrays):
        np.savez(tmp_path / "mine.npz", **arrays)
        return tasks.read(tmp_path / "mine.npz", classes=classes)

    return read


def test_an_npz_comes_back(archive):
    names = {"input_names": ["p", "q"], "target_names": ["r"]}
    named = archive(inputs=INPUTS, targets=TARGETS[:, 0], groups=["a", "b", "a"], weights=[1, 1, 2], **names)
    assert named.name == "mine"
    np.testing.assert_array_equal(named.task.inputs["x"], INPUTS)
    np.testing.assert_array_equal(named.task.targets["y"], TARGETS)
    np.testing.assert_array_equal(named.task.weights, [0.25, 0.25, 0.5])
    assert named.groups["group"].tolist() == ["a", "b", "a"]
    assert named.labels == {"x": ("p", "q"), "y": ("r",)}
    assert archive(inputs=INPUTS[:, 0], targets=np.hstack([TARGETS, TARGETS])).task.targets["y"].shape == (3, 2)


def test_whole_numbers_are_classes_or_not(archive, table):
    arrays = {"inputs": np.ones((6, 1)), "targets": [0, 2, 1, 0, 1, 2]}
    named = archive(**arrays)
    np.testing.assert_array_equal(named.task.targets["y"], np.eye(3)[[0, 2, 1, 0, 1, 2]])
    assert "read as classes" in named.notes[0]
    np.testing.assert_array_equal(archive(False, **arrays).task.targets["y"][:, 0], arrays["targets"])
    for numbers in ([0, 1, 0, 1, 0, 1], [1, 2, 4, 1, 2, 4], [2, 3, 4, 2, 3, 4], [0, 1, 2, 3, 4, 0]):
        named = table("x,y\n" + "".join(f"{i % 4},{number}\n" for i, number in enumerate(numbers)))
        np.testing.assert_array_equal(named.task.targets["y"][:, 0], numbers)
    labels = [*range(1, 12), *range(1, 12)]  # in their order, not in that of words
    named = table("x,y\n" + "".join(f"{i * 7 % 5},{label}\n" for i, label in enumerate(labels)))
    assert named.labels["y"] == tuple(map(str, range(1, 12)))
    np.testing.assert_array_equal(named.task.targets["y"].argmax(axis=1), np.array(labels) - 1)


def test_labels_become_one_output_for_each_class(table):
    named = table("p,q,y\n1,2,b\n3,4,a\n5,6,b\n7,8,a\n")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    assert named.labels == {"x": ("p", "q"), "y": ("a", "b")}
    assert named.groups["y"].tolist() == ["b", "a", "b", "a"]
    assert (named.notes, named.settings["targets"]) == ((), "y")
    both = table("p,y,q\n1,b,.5\n3,a,1\n5,b,2\n7,a,4\n", targets=["q", "y"])
    np.testing.assert_array_equal(both.task.targets["y"], [[0.5, 0, 1], [1, 1, 0], [2, 0, 1], [4, 1, 0]])
    assert both.labels["y"] == ("q", "y=a", "y=b")


def test_a_table_without_a_head_names_its_columns(table):
    named = table("1,2,3\n3,4,1\n5,6,4\n7,8,1\n", targets="column 3")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert named.labels["x"] == ("column 1", "column 2")


def test_options_of_pandas(table):
    named = table("größe;q;y\r\n1,5;-2,25;3\r\n,5;1e3;4,5\r\n", sep=";", decimal=",")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1.5, -2.25], [0.5, 1000]])
    assert named.labels["x"] == ("größe", "q")
    quoted = table('größe,"a, b",y\n1,"2",3\n4,5,6\n', encoding="utf-8-sig", usecols=["a, b", "y"])
    assert quoted.labels["x"] == ("a, b",)


def test_standardize_and_bias(table):
    named = table("p,q,y\n1,7,10\n2,7,20\n6,7,60\n", standardize=True, bias=True)
    inputs, targets = named.task.inputs["x"], named.task.targets["y"]
    expected = (np.array([1, 2, 6]) - 3) / np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(inputs[:, 0], expected, rtol=1e-14)
    np.testing.assert_array_equal(inputs[:, 1:], 1)  # constant already: it stays so, and serves as the bias
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-14)
    biased = table("constant,y\n1,b\n2,a\n3,b\n6,a\n", bias=True, standardize=True)
    assert biased.labels["x"] == ("constant", "constant 2")
    np.testing.assert_array_equal(biased.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    for scale in (1e-300, 1e99):  # neither overflows nor vanishes
        scaled = table(f"p,y\n{1 * scale!r},1\n{2 * scale!r},2\n{6 * scale!r},3\n", standardize=True)
        np.testing.assert_allclose(scaled.task.inputs["x"][:, 0], expected, rtol=1e-13)


def test_nothing_in_a_file_is_executed(archive, tmp_path):
    marker = tmp_path / "marker"

    class Trap:
        def __reduce__(self):
            return (marker.touch, ())

    with pytest.raises(FileFormatError, match="Object arrays cannot be loaded"):
        archive(inputs=np.array([Trap()], dtype=object), targets=TARGETS)
    assert not marker.exists()


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("a,b\n1,2\n", {"targets": "c"}, "there is no column 'c'; known: a, b"),
        ("a;y\n1;2\n", {}, "there is no column 'y' .was another separator meant"),
        ("a,y\n1,2\n", {"targets": None}, "must be given.*there are a, y"),
        ("a,y\n1,2\n", {"targets": "y,y"}, "each once"),
        ("a,y\n1,2\n", {"usecols": ["y"]}, "a column of inputs beside the targets is required"),
        ("a,y\n", {}, "at least one example"),
        ("a,y\n1,2\n3\n", {}, "example 2 has none in column 'y': fill it"),
        ("a,y\n10%,1\n20%,2\n", {}, "column 'a' must hold numbers; '10%' is in it.*name it as a target"),
        ("a,y\ninf,2\n1,3\n", {}, "must be finite; it has inf at example 0"),
        ("a,y\n1,2\n2,3\n3,x\n", {}, "column 'y' must hold numbers; 'x' is in it: correct it, give classes=True"),
        ("a,y\n1,p\n2,q\n3,r\n", {}, "has 3 different labels in 3 rows"),
        ("a,y\n1,2\n", {"nonsense": 1}, "is not a readable table .*nonsense"),
    ],
)
def test_bad_tables_are_one_line(table, text, options, words):
    with pytest.raises(NeuralRaceError, match=rf"t\.csv.*{words}") as caught:
        table(text, **options)
    assert "\n" not in str(caught.value)


def test_files_of_other_kinds(tmp_path):
    (tmp_path / "a.xlsx").write_text("1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"a table .* or an \.npz is required; got a\.xlsx"):
        tasks.read(tmp_path / "a.xlsx")
    with pytest.raises(FileFormatError, match="there is no file"):
        tasks.read(tmp_path / "none.csv")
    (tmp_path / "e.npz").write_text("1\n", encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"are for tables; an \.npz has none"):
        tasks.read(tmp_path / "e.npz", sep=";")
    (tmp_path / "b.csv").write_bytes("größe,y\n1,2\n".encode("latin-1"))
    with pytest.raises(FileFormatError, match="encoding='latin-1'"):
        tasks.read(tmp_path / "b.csv", targets="y")
    with pytest.raises(UnknownNameError):
        tasks.read(tmp_path / "b.csv", targets="z", encoding="latin-1")


def test_a_frame_of_any_names_and_types():
    frame = pandas.DataFrame({1: [1, 2, 3, 4], "ok": [True, False, True, True], "kind": list("abab")})
    named = from_frame(frame.astype({"kind": "category"}), "kind")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 1], [2, 0], [3, 1], [4, 1]])
    assert named.labels == {"x": ("1", "ok"), "y": ("a", "b")}


@pytest.mark.parametrize(
    ("name", "shape", "outputs"),
    [("iris", (150, 5), 3), ("wine", (178, 14), 3), ("digits", (1797, 62), 10), ("diabetes", (442, 11), 1)],
)
def test_measured_data_are_standardized_with_a_constant_input(name, shape, outputs):
    made = tasks.get(name)
    rows, wanted = made.task.inputs["x"], made.task.targets["y"]
    assert rows.shape == shape
    assert (rows[:, -1] == 1).all()
    np.testing.assert_allclose(rows[:, :-1].mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows[:, :-1].std(axis=0), 1, rtol=1e-12)
    assert wanted.shape[1] == outputs
    assert [len(made.labels[node]) for node in "xy"] == [shape[1], outputs]
    if outputs > 1:
        assert (wanted.sum(axis=1) == 1).all()
        assert made.groups["class"][0] == made.labels["y"][wanted[0].argmax()]
    assert tasks.cautions(made.task, made.labels) == ()


def told(inputs, targets, **names):
    return " ".join(tasks.cautions(nr.Task({"x": inputs}, {"y": targets}), names))


def test_targets_with_a_mean_that_the_inputs_cannot_make_are_warned_about():
    mean = np.linspace(100, 200, 12)[:, None]
    assert "take the mean off the targets (standardize)" in told(CENTERED, mean)
    assert told(np.hstack([CENTERED, np.ones((12, 1))]), mean) == ""
    assert told(CENTERED, mean - mean.mean()) == ""
    assert told(np.eye(12), mean) == ""  # these make a constant together
    assert told(CENTERED, np.zeros((12, 1))) == ""
    words = told(CENTERED, LABELS)
    assert "33% of their second moment is their mean" in words
    assert "Add a constant input (bias)" in words
    assert "standardize" not in words


def test_inputs_of_unlike_scale_are_warned_about():
    words = told(CENTERED * [1.0, 1e3], CENTERED, x=("small", "large"))
    assert "'large' is of size" in words
    assert "'small' of" in words
    assert told(CENTERED * [1.0, 5.0], CENTERED) == ""
    rare = np.hstack([CENTERED, np.eye(12)[:, :1]])  # seldom on, and not small when it is
    assert told(rare, CENTERED) == ""
    assert told(np.hstack([CENTERED, np.zeros((12, 1))]), CENTERED) == ""
    assert "nothing to learn from" in told(np.zeros((12, 1)), CENTERED)
    assert "x 2" in told(CENTERED * [1e-200, 1e98], CENTERED)
