"""What a page says was done is what was done; numbers beside a limit show on which side of it they are."""

import pytest

from neuralrace.explanation.verdicts import beside, moment, of_course, so_many


def test_only_a_forecast_that_came_first_is_said_to_have_come_first():
    assert of_course(foreseen=True, before=True, raced=True).startswith("First the loss and the modules were foreseen")
    for foreseen in (True, False):
        told = of_course(foreseen=foreseen, before=False, raced=False)
        assert told.startswith("These ReLU networks had been trained already")
        assert ("nothing was foreseen" in told) != foreseen
        assert "race" not in told


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.10022, "0.1002"), (0.099996, "0.099996"), (0.1, "0.100"), (0.0789, "0.079"), (float("nan"), "not finite")],
)
def test_digits_enough(value, text):
    assert beside(value, 0.1) == text


def test_moments_and_counts():
    assert [moment(value) for value in (1234.56, float("inf"), float("nan"))] == ["1235", "never", ""]
    assert [so_many(1, "module"), so_many(2, "stretch")] == ["1 module", "2 stretches"]
