"""The flow of routing networks from moments, against the gradient of the examples and scipy's integrator."""

import jax
import numpy as np
import pytest
from scipy.integrate import solve_ivp

from neuralrace import RoutedNetwork, initial
from neuralrace.errors import RangeError
from neuralrace.tasks import routed_images
from neuralrace.tasks.pairs import trained_pairs
from neuralrace.theory.exact import PairRace
from neuralrace.theory.routed import RoutedFlow, drawn_weights, wide_weights

MODE = ([[0.5]], [[0.5]], 0.5)  # Sigma_x, Sigma_yx and <y^2> of one mode that has to reach one


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_velocity_is_minus_the_gradient_of_the_examples(depth):
    random = np.random.default_rng(depth)
    pairs = trained_pairs("hubs", 3, 2, 0)
    rows, targets = random.normal(size=(7, 4)) @ random.normal(size=(4, 5)), random.normal(size=(7, 2))  # rank four
    flow = RoutedFlow(pairs, rows.T @ rows / 7, targets.T @ rows / 7, float(np.sum(targets**2) / 7))
    weights = {"encoders": random.normal(size=(3, 6, 5)), "decoders": random.normal(size=(3, 2, 6))}
    if depth > 2:
        weights["hidden"] = random.normal(size=(depth - 2, 6, 6))

    def by_hand(weights):
        errors = np.zeros(pairs.shape, dtype=object)
        for i, j in np.ndindex(pairs.shape):
            at = rows.T
            for matrix in (weights["encoders"][i], *weights.get("hidden", ()), weights["decoders"][j]):
                at = matrix @ at
            errors[i, j] = 0.5 * ((targets.T - at) ** 2).sum(axis=0).mean()
        return errors

    with jax.enable_x64(True):
        np.testing.assert_allclose(flow.errors(weights), by_hand(weights).astype(float), rtol=1e-10)
        slope = jax.jit(jax.grad(lambda w: sum(by_hand(w)[pairs]) / pairs.sum()))(weights)
        for name, found in jax.jit(lambda w: flow.velocity(w))(weights).items():
            np.testing.assert_allclose(found, -slope[name], rtol=1e-9, atol=1e-9)
    best = np.linalg.lstsq(rows, targets, rcond=None)[0]
    assert flow.unexplained == pytest.approx(0.5 * np.sum((rows @ best - targets) ** 2) / 7, rel=1e-9)


@pytest.fixture(scope="module")
def flow():
    """One mode, four domains, two outputs for each input."""
    return RoutedFlow(trained_pairs("neighbors", 4, 2), *MODE)


def test_the_flow_is_that_of_scipy(flow):
    weights = drawn_weights(initial.orthogonal(0.5), 4, (1, 8, 1), key=3)
    pairs, shapes = np.asarray(flow.pairs), [part.shape for part in weights.values()]
    ends = np.cumsum([0, *(part.size for part in weights.values())])

    def parts(state):
        return [state[a:b].reshape(shape) for a, b, shape in zip(ends, ends[1:], shapes, strict=False)]

    def move(_, state):
        encoders, (hidden,), decoders = parts(state)
        E, D = encoders[:, :, 0].T, decoders[:, 0]  # (8, 4), (4, 8)
        off = pairs.T * (0.5 - 0.5 * D @ hidden @ E) / pairs.sum()  # (output, input)
        return np.concatenate(
            [(hidden.T @ D.T @ off).T.ravel(), (D.T @ off @ E.T).ravel(), (off @ E.T @ hidden.T).ravel()]
        )

    times = np.array([0.0, 3.0, 10.0, 40.0])
    start = np.concatenate([part.ravel() for part in weights.values()])
    solved = solve_ivp(move, (0, 40), start, t_eval=times, rtol=1e-10, atol=1e-12)
    curve = flow.follow(weights, 40.0, rtol=1e-8)
    expected = [flow.errors(dict(zip(weights, parts(state), strict=True))) for state in solved.y.T]
    for kind, share in (("trained", pairs == 1), ("untrained", pairs == 0)):
        np.testing.assert_allclose(curve.at(times)[kind], [errors[share].mean() for errors in expected], rtol=1e-5)
    np.testing.assert_allclose(curve.last["hidden"][0], parts(solved.y[:, -1])[1][0], atol=1e-5)


def test_the_closed_form_agrees_with_the_wide_flow(flow):
    """The other modes of this graph have one rate, so the closed form is exact to the end."""
    pairs = np.asarray(flow.pairs) == 1
    for gain in (0.1, 0.4):
        last = flow.follow(wide_weights(4, gain), 1e5, rtol=1e-8).last
        closed = float(PairRace(pairs, gain, 1.0).untrained)
        assert closed == pytest.approx(4 * flow.errors(last)[~pairs].mean(), rel=1e-5)


def test_wide_weights_are_the_limit_of_orthogonal_ones():
    """The flow depends on inner products of encoders and decoders through the hidden matrix alone."""

    def inner(weights):
        sent = weights["hidden"][0] @ weights["encoders"][:, :, 0].T
        both = np.concatenate([sent, weights["decoders"][:, 0].T], axis=1)
        return both.T @ both

    width, gain = 300, 0.5
    limit = inner(wide_weights(3, gain))
    np.testing.assert_allclose(limit, np.diag([gain**4] * 3 + [gain**2] * 3), atol=1e-15)
    found = inner(drawn_weights(initial.orthogonal(gain), 3, (1, width, 1), key=0))
    assert np.abs(found - limit).max() < 5 * gain**2 / np.sqrt(width)  # an overlap has the deviation 1/sqrt(width)


def test_theory_never_draws_the_weights_of_a_training():
    rows = {"images": np.eye(2), "labels": [0, 1], "test_images": np.eye(2), "test_labels": [0, 1]}
    network = RoutedNetwork(routed_images(rows, 2, 1), 3, biases=False)
    drawn = drawn_weights(initial.gaussian(1.0), 2, (2, 3, 2), key=5)
    np.testing.assert_array_equal(drawn["hidden"], drawn_weights(initial.gaussian(1.0), 2, (2, 3, 2), key=5)["hidden"])
    for key in range(8):
        assert np.abs(initial.gaussian(1.0)(network, key)["h1->h2"] - drawn["hidden"][0]).max() > 1e-3


def test_mistakes_are_named(flow):
    with pytest.raises(RangeError, match="input_output must be a finite matrix of the shape"):
        RoutedFlow(np.eye(2), np.eye(3), np.ones((2, 2)), 1.0)
    with pytest.raises(RangeError, match="pairs must be booleans with at least one"):
        RoutedFlow(np.zeros((2, 2)), *MODE)
    with pytest.raises(RangeError, match="decoders must have the shape"):
        flow.errors(wide_weights(4, 0.1) | {"decoders": np.zeros((4, 2, 8))})
    with pytest.raises(RangeError, match="gain must be a finite number, above 0"):
        wide_weights(3, 0.0)
