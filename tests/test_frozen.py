"""Named forecasts and trainings decide and compute what they did when frozen.json was written."""

import json

import numpy as np
import pytest

from frozen import FILE, NAMED, assert_as_frozen, named_forecast, trainings


@pytest.mark.parametrize("name", NAMED)
def test_named_forecasts(name: str) -> None:
    assert_as_frozen(name, named_forecast(name))


def test_trainings() -> None:
    stored, found = json.loads(FILE.read_text())["trainings"], trainings()
    assert found.keys() == stored.keys()
    for name, curve in found.items():  # sums may be taken in another order; numbers of 32 bits round at 1e-7
        accuracy = 1e-6 if name == "single" else 1e-10
        np.testing.assert_allclose(curve, stored[name], rtol=1e-8, atol=accuracy * curve[0], err_msg=name)
