import numpy as np
import pytest

import neuralrace as nr
from neuralrace import memory
from neuralrace.errors import ResourceError

TASK = nr.Task({"x": np.eye(4)}, {"y": np.eye(4)[:, :2]})
WIDE = nr.ReLUNetwork(nr.Task({"x": np.eye(4)}, {"y": np.ones((4, 500))}), 3)
NETWORK, INITIAL = nr.ReLUNetwork(TASK, 3), nr.initial.gaussian(0.1)


def test_nothing_is_refused_where_the_system_does_not_say(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "free_memory", lambda: asked.append(True))  # which answers None
    memory.require_memory("it", 2.0**90, "less")
    assert asked  # and only then goes on


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: nr.train(NETWORK, INITIAL, 0.1, 5, seeds=10**9), "seeds of 18 weights would take 432.0 GB"),
        (lambda: nr.train(NETWORK, INITIAL, 0.1, 2**31 - 1, seeds=900), "record less often with every="),
        (lambda: nr.train(nr.ReLUNetwork(TASK, 10**11), INITIAL, 0.1, 5), "give fewer seeds, fewer neurons"),
        (lambda: nr.predict(NETWORK, INITIAL, [1.0], draws=10**9), "draws of 18 weights would take 144.0 GB"),
        (
            lambda: nr.train(WIDE, INITIAL, 0.1, 10**6, record="outputs", progress=False),
            "the record 'outputs[y]', 1 x 1,000,001 x 4 x 500, would take 16.0 GB",
        ),
    ],
)
def test_work_that_does_not_fit_is_announced(monkeypatch, work, words):
    monkeypatch.setattr(memory, "free_memory", lambda: 10**10)
    with pytest.raises(ResourceError, match=r"of memory and 10\.0 GB are free: ") as caught:
        work()
    assert words in str(caught.value)
