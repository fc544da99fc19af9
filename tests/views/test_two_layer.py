"""The exact end of random two-layer pathways."""

import numpy as np
from scipy.integrate import solve_ivp

from neuralrace import views


def test_two_layer_end_is_where_the_flow_ends():
    random = np.random.default_rng(2)
    first, last = 1e-4 * random.standard_normal((2, 3, 4, 3))
    last = last.swapaxes(-1, -2)

    def field(_, flat):
        W1, W2 = flat[:36].reshape(3, 4, 3), flat[36:].reshape(3, 3, 4)
        error = (np.eye(3) - (W2 @ W1).sum(axis=0)) / 3
        return np.concatenate([(W2.swapaxes(-1, -2) @ error).ravel(), (error @ W1.swapaxes(-1, -2)).ravel()])

    start = np.concatenate([first.ravel(), last.ravel()])
    final = solve_ivp(field, (0, 200), start, "LSODA", [200.0], rtol=1e-10, atol=1e-13).y[:, 0]
    maps = final[36:].reshape(3, 3, 4) @ final[:36].reshape(3, 4, 3)
    # what the decaying half of the weights leaves is of the order of their square over the growth, 1e-6
    np.testing.assert_allclose(views.two_layer_end(first, last), maps, atol=1e-5)


def test_answers_to_lone_views_are_contrasts():
    maps = np.random.default_rng(5).standard_normal((2, 4, 3, 3))  # two networks, four views, three classes
    found = views.lone_responses(maps)
    assert found.shape == (2, 3, 4)
    # class 1 shown by view 2: its own output less the mean of outputs 0 and 2
    np.testing.assert_allclose(found[1, 1, 2], maps[1, 2, 1, 1] - maps[1, 2, [0, 2], 1].mean(), rtol=1e-12)
