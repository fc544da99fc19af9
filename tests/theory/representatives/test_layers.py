"""Several hidden layers by narrower ones: what is kept, how near it comes, and where the flow goes on alone."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import AssumptionError
from neuralrace.theory import NarrowerLayers, predict
from neuralrace.theory.representatives.layers import scaled

RANDOM = np.random.default_rng(1)
TASK = nr.Task({"x": RANDOM.normal(size=(8, 3))}, {"y": RANDOM.normal(size=(8, 2))})
LAW = nr.initial.gaussian(0.02)
TIMES = 0.2 * np.arange(0, 301, 10)
STEPS = {"learning_rate": 0.2, "dynamics": "descent"}


def test_lengths_and_largest_singular_values_are_kept():
    """The oracle: lengths of rows and columns of drawn matrices, and their largest singular value."""
    wide = nr.ReLUNetwork(TASK, hidden=(600, 300), biases=True)
    law = nr.initial.gaussian({edge: 0.1 * (place + 1) for place, edge in enumerate(wide.architecture.edges)})
    narrow = NarrowerLayers(themselves=50).narrow(wide)
    assert [narrow.architecture.nodes[node] for node in ("h1", "h2")] == [150, 75]
    before, after = law(wide, 0), scaled(law, wide, narrow)(narrow, 1)
    for edge, kept in (("x", "h1"), (0,)), (("h1", "h2"), (0, 1)), (("h2", "y"), (1,)), (("bias", "h1"), (0,)):
        for axis in kept:
            lengths = [np.sqrt((one[edge] ** 2).sum(axis=axis).mean()) for one in (before, after)]
            assert lengths[1] == pytest.approx(lengths[0], rel=0.1), edge  # by chance, of some hundred numbers
        largest = [np.linalg.norm(one[edge], 2) for one in (before, after)]
        assert largest[1] == pytest.approx(largest[0], rel=0.15), edge
    size = np.abs(after["bias", "y"]).mean() / np.abs(before["bias", "y"]).mean()
    assert 0.2 < size < 5  # what no hidden neuron has is as it was


def test_a_narrower_network_learns_like_the_wide_one():
    network = nr.ReLUNetwork(TASK, hidden=(80, 80))
    foreseen = predict(network, LAW, TIMES, NarrowerLayers(themselves=20), draws=4, **STEPS)
    assert foreseen.simulated.architecture.nodes["h2"] == 20
    trained = nr.train(network, LAW, 0.2, 300, every=10, seeds=4, progress=False)
    apart = nr.agreement(foreseen, trained).normalized_l1
    one = predict(network, LAW, TIMES, "flow", draws=1, **STEPS)
    plain = predict(nr.ReLUNetwork(TASK, hidden=(20, 20)), LAW, TIMES, "flow", draws=4, **STEPS)
    assert apart < max(2 * nr.agreement(one, trained).normalized_l1, 0.1)
    assert apart < 0.5 * nr.agreement(plain, trained).normalized_l1  # without larger weights it is late
    assert foreseen.certificate["draws agree"].residual > 0


def test_what_is_narrow_or_otherwise_made_goes_by_the_flow():
    for network, words in (
        (nr.ReLUNetwork(TASK, hidden=(200, 90)), "the narrowest has 90 neurons, and more than 100 are asked"),
        (nr.ReLUNetwork(TASK, hidden=(200,)), "there is 1 hidden node"),
    ):
        with pytest.raises(AssumptionError, match=words):
            predict(network, LAW, TIMES, NarrowerLayers())
    with pytest.raises(AssumptionError, match="independent normal neurons required"):
        predict(nr.ReLUNetwork(TASK, (120, 120)), nr.initial.orthogonal(0.1), TIMES, NarrowerLayers())
