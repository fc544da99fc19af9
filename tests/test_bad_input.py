"""Bad calls, bad command lines and damaged files get one clear line and lose nothing.

The suite takes some rows of each corpus and few examples, tests/soak.py takes all rows and many examples.
"""

import json
import shlex
import zipfile
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import bad_files
import neuralrace as nr
from neuralrace import cli
from neuralrace.errors import FileFormatError, NeuralRaceError
from neuralrace.io import read_archive
from neuralrace.training.rules import Descent

SOAK = settings.default.max_examples > 100  # the profile of the soak has more
often = settings(max_examples=3000 if SOAK else 8, suppress_health_check=[HealthCheck.function_scoped_fixture])
CORPUS = Path(__file__).parent / "corpus"


def rows(name: str) -> list[str]:
    return (CORPUS / name).read_text(encoding="utf-8").splitlines()[:: 1 if SOAK else 17]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return bad_files.make(tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def names(folder: Path) -> dict[str, Any]:
    """What the calls of the table speak of."""
    inputs, targets = np.array([[1.0, 0], [0, 1], [1, 1], [2, 1]]), np.array([[1.0], [0], [1], [2]])
    task = nr.Task({"x": inputs}, {"y": targets})
    chain = nr.Architecture({"x": 2, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
    relu, initial, linear = nr.ReLUNetwork(task, 3), nr.initial.gaussian(0.1), nr.Problem(chain, task)
    weights = {("x", "h"): np.ones((3, 2)), ("h", "y"): np.ones((1, 3))}
    images = nr.tasks.routed_images("digits", 3, 2)
    return {
        **{"nr": nr, "np": np, "X": inputs, "Y": targets, "TASK": task, "CHAIN": chain, "INITIAL": initial},
        **{"LINEAR": linear, "RELU": relu, "W": weights, "FOLDER": folder, "Descent": Descent},
        "FORECAST": nr.predict(linear, weights, [0.0], method="flow"),
        "IMAGES": images,
        "ROUTED": nr.RoutedNetwork(images, 4),
        "RUN": nr.train(relu, initial, 0.1, 5, progress=False),
        "DIVERGED": nr.train(relu, initial, 1e3, 50, record="gate_patterns"),
        "GATED": nr.train(relu, initial, 0.1, 5, record="gate_patterns", progress=False),
    }


@pytest.mark.parametrize("call", rows("calls.txt"), ids=lambda text: text[:60])
def test_a_bad_call(call: str, names: dict[str, Any], monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(nr.NeuralRaceError) as caught:
        eval(call, dict(names))
    assert len(str(caught.value)) > 20
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("line", rows("command_lines.txt"), ids=lambda text: text[:60])
def test_a_bad_command_line(
    line: str, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    with pytest.raises(SystemExit) as stopped:
        cli.main(shlex.split(line.replace("{files}", str(folder))))
    printed = capsys.readouterr()
    assert stopped.value.code == 2
    said = printed.err.splitlines()
    assert len(said) == 1
    assert said[0].startswith("neuralrace: ")
    assert len(said[0]) > 30
    if "--json" in line:
        assert json.loads(printed.out)["error"] in said[0]
    else:
        assert printed.out == ""
    assert sorted(folder.iterdir()) == before  # nothing was begun


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
    """Bytes of a file with a few of them flipped, cut off, put in or left out."""
    content = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        at = int(draw(st.floats(0, 1, exclude_max=True)) * len(content))
        kind = draw(st.sampled_from(["flip", "flip", "cut", "insert", "remove"]))
        if kind == "flip" and content:
            content[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del content[at:]
        elif kind == "insert":
            content[at:at] = draw(st.binary(min_size=1, max_size=8))
        else:
            del content[at : at + draw(st.integers(1, 40))]
    return bytes(content)


@given(data=st.data())
@often
def test_a_changed_record_is_never_used(data, names, tmp_path):
    path = names["GATED"].save(tmp_path / "run.nc")
    written = path.read_bytes()
    path.write_bytes(data.draw(changed(written)))
    if path.read_bytes() == written:
        nr.Trajectory.load(path)
    else:
        with pytest.raises(FileFormatError, match=r"damaged|cut short"):
            nr.Trajectory.load(path)


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@given(data=st.data())
@often
def test_a_changed_archive_loads_as_it_was_or_is_refused(kind, data, tmp_path):
    path = tmp_path / "arrays.npz"
    arrays = {"inputs": bad_files.ROWS, "targets": bad_files.TARGETS}
    bad_files.archive(path, [(f"{name}.npy", bad_files.stored(array)) for name, array in arrays.items()], kind)
    path.write_bytes(data.draw(changed(path.read_bytes())))
    found, line = answer(lambda: read_archive(path))
    assert found is not None or "arrays.npz" in line
    for name, array in (found or {}).items():  # a list that lost a member hides it from every reader
        np.testing.assert_array_equal(array, arrays[name])


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
@often
def test_any_arguments_make_a_value_or_one_clear_line(number, a, b, c):
    found, line = answer(lambda: CALLS[number](a, b, c))
    assert (found is None) == bool(line)  # never nothing without a word


LONG = "/tmp/" + 300 * "a"
RUN = nr.train(nr.ReLUNetwork(TASK, 3), nr.initial.gaussian(0.1), 0.1, 5, record="gate_patterns", progress=False)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nr.Task({"x": np.broadcast_to(0.0, (10**6, 10**6))}, {"y": [[1.0]]}), "would take 8.0 TB of memory"),
        (lambda: nr.Task({"x": np.ma.array([[1.0]], mask=[[True]])}, {"y": [[1.0]]}), "has masked entries"),
        (lambda: nr.Gates({"h": [np.ma.array([1.0, 2.0], mask=[0, 1])]}), "has masked entries"),
        (lambda: nr.reln.find_modules(np.ma.array([[1.0]], mask=[[True]]), 1), "has masked entries"),
        (lambda: nr.batches.problem(CHAIN, {"x": np.ma.array([[1.0, 0.0]], mask=True)}, {"y": [[1.0]]}), "has masked"),
        (lambda: nr.reln.race(TASK, {"all": np.ones((1, 1))}, criterion="1"), "criterion must be a finite number"),
        (lambda: RUN.save(LONG), "File name too long"),
        (lambda: nr.Trajectory.load(LONG), "File name too long"),
        (lambda: nr.tasks.read(LONG), "File name too long"),
        (lambda: nr.train(LINEAR, nr.initial.gaussian(0.1), 0.1, 5, checkpoint=LONG), "File name too long"),
        (lambda: nr.train(LINEAR, nr.initial.gaussian(0.1), 0.1, 5, at=range(10**12)), "would take 40.0 TB of memory"),
        (lambda: nr.tasks.noisy_xor(points=10**13), "points must be at most 1,000,000"),
        (lambda: nr.explain(TASK, hidden=3, key=1 << 63), "key must be from -2^63 to 2^63 - 1"),
        (lambda: nr.explain(TASK, hidden=3, key=True), "key must be an integer seed"),
        *((lambda rate=rate: nr.train(LINEAR, nr.initial.gaussian(0.1), rate, 5), "learning_rate must be a finite")
          for rate in (True, np.True_, "0.1", b"1", np.str_("1"))),
        (lambda: nr.initial.gaussian("1")(LINEAR, 0), "std must be a finite number"),
    ],
)  # fmt: skip
def test_a_value_that_was_taken_for_another(call, words):
    found, line = answer(call)
    assert found is None
    assert words in line


def test_every_key_of_a_training_is_one_of_everything():
    for key in (-1, -(2**63), np.int64(-3), 2**63 - 1, jax.random.key(5)):
        assert len(nr.reln.find_modules(np.eye(3), 2, key)) > 0
        assert nr.reln.discover(RUN, 1, key=key).chosen.modules == 1


def test_a_name_as_long_as_the_file_system_allows_is_written(tmp_path):
    assert nr.Trajectory.load(RUN.save(tmp_path / (252 * "a" + ".nc"))).loss.shape == RUN.loss.shape
