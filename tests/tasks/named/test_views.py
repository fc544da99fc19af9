"""The data of the race of views: exact moments, overlaps, and what is refused."""

import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.tasks.named.views import feature_vectors


def second_moment(task):
    rows = np.hstack([*task.inputs.values(), *task.targets.values()])
    return rows.T @ (task.weights[:, None] * rows)


def labelled(made):
    """Class and present views of every example, and their weights."""
    present = np.stack([made.groups[f"view{m}"] for m in range(made.settings["views"])], axis=1)
    return made.groups["class"], present, made.task.weights


def test_all_views_are_one_row_per_class():
    made = tasks.get("views", classes=4, views=2, sizes=(1.0, 0.5))
    labels, present, weights = labelled(made)
    assert len(made.task) == 4
    assert present.all()
    np.testing.assert_allclose(weights, 0.25)
    np.testing.assert_allclose(np.linalg.norm(made.task.inputs["x"], axis=1), np.sqrt(1.25))
    np.testing.assert_array_equal(made.task.targets["y"], np.eye(4)[labels])


def test_one_view_at_a_time():
    _, present, weights = labelled(tasks.get("views", presence="one", classes=2, views=3))
    np.testing.assert_array_equal(present.sum(axis=1), 1)
    np.testing.assert_allclose(weights, 1 / 6)


def test_chance_gives_every_set_its_probability():
    chances = np.array([0.9, 0.4, 1.0])
    labels, present, weights = labelled(tasks.get("views", presence="chance", probability=tuple(chances)))
    assert len(weights) == 3 * 4  # the third view is never missing
    np.testing.assert_allclose(weights @ present, chances)
    together = present.T @ (weights[:, None] * present)
    expected = np.outer(chances, chances)
    np.fill_diagonal(expected, chances)
    np.testing.assert_allclose(together, expected, atol=1e-15)
    np.testing.assert_allclose(np.bincount(labels, weights), 1 / 3)


@pytest.mark.parametrize("overlap", [-0.1, 0.0, 0.3])
def test_features_have_the_overlap_that_was_asked_for(overlap):
    flat = feature_vectors(3, 3, overlap).reshape(9, 9)
    np.testing.assert_allclose(flat @ flat.T, (1 - overlap) * np.eye(9) + overlap, atol=1e-14)


def test_noise_has_exact_first_and_second_moments():
    quiet = tasks.get("views", presence="chance", classes=2, views=2, overlap=0.2)
    noisy = tasks.get("views", presence="chance", classes=2, views=2, overlap=0.2, noise=0.3)
    expected = second_moment(quiet.task)
    expected[:4, :4] += 0.09 * np.eye(4)
    np.testing.assert_allclose(second_moment(noisy.task), expected, atol=1e-15)
    # and the mean within a set of present views, which is what a gate sees, is left alone
    first = [made.task.weights @ (made.groups["view0"][:, None] * made.task.inputs["x"]) for made in (quiet, noisy)]
    np.testing.assert_allclose(*first, atol=1e-15)


def test_a_pathway_reads_its_own_view_and_is_open_when_it_is_present():
    made = tasks.get("views", presence="chance", depth=3)
    problem = made.problem("views", hidden=2)
    assert problem.architecture.inputs == ("view0", "view1", "view2")
    assert {len(path.edges) for path in problem.architecture.paths()} == {3}
    np.testing.assert_array_equal(problem.gates.nodes["h1"], made.groups["view1"])
    for m in range(3):
        expected = np.eye(3)[made.groups["class"]] * made.groups[f"view{m}"][:, None]
        np.testing.assert_allclose(problem.task.inputs[f"view{m}"], expected, atol=1e-15)
    assert len(made.problem("linear", hidden=2).architecture.paths()) == 1


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"views": 1}, RangeError, "views must be a whole number, at least 2"),
        ({"probability": 1.2}, RangeError, "probability of view 0 must be .* at most 1; it was 1.2"),
        ({"probability": (0.5, 0.5)}, RangeError, "probability must be one number or one per view, 3; got 2"),
        ({"presence": "chance", "probability": 0.0}, RangeError, "above 0 for at least one view"),
        ({"overlap": 1.0}, RangeError, "overlap must lie between -0.125 and 1.*linearly dependent"),
        ({"noise": -1.0}, RangeError, "noise must be .* at least 0"),
        ({"presence": "som"}, UnknownNameError, "presence must be one of all, one, chance"),
        ({"presence": "chance", "views": 20}, RangeError, "take fewer views"),
    ],
)
def test_bad_settings_are_refused(settings, error, words):
    with pytest.raises(error, match=words):
        tasks.get("views", **settings)
