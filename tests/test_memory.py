import numpy as np
import pytest

import neuralrace as nr
from neuralrace import memory
from neuralrace.errors import ResourceError

TASK = nr.Task({"x": np.eye(4)}, {"y": np.eye(4)[:, :2]})
WIDE = nr.ReLUNetwork(nr.Task({"x": np.eye(4)}, {"y": np.ones((4, 500))}), 3)
NETWORK, LAW = nr.ReLUNetwork(TASK, 3), nr.initial.gaussian(0.1)


@pytest.mark.parametrize(
    ("count", "words"),
    [(0, "0 bytes"), (1023, "1.02e+03 bytes"), (1024, "1 KiB"), (600e6, "572 MiB"), (2**80, "1.07e+09 PiB")],
)
def test_in_bytes(count, words):
    assert memory.in_bytes(count) == words


def test_some_memory_is_free():
    assert 2**20 < memory.free_memory() < 2**60


def test_nothing_is_refused_where_the_system_does_not_say(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "free_memory", lambda: asked.append(True))  # which answers None
    memory.require_memory("it", 2.0**90, "less")
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
    monkeypatch.setattr(memory, "free_memory", lambda: 10**10)
    with pytest.raises(ResourceError, match=r"of memory and 9\.31 GiB are free: ") as caught:
        work()
    assert words in str(caught.value)
