"""Tasks from tables and archives: what was written comes back, bad files are refused, and scales are warned about."""

import numpy as np
import pandas
import pytest

import neuralrace as nr
from neuralrace import tasks
from neuralrace.errors import FileFormatError, NeuralRaceError, ResourceError, TaskError, UnknownNameError
from neuralrace.tasks import from_frame

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
    assert named.task.names == {"x": ("p", "q"), "y": ("r",)}
    assert archive(inputs=INPUTS[:, 0], targets=np.hstack([TARGETS, TARGETS])).task.targets["y"].shape == (3, 2)


def test_whole_numbers_are_classes_or_not(archive, table):
    arrays = {"inputs": np.ones((6, 1)), "targets": [0, 2, 1, 0, 1, 2]}
    named = archive(**arrays)
    np.testing.assert_array_equal(named.task.targets["y"], np.eye(3)[[0, 2, 1, 0, 1, 2]])
    assert "read as classes" in named.task.notes[0]
    np.testing.assert_array_equal(archive(False, **arrays).task.targets["y"][:, 0], arrays["targets"])
    for numbers, classes in (([0, 1, 0, 1, 0, 1], 2), ([1, 2, 4, 1, 2, 4], 3), ([0, 1, 2, 3, 4, 0], 1)):
        text = "x,y\n" + "".join(f"{i % 4},{number}\n" for i, number in enumerate(numbers))
        assert table(text).task.targets["y"].shape[1] == classes  # five of six are too many for classes
        np.testing.assert_array_equal(table(text, classes=False).task.targets["y"][:, 0], numbers)
    floats = table("x,y\n1,0.0\n2,1.0\n3,0.0\n4,1.0\n")
    np.testing.assert_array_equal(floats.task.targets["y"][:, 0], [0, 1, 0, 1])
    labels = [*range(1, 12), *range(1, 12)]  # in their order, not in that of words
    named = table("x,y\n" + "".join(f"{i * 7 % 5},{label}\n" for i, label in enumerate(labels)))
    assert named.task.names["y"] == tuple(map(str, range(1, 12)))
    np.testing.assert_array_equal(named.task.targets["y"].argmax(axis=1), np.array(labels) - 1)


def test_labels_become_one_output_for_each_class(table):
    named = table("p,q,y\n1,2,b\n3,4,a\n5,6,b\n7,8,a\n")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    np.testing.assert_array_equal(named.task.targets["y"], [[0, 1], [1, 0], [0, 1], [1, 0]])
    assert named.task.names == {"x": ("p", "q"), "y": ("a", "b")}
    assert named.groups["y"].tolist() == ["b", "a", "b", "a"]
    assert (named.task.notes, named.settings["targets"]) == ((), "y")
    both = table("p,y,q\n1,b,.5\n3,a,1\n5,b,2\n7,a,4\n", targets=["q", "y"])
    np.testing.assert_array_equal(both.task.targets["y"], [[0.5, 0, 1], [1, 1, 0], [2, 0, 1], [4, 1, 0]])
    assert both.task.names["y"] == ("q", "y=a", "y=b")


def test_a_table_without_a_head_names_its_columns(table):
    named = table("1,2,3\n3,4,1\n5,6,4\n7,8,1\n", targets="column 3")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1, 2], [3, 4], [5, 6], [7, 8]])
    assert named.task.names["x"] == ("column 1", "column 2")


def test_options_of_pandas(table):
    named = table("größe;q;y\r\n1,5;-2,25;3\r\n,5;1e3;4,5\r\n", sep=";", decimal=",")
    np.testing.assert_array_equal(named.task.inputs["x"], [[1.5, -2.25], [0.5, 1000]])
    assert named.task.names["x"] == ("größe", "q")
    quoted = table('größe,"a, b",y\n1,"2",3\n4,5,6\n', encoding="utf-8-sig", usecols=["a, b", "y"])
    assert quoted.task.names["x"] == ("a, b",)


def test_standardize_and_bias(table):
    named = table("p,q,y\n1,7,10\n2,7,20\n6,7,60\n", standardize=True, bias=True)
    inputs, targets = named.task.inputs["x"], named.task.targets["y"]
    expected = (np.array([1, 2, 6]) - 3) / np.sqrt((4 + 1 + 9) / 3)
    np.testing.assert_allclose(inputs[:, 0], expected, rtol=1e-14)
    np.testing.assert_array_equal(inputs[:, 1:], 1)  # constant already: it stays so, and serves as the bias
    np.testing.assert_allclose(targets[:, 0], expected, rtol=1e-14)
    biased = table("constant,y\n1,b\n2,a\n3,b\n6,a\n", bias=True, standardize=True)
    assert biased.task.names["x"] == ("constant", "constant 2")
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
        ("a,y\n1,2\n3\n", {}, "'y' 1 .example 2.. Leave out .*missing='drop'.*missing='mean'.*drop='NAME'"),
        ("a,b,y\n,1,2\n2,?,3\n,4,5\n", {}, "by column: 'a' 2 .examples 1, 3.; 'b' 1 .example 2.. Leave"),
        ("a,y\n10%,1\n20,2\n30,3\n", {}, "column 'a' must hold numbers; '10%' is in it.*drop='a'"),
        ("a,y\np,1\nq,2\nr,3\n", {}, "few different words; it has 3 in 3 examples, 'p' among them"),
        ("a,y\n1,2\n", {"missing": "guess"}, "missing must be one of error, drop, mean"),
        ("a,y\n1,2\n", {"drop": "b"}, "there is no column 'b'"),
        ("a,y\n1,\n,2\n", {"missing": "drop"}, "an example without missing cells is required"),
        ("a,b,y\n1,,2\n2,,3\n", {"missing": "mean"}, "column 'b' has no value at all"),
        ("a,y\n1,2\n", {"drop": "y"}, "'y' is both a target and left out"),
        ("a,y\n1,p\n2,q\n3,p\n4,q\n", {"classes": False}, "target 'y' holds words"),
        ("a,y\ninf,2\n1,3\n", {}, "must be finite; it has inf at example 0"),
        ("a,y\n1,2\n2,3\n3,x\n", {}, "column 'y' must hold numbers; 'x' is in it: correct it, give classes=True"),
        ("a,y\n1,p\n2,q\n3,r\n", {}, "has 3 different labels in 3 examples"),
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
    assert named.task.names == {"x": ("1", "ok"), "y": ("a", "b")}


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
    assert [len(made.task.names[node]) for node in "xy"] == [shape[1], outputs]
    if outputs > 1:
        assert (wanted.sum(axis=1) == 1).all()
        assert made.groups["class"][0] == made.task.names["y"][wanted[0].argmax()]
    assert tasks.cautions(made.task) == ()


