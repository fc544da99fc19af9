import numpy as np
import pytest

from neuralrace.errors import RangeError
from neuralrace.theory.exact import Mode

# S, D, B1(0), B2(0), M, P: equal and unequal layers, C of both signs and zero, start above the end
CASES = [
    (3.0, 1.0, 1e-12, 1e-12, 7, 49),
    (3.0, 0.25, 0.08, 0.08, 7, 49),
    (3.0, 0.25, 0.2, 0.2, 10, 4),
    (2.0, 1.0, 1e-6, 0.5, 3, 9),
    (2.0, 1.0, 0.5, 1e-6, 3, 9),
    (2.0, 1.0, 0.5, 0.5 * np.sqrt(3), 3, 9),
    (1.0, 1.0, 2.0, 2.0, 4, 16),
    (1.0, 1.0, 0.1, 3.0, 4, 1),
]
S, D, OUTER, HIDDEN, DOMAINS, PATHS = np.array(CASES).T
ALL = Mode.routing(S, D, OUTER, HIDDEN, DOMAINS, PATHS)
INVARIANT = np.sqrt(PATHS) * OUTER**2 - HIDDEN**2  # C


@pytest.mark.parametrize("i", range(1, len(CASES)))  # the transition of the first has length 1 after a plateau of 1e12
def test_layers_solve_eqs_16_and_17(i, integrate):
    """Near a steep transition a time error counts by the rate times the time."""
    s, d, outer, hidden, domains, paths = CASES[i]
    mode = Mode.routing(*CASES[i])
    times = mode.time(0.5 * (hidden * outer**2 + s / d)) * np.array([0.0, 0.01, 0.9, 1.0, 1.1, 1.5, 4.0])

    def field(_, y):  # of log B1 and log B2
        outer, hidden = np.exp(np.minimum(y, 20.0))
        error = s - hidden * outer**2 * d
        return np.sqrt(paths) / domains**2 * hidden * error, paths / domains**2 * outer**2 / hidden * error

    states = integrate(field, np.log([outer, hidden]), times)
    rates = np.array([field(0, y) for y in states])
    error = np.abs(np.log(np.transpose(mode.layers(times))) - states) / (1 + np.abs(rates) * times[:, None])
    assert np.max(error) < 1e-9
    assert mode.time(mode.strength(times[1:4])) == pytest.approx(times[1:4], rel=1e-10)


def test_full_sharing_is_eq_15_and_needs_no_number_of_paths():
    times = np.array([0.0, 3.0, 10.0, 3.0 + 1e-5, 3.0 - 1e-5])
    found = Mode.routing(3.0, 1.0, 0.1, 0.2, 7).layers(times)
    np.testing.assert_allclose(found, Mode.routing(3.0, 1.0, 0.1, 0.2, 7, 49).layers(times), rtol=1e-14)
    hidden = found[1]
    c, b = 7 * 0.1**2 - 0.2**2, hidden[1]
    rate = (b**2 + c) / 7 * (3.0 - b * (b**2 + c) / 7)  # P1 eq. 15
    assert (hidden[3] - hidden[4]) / 2e-5 == pytest.approx(rate, rel=1e-8)
    # the invariant may vanish, where arc tangent and logarithm meet
    near, there = (Mode.routing(3.0, 0.8, 0.2, b * np.sqrt(7), 7).strength(4.0) for b in (0.2 + 1e-9, 0.2))
    assert near == pytest.approx(float(there), rel=1e-7)


def test_invariant_stays():
    outer, hidden = ALL.layers(np.array([0.0, 5.0, 50.0, 1e4])[:, None])
    kept = np.sqrt(PATHS) * outer**2 - hidden**2
    np.testing.assert_allclose(kept, np.broadcast_to(INVARIANT, kept.shape), atol=1e-14 * 20)
    outer, hidden = ALL.final
    np.testing.assert_allclose(hidden * outer**2, S / D, rtol=1e-14)
    np.testing.assert_allclose(np.sqrt(PATHS) * outer**2 - hidden**2, INVARIANT, atol=1e-13)


def test_ratio_of_layers_is_a_limit_with_a_correction():
    """P1 eqs 51 and 56 give sqrt(M) and P^(1/4); at finite strength the ratio is sqrt(sqrt(P) - C/B1^2)."""
    outer, hidden = ALL.final
    np.testing.assert_allclose(hidden / outer, np.sqrt(np.sqrt(PATHS) - INVARIANT / outer**2), rtol=1e-12)
    # P1 Fig. 4: M = 7 from 0.08 the ratio of the largest mode is close to sqrt(7), not equal to it
    outer, hidden = Mode.routing(np.sqrt(185) / 4, 1 / 4, 0.08, 0.08, 7).final
    assert -3e-3 < float(hidden / outer) - np.sqrt(7) < -1e-3
    for strength in (1e-2, 1e-4):  # the correction is of second order in the strength
        outer, hidden = Mode.routing(1.0, 1.0, strength, strength, 9, 16).final
        assert abs(float(hidden / outer) - 16**0.25) < 2 * strength**2


def test_loss_is_accurate_in_its_tail_and_nothing_overflows():
    route = Mode.routing(3.0, 1.0, 0.1, 0.1, 4)
    loss, (outer, hidden) = route.loss([30.0, 31.0]), route.final
    rate = 2 * hidden**2 * outer**2 / 4 + outer**4  # kernel of the product at the end
    assert np.log(loss[0] / loss[1]) == pytest.approx(2 * rate, rel=1e-9)
    assert loss[0] < 1e-60
    np.testing.assert_allclose(ALL.layers(1e6)[1][1:], ALL.final[1][1:], rtol=1e-14)
    np.testing.assert_array_equal(route.time([1e-4, 3.0, 99.0]), [0.0, np.inf, np.inf])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((1.0, 1.0, 0.0, 0.1, 4), "outer must be finite and above 0; it was 0.*never learns"),
        ((1.0, 1.0, 0.1, -0.1, 4), "hidden must be finite and above 0"),
        ((-2.0, 1.0, 0.1, 0.1, 4), "singular_value .* it was -2"),
        ((1.0, 1.0, 0.1, 0.1, 2, 5), "paths .*at most 1; it was 1.25.*routes"),
    ],
)
def test_bad_numbers_are_named(arguments, words):
    with pytest.raises(RangeError, match=words):
        Mode.routing(*arguments)
