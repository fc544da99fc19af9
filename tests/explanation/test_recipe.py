"""How long a network is trained that nobody has tuned."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import neuralrace as nr
from neuralrace.explanation.recipe import choose_recipe, linear_fit


def moons():
    points, side = make_moons(200, noise=0.1, random_state=0)
    points = (points - points.mean(axis=0)) / points.std(axis=0)
    return nr.ReLUNetwork(nr.Task({"x": np.column_stack([points, np.ones(200)])}, {"y": side[:, None] * 1.0}), 64)


def test_a_plateau_does_not_count_as_the_end():
    """Two moons rest at the loss of the linear fit from step 200 to about 2,500, and then fall to a quarter of it."""
    assert choose_recipe(moons(), None, None, None, key=0).steps >= 4000


def test_a_drop_beyond_the_steps_that_are_chosen_is_announced(monkeypatch):
    monkeypatch.setattr("neuralrace.explanation.recipe.MOST_STEPS", 1500)
    recipe = choose_recipe(moons(), None, None, None, key=0)
    assert recipe.steps <= 1500
    assert recipe.capped
    assert 1500 < recipe.drop / recipe.learning_rate < 3000


def test_the_linear_fit_is_that_of_least_squares():
    network = moons()
    rows = network.inputs
    rest = network.targets - rows @ np.linalg.solve(rows.T @ rows, rows.T @ network.targets)
    assert linear_fit(network) == pytest.approx(0.5 * np.mean(rest**2))
