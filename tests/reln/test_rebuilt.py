"""Imposed gates: at the finest they are the network itself, and the trade-off is what was asked for."""

from dataclasses import replace

import numpy as np
import pytest

import neuralrace as nr
from neuralrace import reln
from neuralrace.errors import GateError, RangeError

LAW = nr.initial.gaussian(0.05)
RATE = 0.05


def trained(hidden, steps=60, every=1, **options):
    task = nr.tasks.contextual(2, items=2).task
    network = nr.ReLUNetwork(task, hidden=hidden)
    return nr.train(network, LAW, RATE, steps, seeds=2, record="gate_patterns", every=every, **options)


def test_every_gate_at_every_step_is_the_network_itself():
    run = trained((8, 6), steps=30)
    rebuilt = reln.rebuild(run, None, stretches=30)
    assert rebuilt.bounds[:3] == (0, 1, 2)
    # the last record is the loss under the gates of the last stretch, one step older
    np.testing.assert_allclose(rebuilt.loss[:, :-1], run.loss[:, :-1], rtol=1e-10)


def test_one_stretch_with_the_gates_of_the_start_is_a_gated_network():
    """The oracle is the training of the gated network that `equivalent` gives."""
    run = trained((10,), steps=1)
    long = nr.train(
        reln.equivalent(nr.ReLUNetwork(run.task, hidden=(10,)), run.initial_weights(0)).problem,
        reln.equivalent(nr.ReLUNetwork(run.task, hidden=(10,)), run.initial_weights(0)).weights,
        RATE,
        40,
    )
    again = trained((10,), steps=40, every=40)
    frozen = replace(again, data=again.data.copy(deep=True))
    frozen.data["gate_patterns[h1]"][:] = again.data["gate_patterns[h1]"].values[:, :1]
    rebuilt = reln.rebuild(frozen, None)
    assert rebuilt.loss[0, -1] == pytest.approx(long.loss[0, -1], rel=1e-10)


def test_the_trade_off_has_a_row_for_each_way():
    run = trained((10,), every=5)
    rows = reln.trade_off(run, modules=(1, None), stretches=(1, 3))
    assert [(row.modules, row.stretches) for row in rows] == [(1, 1), (1, 3), (None, 1), (None, 3)]
    text = reln.table_of(rows)
    assert text.count("every neuron") == 2
    assert len(text.splitlines()) == 5


def test_too_many_stretches_are_refused():
    run = trained((10,), every=30)
    with pytest.raises(RangeError, match="after the first, 2; it was 3"):
        reln.rebuild(run, 2, stretches=3)
    plain = nr.train(nr.ReLUNetwork(run.task, hidden=(4,)), LAW, RATE, 5)
    with pytest.raises(GateError, match="gate_patterns"):
        reln.rebuild(plain, 2)
