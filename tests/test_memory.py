import numpy as np
import pytest

import neuralrace as nr
from neuralrace import memory
from neuralrace.errors import ResourceError
from neuralrace.training import Condition, train_together
from neuralrace.training.rules import Descent

TASK = nr.Task({"x": np.eye(4)}, {"y": np.eye(4)[:, :2]})
WIDE = nr.ReLUNetwork(nr.Task({"x": np.eye(4)}, {"y": np.ones((4, 500))}), 3)
MANY = nr.ReLUNetwork(nr.Task({"x": np.eye(2000)}, {"y": np.ones((2000, 2))}), 10**6)
NETWORK, INITIAL = nr.ReLUNetwork(TASK, 3), nr.initial.gaussian(0.1)
CONDITION = Condition(NETWORK, INITIAL, Descent(np.asarray(0.1)), 0.1)


def test_nothing_is_refused_where_the_system_does_not_say(monkeypatch):
    asked = []
    monkeypatch.setattr(memory, "free_memory", lambda: asked.append(True))  # which answers None
    memory.require_memory("it", 2.0**90, "less")
    assert asked  # and only then goes on


@pytest.mark.parametrize(
    ("work", "words"),
    [
        (lambda: nr.train(NETWORK, INITIAL, 0.1, 5, seeds=10**9), "seeds of 18 weights would take 432.0 GB"),
        (
            lambda: nr.train(NETWORK, INITIAL, 0.1, 2**31 - 1, seeds=900),
            "give fewer seeds, neurons or steps, or larger every=",
        ),
        (lambda: nr.train(nr.ReLUNetwork(TASK, 10**11), INITIAL, 0.1, 5), "give fewer seeds, neurons or steps"),
        (
            lambda: train_together([CONDITION] * 10, 5, seeds=10**7),
            "10,000,000 seeds of 180 weights would take 43.2 GB",
        ),
        (lambda: nr.explain("xor", hidden=10**9), "5 seeds of 3,000,000,000 weights would take 360.0 GB"),
        (lambda: nr.explain("xor", hidden=10**7), "5 seeds of 1,800,000,000 recorded numbers would take 72.0 GB"),
        (
            lambda: nr.predict(NETWORK, INITIAL, [0.0] * 10**4, draws=10**6),
            "draws and their loss at 10,000 times would",
        ),
        (lambda: MANY.loss(np.nan), "the activity of all neurons, 2,000,004,000 numbers, would take 16.0 GB"),
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


def test_thousands_of_layers_are_refused_at_once():
    deep = nr.ReLUNetwork(TASK, (2,) * 5000)
    for work in (lambda: nr.train(deep, INITIAL, 0.1, 5), lambda: nr.predict(deep, INITIAL, [1.0])):
        with pytest.raises(ResourceError, match=r"at most 500 layers can be compiled .* this network has 5,001"):
            work()
