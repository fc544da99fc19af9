import numpy as np
import pytest

import neuralrace as nr
from neuralrace import errors
from neuralrace.errors import (
    NeuralRaceError,
    RangeError,
    ResourceError,
    memory_told,
    nearest,
    require_call,
    require_count,
    require_name,
    require_number,
)


def test_every_error_has_one_base():
    found = [value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert len(found) > 8
    assert all(issubclass(error, NeuralRaceError) and error.__doc__ for error in found)


def test_nearest_suggests_lists_or_says_that_there_is_none():
    assert nearest("hidn", ["hidden", "x"]) == "did you mean 'hidden'?"
    assert nearest("zzz", ["hidden", "x"]) == "known: hidden, x"
    assert nearest("zzz", map(str, range(20))).endswith("10, 11, ...")
    assert nearest("zzz", []) == "none is known"


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "a", None, 2.0, 0.0])
def test_a_number_outside_its_range(value):
    with pytest.raises(RangeError, match="rate must be a finite number, above 0 and at most 1; it was "):
        require_number("rate", value, above=0, most=1)


def test_numbers_inside_their_range():
    assert require_number("rate", np.float32(0.5), above=0, least=0.5, most=0.5) == 0.5
    assert require_count("steps", np.int32(3)) == 3
    assert require_count("steps", 0, least=0) == 0


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None, np.nan])
def test_a_count_that_is_none(value):
    with pytest.raises(RangeError, match="steps must be a whole number, at least 1; it was "):
        require_count("steps", value)


def test_a_name_among_some():
    assert require_name("loss", "squared", ["squared", "absolute"]) == "squared"
    with pytest.raises(
        errors.UnknownNameError, match="one of squared, absolute; it was 'sqared'; did you mean 'squared'"
    ):
        require_name("loss", "sqared", ["squared", "absolute"])
    with pytest.raises(errors.UnknownNameError, match=r"must be one of squared, absolute; it was array\(\[1\]\)$"):
        require_name("loss", np.array([1]), ["squared", "absolute"])


@pytest.mark.parametrize("error", [MemoryError("1 PiB"), RuntimeError("RESOURCE_EXHAUSTED: 9 bytes")])
def test_memory_that_runs_out_is_told_with_how_to_need_less(error):
    @nr.float64
    def greedy():
        raise error

    with pytest.raises(ResourceError, match="there is not enough memory for this: give fewer seeds, draws, neurons"):
        greedy()
    with pytest.raises(RuntimeError, match="something else"), memory_told():
        raise RuntimeError("something else")


def test_a_function_of_other_arguments():
    require_call("callback", print, "the step", 0)
    for given in (3, lambda: 1):
        with pytest.raises(RangeError, match="callback must be a function of the step; it was"):
            require_call("callback", given, "the step", 0)


TASK = nr.Task({"x": np.eye(4)}, {"y": np.eye(4)[:, :2]})
WIDE = nr.ReLUNetwork(nr.Task({"x": np.eye(4)}, {"y": np.ones((4, 500))}), 3)
NETWORK, LAW = nr.ReLUNetwork(TASK, 3), nr.initial.gaussian(0.1)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1023, "1.02e+03 bytes"), (1024, "1 KiB"), (600e6, "572 MiB"), (2**80, "1.07e+09 PiB")],
)
def test_in_bytes(count, words):
    assert errors.in_bytes(count) == words


def test_some_memory_is_free_and_a_container_may_have_less(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "GROUP", tmp_path)  # where no container says anything
    whole = errors.free_memory()
    assert whole is not None
    assert 2**20 < whole < 2**60
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert errors.free_memory() == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert errors.free_memory() > 2**20


def test_where_nobody_says_nothing_is_refused(monkeypatch):
    asked = []
    monkeypatch.setattr(errors, "free_memory", lambda: asked.append(True))  # which answers None
    errors.require_memory("it", 2.0**90, "less")
    assert asked  # and only then goes on


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: nr.train(NETWORK, LAW, 0.1, 5, seeds=10**9), "1,000,000,000 seeds of 18 weights would take 402 GiB"),
        (lambda: nr.train(NETWORK, LAW, 0.1, 2**31 - 1, seeds=900), "record less often with every="),
        (lambda: nr.train(nr.ReLUNetwork(TASK, 10**11), LAW, 0.1, 5), "give fewer seeds, fewer neurons"),
        (lambda: nr.predict(NETWORK, LAW, [1.0], draws=10**9), "1,000,000,000 draws of 18 weights would take 134 GiB"),
        (lambda: nr.predict(nr.ReLUNetwork(TASK, 10**11), LAW, [1.0], "flow"), "give fewer draws, or fewer neurons"),
        (
            lambda: nr.train(WIDE, LAW, 0.1, 10**6, record="outputs", progress=False),
            "the record 'outputs[y]', 1 x 1,000,001 x 4 x 500, would take 14.9 GiB",
        ),
    ],
)
def test_work_that_does_not_fit_is_announced(monkeypatch, work, words):
    monkeypatch.setattr(errors, "free_memory", lambda: 10**10)
    with pytest.raises(ResourceError, match=r"of memory and 9\.31 GiB are free: ") as caught:
        work()
    assert words in str(caught.value)
