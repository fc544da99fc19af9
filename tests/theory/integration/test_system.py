"""Many steps of descent are several calls, with the same result as one."""

import equinox as eqx
import numpy as np

from neuralrace import progress
from neuralrace.arrays import float64
from neuralrace.theory.integration import system as room


class Decay(eqx.Module):
    """dx/dt = -x."""

    def velocity(self, state):
        return -state

    def record(self, state):
        return state


@float64
def descended():
    return room.descend(Decay(), np.array([1.0, 2.0]), 0.1, np.array([0, 3, 20]))


def test_descent_in_several_calls_and_its_pace(monkeypatch, capsys):
    last, records = descended()
    np.testing.assert_allclose(last, np.array([1.0, 2.0]) * 0.9**23, rtol=1e-14)
    monkeypatch.setattr(room, "AT_ONCE", 7)
    monkeypatch.setattr(progress, "SURE", 0.0)
    monkeypatch.setattr(progress, "LONG", -1.0)
    again, others = descended()
    np.testing.assert_allclose(again, last, rtol=1e-15)
    np.testing.assert_allclose(others, records, rtol=1e-15)
    assert "left at this pace; to make it shorter: a larger learning_rate" in capsys.readouterr().err
