"""P2 Fig 6: the gated network as its code trains it, and plateaus that are compared without a missing number."""

import numpy as np

from neuralrace import tasks
from neuralrace.papers.jarvis2025 import fig6

SMALL = fig6.Settings(
    seeds=1, gated_seeds=1, hidden=14, paper_rate=0.01, steps=6, every=1, switched=(1, 3), stds=(0.3, 0.2, 0.3, 0.4)
)


def test_the_published_network_descends_as_its_code_does() -> None:
    """Six steps by gradients written out by hand: none, common alone twice, then both, the first layer by both."""
    named = tasks.contextual(3, "hierarchy")
    inputs, targets, context = named.task.inputs["x"].T, named.task.targets["y"].T, named.groups["context"]
    data = fig6.published(SMALL, named)
    random = np.random.default_rng([2, 0])
    shapes = [(14, 11), (14, 14), (60, 8), (60, 6)]
    first, second, *read = [std * random.standard_normal(shape) for std, shape in zip(SMALL.stds, shapes, strict=True)]
    read_all = np.hstack(read)
    gates = np.vstack([np.ones((8, 24)), *([context != c] * 2 for c in range(3))])
    common = np.arange(14)[:, None] < 8
    losses = []
    for epoch in range(7):
        hidden = first @ inputs
        active = gates * (second @ hidden)
        alone = read_all @ (active * common)
        losses.append(0.5 * np.sum((read_all @ active - targets) ** 2) / 24)
        on = ~common * (epoch >= 3) * 1.0
        errors = np.where(common.T, 1, 0), np.where(common.T, 0, 1)
        back = [
            (read_all * mask).T @ error
            for mask, error in zip(errors, (alone - targets, read_all @ active - targets), strict=True)
        ]
        received = gates * (back[0] * common + back[1] * on)
        to_read = (alone - targets) @ (active * common).T + (read_all @ active - targets) @ (active * on).T
        rate = SMALL.paper_rate * (epoch >= 1)
        first, second, read_all = (
            first - rate * (second.T @ received @ inputs.T),
            second - rate * received @ hidden.T,
            read_all - rate * to_read,
        )
    np.testing.assert_allclose(data["published"].values[0], losses, rtol=1e-12)  # the same steps, to rounding
    assert data["pathways"].shape == (4, 1, 7)


def test_levels_of_plateaus_are_compared_with_the_nearest() -> None:
    found = fig6.level_gaps(np.array([2.75, 2.0]), np.array([2.1]))
    assert {name: round(gap, 1) for name, gap in found.items()} == {"ReLU 2.75": 31.0, "ReLU 2": 4.8, "gated 2.1": 5.0}
    assert fig6.level_gaps(np.array([]), np.array([])) == {}
