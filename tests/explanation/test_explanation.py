"""Whatever an explanation holds can be told in JSON."""

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neuralrace.explanation.explanation import plain


class Row(NamedTuple):
    count: int
    share: np.ndarray


@dataclass(frozen=True)
class Value:
    time: float
    rows: tuple[Row, ...]


def test_records_arrays_and_numbers_that_are_not_finite():
    value = {"a": Value(float("inf"), (Row(2, np.array([0.5, np.nan])),)), "b": np.float64(3), "c": np.array([True])}
    told = plain(value)
    assert told == {"a": {"time": None, "rows": [{"count": 2, "share": [0.5, None]}]}, "b": 3.0, "c": [True]}
    assert json.loads(json.dumps(told, allow_nan=False)) == told
