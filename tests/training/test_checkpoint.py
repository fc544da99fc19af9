"""A training that is killed and started again ends with the same bytes as one that was not."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import kills
import neuralrace as nr
from neuralrace.errors import FileFormatError
from neuralrace.objectives import Objective
from neuralrace.training import checkpoint as module
from neuralrace.training import loop

RELU = nr.ReLUNetwork(nr.tasks.xor(0.3).task, 6)
LAW = nr.initial.gaussian(0.3)


class KilledError(Exception):
    pass


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 1e-9)
    monkeypatch.setattr(module, "SECONDS", 0.0)


@pytest.mark.parametrize(
    ("options", "at"), [({"optimizer": optax.adam(0.02)}, 30), ({"learning_rate": 0.1, "batch_size": 2}, 100)]
)
def test_killed_and_started_again(tmp_path, options, at):
    options = {"steps": 160, "seeds": 2, "record": ("outputs", "gate_patterns"), "every": 20, **options}
    whole = nr.train(RELU, LAW, **options)

    def killer(step, losses):
        if step >= at:
            raise KilledError

    path = tmp_path / "run.npz"
    with pytest.raises(KilledError):
        nr.train(RELU, LAW, checkpoint=path, callback=killer, **options)
    assert path.exists()
    again = nr.train(RELU, LAW, checkpoint=path, **options)
    assert set(again.data.data_vars) == set(whole.data.data_vars)
    for name in whole.data.variables:
        np.testing.assert_array_equal(again.data[name].values, whole.data[name].values, err_msg=name)
    finished = nr.train(RELU, LAW, checkpoint=path, **options)  # nothing is left to do
    np.testing.assert_array_equal(finished.loss, whole.loss)


def test_a_process_killed_in_the_middle_goes_on(tmp_path, monkeypatch):
    """In another process, which is this one."""
    path, out = tmp_path / "run.npz", tmp_path / "run.nc"
    assert kills.kill_after("train", tmp_path, path.exists, 60)
    assert not out.exists()  # killed in the middle
    monkeypatch.setattr(loop, "CHUNK_SECONDS", 0.01)
    options = {"learning_rate": 0.05, "steps": 20000, "every": 50, "seeds": 2, "progress": False}
    run, whole = (nr.train(RELU, LAW, **options, checkpoint=kept) for kept in (path, None))
    np.testing.assert_array_equal(run.loss, whole.loss)


@dataclass(frozen=True)
class Scaled(Objective):
    """The squared error times a number that its name does not tell."""

    times: float
    name: str = "scaled"
    compresses: bool = False

    def rows(self, outputs, targets):
        return self.times * jnp.sum((outputs - targets) ** 2, axis=-1)


def test_checkpoints_that_do_not_fit_are_refused(tmp_path):
    path = tmp_path / "run.npz"
    nr.train(RELU, LAW, 0.1, 20, checkpoint=path)
    with pytest.raises(FileFormatError, match="checkpoint of another training"):
        nr.train(RELU, LAW, 0.2, 20, checkpoint=path)
    told = nr.train(RELU, LAW, 0.1, 20, loss=Scaled(1.0), checkpoint=tmp_path / "scaled.npz").settings
    assert "times=1.0" in told["objective"]
    with pytest.raises(FileFormatError, match="checkpoint of another training"):
        nr.train(RELU, LAW, 0.1, 20, loss=Scaled(2.0), checkpoint=tmp_path / "scaled.npz")
    for _ in range(2):  # an equal optimizer is the same one
        nr.train(RELU, LAW, steps=20, optimizer=optax.adam(0.1), checkpoint=tmp_path / "adam.npz")
    with pytest.raises(FileFormatError, match="checkpoint of another training"):
        nr.train(RELU, LAW, steps=20, optimizer=optax.adam(0.2), checkpoint=tmp_path / "adam.npz")
    first, *_ = RELU.architecture.edges  # one that names edges is tried on the network's own
    some = optax.masked(optax.sgd(0.1), {edge: edge == first for edge in RELU.architecture.edges})
    nr.train(RELU, LAW, steps=20, optimizer=some, checkpoint=tmp_path / "masked.npz")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=r"remove it to start|checkpoint of another training"):
        nr.train(RELU, LAW, 0.1, 20, checkpoint=path)
    path.write_bytes(b"nothing")
    with pytest.raises(FileFormatError, match="not a readable checkpoint"):
        nr.train(RELU, LAW, 0.1, 20, checkpoint=path)
