import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory import exact

VALUES, VARIANCE, START = np.array([0.3, 3.0, 1.0]), 1.0, 1e-6


def test_order_and_times_are_those_of_the_modes(integrate):
    story = exact.learning_order(VALUES, VARIANCE, START)
    np.testing.assert_array_equal(story.order, [1, 2, 0])
    s = VALUES[story.order]
    for fraction, times in ((0.1, story.starts), (0.5, story.midpoints), (0.9, story.ends)):
        for value, t in zip(s, times, strict=True):
            logs = integrate(lambda _, y, value=value: 2 * (value - np.exp(y)), np.log([START]), np.array([0.0, t]))
            assert np.exp(logs[1, 0]) == pytest.approx(fraction * value, rel=1e-9)


@pytest.mark.parametrize("depth", [2, 3])
def test_loss_stands_still_on_a_plateau_and_nowhere_else(depth):
    story = exact.learning_order(VALUES, VARIANCE, START, depth, begin=0.01, finish=0.99)
    own = np.append(VALUES[story.order] ** 2 / 2, 0.0)  # the loss of each mode, as they are learned
    assert (story.plateau_ends > story.plateau_starts).all()
    ends = np.minimum(story.plateau_ends, 2 * story.plateau_starts + 1)  # the last is without end
    times = np.stack([story.plateau_starts, ends], axis=1)
    losses = exact.deep_loss(times[..., None], VALUES, VARIANCE, START, depth).sum(-1)
    # modes 1% from their end add 1e-4 of their loss, one 1% on its way takes 2% of it, and later ones less
    allowed = 1e-4 * (np.cumsum(own) - own) + 0.021 * own
    assert (np.abs(losses - story.plateau_losses[:, None]) <= allowed[:, None] + 1e-12).all()
    falls = exact.deep_loss(story.plateau_ends[:-1, None], VALUES, VARIANCE, START, depth).sum(-1) - losses[1:, 0]
    assert (falls >= 0.97 * own[:-1]).all()  # what is between 1% and 99% of a mode


def test_smaller_weights_stretch_the_plateaus_and_not_the_transitions():
    near, far = (exact.learning_order(VALUES, VARIANCE, a0) for a0 in (1e-6, 1e-12))
    np.testing.assert_allclose(far.ends - far.starts, near.ends - near.starts, rtol=1e-5)
    assert np.all(far.plateau_lengths[:3] > near.plateau_lengths[:3])
    assert np.all(far.separations > near.separations)
    # between transitions the gain is log(1e6) (1/2s' - 1/2s)
    gain = np.log(1e6) / 2 * (1 / VALUES[[2, 0]] - 1 / VALUES[[1, 2]])
    np.testing.assert_allclose(far.plateau_lengths[1:3] - near.plateau_lengths[1:3], gain, rtol=1e-5)


def test_next_plateau():
    story = exact.learning_order(VALUES, VARIANCE, START)
    inside = 0.5 * (story.plateau_starts[1] + story.plateau_ends[1])
    during = 0.5 * (story.starts[1] + story.ends[1])
    found = exact.next_plateau([0.0, inside, during, 1e6], story)
    np.testing.assert_array_equal(found.learned, [0, 1, 2, 3])
    np.testing.assert_allclose(found.start, story.plateau_starts)
    assert found.end[-1] == np.inf
    assert found.loss[-1] == 0
    np.testing.assert_allclose(found.loss[0], 0.5 * np.sum(VALUES**2))


def test_close_modes_share_a_transition():
    story = exact.learning_order([1.0, 0.98], 1.0, 1e-2)
    assert story.plateau_lengths[1] == 0
    assert story.separations[0] < 0
    assert exact.next_plateau(story.starts[1] + 1e-3, story).learned == 2


def test_a_mode_that_starts_above_its_end_has_a_transition_too():
    story = exact.learning_order([1.0, 1.0], 1.0, [5.0, 1e-3])
    np.testing.assert_array_equal(story.order, [0, 1])
    assert np.all(np.isfinite(story.ends))
    assert float(exact.deep_mode(story.ends[0], 1.0, 1.0, 5.0, 2)) == pytest.approx(1.4, rel=1e-10)


def test_bad_arguments_are_named():
    with pytest.raises(RangeError, match=r"singular_values .* it was -1 at position \(1,\)"):
        exact.learning_order([1.0, -1.0], 1.0, 1e-3)
    with pytest.raises(RangeError, match=r"initial_strengths .* it was 0"):
        exact.learning_order([1.0, 2.0], 1.0, 0.0)
    with pytest.raises(RangeError, match=r"begin and finish .* they were 0\.6 and 0\.9"):
        exact.learning_order([1.0, 2.0], 1.0, 1e-3, begin=0.6)
    with pytest.raises(RangeError, match=r"one axis, the modes; its shape was \(1, 2\)"):
        exact.learning_order([[1.0, 2.0]], 1.0, 1e-3)
    with pytest.raises(RangeError, match=r"times .* it was -1"):
        exact.next_plateau(-1.0, exact.learning_order([1.0], 1.0, 1e-3))
