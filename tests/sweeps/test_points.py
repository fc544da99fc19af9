"""A sweep is checked before anything starts."""

import numpy as np
import pytest

from neuralrace.errors import NeuralRaceError
from neuralrace.sweeps.points import make_sweep, shape_of

NAME = "saxe2022-fig3"


def test_points_are_the_product_and_read_as_their_settings_kind():
    sweep = make_sweep(NAME, {"std": "0.1,0.2", "hidden": [8, np.int64(16)]}, size="tiny", seeds=3)
    assert sweep.shape == (2, 2)
    values = [(p.settings.std, p.settings.hidden, p.settings.seeds, p.settings.steps) for p in sweep.points]
    assert values == [(0.1, 8, 3, 40), (0.1, 16, 3, 40), (0.2, 8, 3, 40), (0.2, 16, 3, 40)]
    assert [p.place for p in sweep.points] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len({p.key for p in sweep.points}) == 4
    assert sweep.points[0].key == make_sweep(NAME, {"std": [0.1], "hidden": [8]}, size="tiny", seeds=3).points[0].key


def test_a_list_is_one_value_of_a_setting_that_is_a_list():
    sweep = make_sweep("jarvis2025-fig2", {"margins": "0.1,0.2;0.3"}, size="tiny")
    assert sweep.axes == {"margins": ((0.1, 0.2), (0.3,))}


def test_points_that_differ_in_numbers_only_have_one_shape():
    points = make_sweep(NAME, {"std": [0.1, 0.2, 0.3], "hidden": [8, 16]}, size="tiny").points
    assert len({shape_of(point) for point in points}) == 2
    lists = make_sweep("jarvis2025-fig2", {"margins": "0.1,0.2;0.3,0.4;0.3"}, size="tiny").points
    assert len({shape_of(point) for point in lists}) == 2  # as many margins are one shape


@pytest.mark.parametrize(
    ("name", "settings", "more", "words"),
    [
        ("saxe2022-fig33", {"std": [1]}, {}, "did you mean 'saxe2022-fig3'"),
        (NAME, {}, {}, "a sweep needs at least one setting with its values; none was given"),
        (NAME, {"std": []}, {}, "setting 'std' needs at least one value"),
        (NAME, {"std": "0.1,"}, {}, "setting 'std' needs at least one value, and none may be empty"),
        (NAME, {"stdd": "0.1"}, {}, "there is no setting 'stdd'; did you mean 'std'"),
        (NAME, {"std": "0.1,small"}, {}, "setting 'std' must be a number, like 0.02; it was 'small'"),
        (NAME, {"hidden": [8.5]}, {}, "setting 'hidden' must be a whole number"),
        (NAME, {"learning_rate": "-1,1"}, {}, "setting 'learning_rate' must be a finite number, above 0; it was -1"),
        (NAME, {"learning_rate": "nan"}, {}, "setting 'learning_rate' must be a finite number, above 0; it was nan"),
        (NAME, {"std": "0.1,0.10"}, {}, "the values of setting 'std' must differ; 0.1 is there twice"),
        (NAME, {"std": "0.1"}, {"seeds": 0}, "seeds must be a whole number, at least 1; it was 0"),
        (NAME, {"seeds": "1,2"}, {"seeds": 1}, "seeds are given twice"),
        (NAME, {"hidden": [8, 2]}, {}, "setting 'hidden' must be a whole number, at least 4; it was 2"),
        ("views-law", {"apart": [()]}, {}, "setting 'apart' needs at least one value, like .0.5"),
        ("views-law", {"apart": [0.5]}, {}, "setting 'apart' must be a list, each a number, like .0.5"),
        ("saxe2022-fig4", {"trained": [2, 4]}, {}, "trained must be at most the number of domains, 3; it was 4"),
        ("saxe2022-fig8", {"domains": [2.5]}, {}, "setting 'domains' must be a whole number"),
        ("saxe2022-fig8", {"panels": "permuted;turned"}, {}, "turned"),
        ("jarvis2025-race", {"tables": "2x2;2y3"}, {}, "a table must be items x contexts, like 4x3; it was '2y3'"),
        ("views-law", {"depths": "2;2,3"}, {}, "times must be one for each of the depths, .2, 3.; they were .10.0,."),
        ("pairs", {"hubs": "2;7"}, {}, "trained must be at most the number of domains, 6; it was 7"),
        (NAME, {"std": "0.1"}, {"size": "huge"}, "size must be full or tiny; it was 'huge'"),
    ],
)
def test_mistakes(name, settings, more, words):
    with pytest.raises(NeuralRaceError, match=words):
        make_sweep(name, settings, **{"size": "tiny", **more})
