"""Numbers beside a limit show on which side of it they are."""

import pytest

from neuralrace.explanation.wording import beside, counted, moment


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.10022, "0.1002"), (0.099996, "0.099996"), (0.1, "0.100"), (0.0789, "0.079"), (float("nan"), "not finite")],
)
def test_digits_enough(value, text):
    assert beside(value, 0.1) == text


def test_moments_and_counts():
    assert [moment(value) for value in (1234.56, float("inf"), float("nan"))] == ["1235", "never", ""]
    assert [counted(1, "module"), counted(2, "stretch")] == ["1 module", "2 stretches"]