def told(inputs, targets, **names):
    return " ".join(tasks.cautions(nr.Task({"x": inputs}, {"y": targets}, names=names)))


def test_targets_with_a_mean_that_the_inputs_cannot_make_are_warned_about():
    mean = np.linspace(100, 200, 12)[:, None]
    assert "subtract the mean of the targets (standardize=True)" in told(CENTERED, mean)
    assert told(np.hstack([CENTERED, np.ones((12, 1))]), mean) == ""
    assert told(CENTERED, mean - mean.mean()) == ""
    assert told(np.eye(12), mean) == ""  # these make a constant together
    assert told(CENTERED, np.zeros((12, 1))) == ""
    words = told(CENTERED, LABELS)
    assert "33% of their second moment is their mean" in words
    assert "Add a constant input (bias=True)" in words
    assert "standardize=True" not in words


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


def test_words_missing_cells_and_labels_like_na():
    frame = pandas.DataFrame(
        {
            "size": ["1", "NA", "3", "5"],
            "kind": ["NA", "b", "NA", "b"],
            "day": pandas.Series([1, 2, None, 4], dtype="Int64"),
            "rest": list("abcd"),
            "y": [0, 1, 1, 0],
        }
    )
    task = nr.Task.from_frame(frame, "y", drop=["rest"], missing="mean", weights=[1, 1, 1, 0])
    assert task.names == {"x": ("size", "kind=NA", "kind=b", "day"), "y": ("0", "1")}
    expected = [[1, 1, 0, 1], [2, 0, 1, 2], [3, 1, 0, 1.5], [5, 0, 1, 4]]  # the mean over the weighted examples
    np.testing.assert_array_equal(task.inputs["x"], expected)
    assert task.classes.tolist() == [0, 1, 1, 0]
    words = " ".join(task.notes)
    for said in (
        "'NA' in column 'kind' is read as a word",
        "2 missing cells have the mean",
        "2 different whole numbers",
    ):
        assert said in words
    kept = nr.Task.from_frame(frame, "y", drop="rest", missing="drop", classes=False)
    np.testing.assert_array_equal(kept.targets["y"], [[0], [0]])
    frame.loc[0, "y"] = None  # an example without a target teaches nothing
    assert len(nr.Task.from_frame(frame, "y", drop="rest", missing="mean")) == 3


def test_a_task_of_arrays_or_frames():
    inputs = np.arange(8.0).reshape(4, 2)
    task = nr.Task(inputs, np.array(["a", "b", "a", "b"]))
    assert (task.class_names, task.names["x"]) == (("a", "b"), ("input 1", "input 2"))
    np.testing.assert_array_equal(task.targets["y"], np.eye(2)[[0, 1, 0, 1]])
    np.testing.assert_array_equal(nr.Task(inputs, inputs).targets["y"], inputs)
    assert nr.Task(inputs, np.array([0, 1, 0, 1]), classes=False).targets["y"].shape == (4, 1)
    named = nr.Task(pandas.DataFrame(inputs, columns=["p", "q"]), pandas.Series([0.5, 1, 2, 3], name="r"))
    assert named.names == {"x": ("p", "q"), "y": ("r",)}
    with pytest.raises(TaskError, match="must have the same examples; they have 4 and 3"):
        nr.Task(inputs, [1, 2, 3])
    with pytest.raises(TaskError, match="these are masked: fill them"):
        nr.Task(inputs, np.ma.masked_array(np.ones(4), mask=[1, 0, 0, 0]))
    with pytest.raises(TaskError, match="weights has masked entries"):
        nr.Task(inputs, inputs, weights=np.ma.masked_array(np.ones(4), mask=[1, 0, 0, 0]))
    with pytest.raises(ResourceError, match="inputs of 1,000,000,000,000 numbers would take"):
        nr.Task(np.broadcast_to(1.0, (10**6, 10**6)), np.zeros(10**6))
    with pytest.raises(TaskError, match="names of node 'x' must be one for each of its 2 columns"):
        nr.Task({"x": inputs}, {"y": inputs}, names={"x": ["p"]})
