import numpy as np
import pytest

from neuralrace import errors
from neuralrace.errors import (
    NeuralRaceError,
    RangeError,
    nearest,
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


@pytest.mark.parametrize("value", [np.nan, -np.inf, "a", None, 2.0, 0.0])
def test_a_number_outside_its_range(value):
    assert require_number("rate", np.float32(0.5), above=0, least=0.5, most=0.5) == 0.5
    with pytest.raises(RangeError, match="rate must be a finite number, above 0 and at most 1; it was "):
        require_number("rate", value, above=0, most=1)


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "3", None, np.nan])
def test_a_count_that_is_none(value):
    assert require_count("steps", np.int32(3)) == 3
    with pytest.raises(RangeError, match="steps must be a whole number, at least 1; it was "):
        require_count("steps", value)


def test_a_name_among_some():
    assert require_name("loss", "squared", ["squared", "absolute"]) == "squared"
    with pytest.raises(errors.UnknownNameError, match=r"must be one of squared, absolute; it was array\(\[1\]\)$"):
        require_name("loss", np.array([1]), ["squared", "absolute"])
