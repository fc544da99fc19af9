"""What the figures with images measure with, and that settings which cannot be are refused before anything trains."""

import numpy as np
import pytest
import xarray

from neuralrace.errors import FileFormatError, RangeError, UnknownNameError
from neuralrace.papers import get
from neuralrace.papers.saxe2022 import _routed, _routed_figure
from neuralrace.papers.settings import override

FIG7, FIG8, FIG10 = (get(f"saxe2022-fig{number}") for number in (7, 8, 10))


def scans(experiment, changes):
    return experiment.compute.__self__.scans(override(experiment.full, changes))


def errors(trained, untrained, gains=None, data="mnist"):
    """A panel of ten domains with given errors at the end, three seeds that agree; K = 1, 2, ... unless gains vary."""
    count = len(trained)
    ends = np.stack([trained, untrained], axis=1)[:, :, None, None] * np.ones((1, 1, 3, 1))
    part = xarray.Dataset(
        {
            "error": (("condition", "kind", "seed", "moment"), np.concatenate([0 * ends + 0.9, ends], axis=-1)),
            "trained": ("condition", np.arange(1, count + 1) if gains is None else np.full(count, 4)),
            "gain": ("condition", np.full(count, 0.1) if gains is None else np.array(gains)),
            "domains": ((), 10),
        },
        {"kind": list(_routed.KINDS)},
    )
    return _routed_figure.all_panels({"permuted-10": scan(data, gains)}, {"permuted-10": part})


def scan(data, gains):
    conditions = ((1, 0.1), (2, 0.1)) if gains is None else tuple((4, gain) for gain in gains)
    return _routed.Scan(data, "", "permuted", 10, conditions, 1.0, 4, 4, 0.1, 10, 3, "circulant", 270.0)


@pytest.mark.parametrize(
    ("untrained", "from_on"),
    [
        ([0.9, 0.5, 0.14, 0.1], 0.3),
        ([0.9, 0.1, 0.5, 0.1], 0.4),  # once is not enough
        ([0.9, 0.9, 0.9, 0.2], np.nan),
    ],
)
def test_untrained_pairs_work_from_the_least_part_on(untrained, from_on):
    found = _routed_figure.first_fraction(errors([0.1] * 4, untrained), "permuted-10")
    assert found == pytest.approx(from_on, nan_ok=True)


def test_pairs_that_were_never_learned_do_not_work():
    assert np.isnan(_routed_figure.first_fraction(errors([0.9] * 3, [0.9] * 3), "permuted-10"))


def test_sentences_are_the_papers_on_its_data_only():
    for data, kind in (("mnist", "paper"), ("digits", "finding")):
        measured = errors([0.1, 0.1, 0.1, 0.1], [0.9, 0.5, 0.3, 0.12], data=data)
        assert {claim.kind for claim in FIG8.claims(measured)} == {kind}
        assert all(claim.holds for claim in FIG8.claims(measured))


def test_gains_are_judged_where_trained_pairs_are_learned():
    """The smallest gain has not learned anything yet: that its pairs are equally bad says nothing."""
    measured = errors([0.9, 0.1, 0.1, 0.1], [0.9, 0.2, 0.3, 0.6], gains=[0.01, 0.1, 1.0, 10.0])
    small, good = FIG10.claims(measured)
    assert small.kind == "finding"  # the paper has K = 10
    assert next(iter(FIG10.claims(measured.assign(trained=0 * measured["trained"] + 10)))).kind == "paper"
    assert not small.holds
    assert "0.1" in small.shown
    assert not good.holds
    assert all(claim.holds for claim in FIG10.claims(errors([0.1] * 2, [0.1, 0.5], gains=[0.1, 10.0])))


def test_panels_of_both_kinds_stand_in_one_dataset():
    pairs, gains = errors([0.1] * 3, [0.5] * 3), errors([0.1] * 2, [0.4, 0.2], gains=[1.0, 0.1])
    parts = {"a": pairs.isel(panel=0, drop=True), "b": gains.isel(panel=0, drop=True)}
    both = _routed_figure.all_panels({"a": scan("mnist", None), "b": scan("mnist", [1.0, 0.1])}, parts)
    assert (_routed_figure.over(both, "pairs"), _routed_figure.over(both, "gains")) == (["a"], ["b"])
    places, ends = _routed_figure.curve(both, "b")
    np.testing.assert_array_equal(places, [0.1, 1.0])  # and not the NaN where the other panel has more
    np.testing.assert_allclose(ends.mean("seed"), [[0.1, 0.2], [0.1, 0.4]])
    assert len(list(FIG7.claims(both))) == 5


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"data": "minst"}, UnknownNameError, "did you mean 'mnist'"),
        ({"data": "mnist", "folder": "nowhere"}, FileFormatError, "there is no folder nowhere"),
        ({"domains": "1"}, RangeError, "domains must be a whole number, at least 2; it was 1"),
        ({"domains": "many"}, RangeError, "'domains' must be a whole number; it was 'many'"),
        ({"domains": "2.5"}, RangeError, "'domains' must be a whole number; it was '2.5'"),
        ({"seeds": "0"}, RangeError, "'seeds' must be a whole number, at least 1; it was 0"),
        ({"fractions": "0.5,1.5"}, RangeError, "trained must be at most the number of domains, 10; it was 15"),
        ({"panels": "rotatd-10"}, UnknownNameError, "did you mean 'rotated'"),
        ({"panels": "rotated-ten"}, RangeError, "a panel must be named like permuted-40; it was 'rotated-ten'"),
        ({"pairs": "circular"}, UnknownNameError, "circular"),
        ({"rate": "-1"}, RangeError, "'rate' must be a finite number, above 0; it was -1"),
        ({"color": "red"}, UnknownNameError, "there is no setting 'color'"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, error, says):
    with pytest.raises(error, match=says):
        FIG8.check(override(FIG8.full, changes))


def test_gains_and_numbers_of_pairs_are_checked():
    for changes, says in (
        ({"trained": "11"}, "at most the number of domains, 10; it was 11"),
        ({"gains": "0"}, "gains"),
    ):
        with pytest.raises(RangeError, match=says):
            FIG10.check(override(FIG10.full, changes))


def test_the_papers_sizes_follow_from_the_data():
    asked = scans(FIG8, {"data": "mnist"})
    assert {name: (one.domains, one.hidden, one.seeds) for name, one in asked.items()} == {
        "permuted-100": (100, 128, 10),
        "permuted-40": (40, 128, 10),
        "rotated-40": (40, 128, 10),
    }
    for one in asked.values():
        assert one.steps * one.rate / (1 - _routed.MOMENTUM) >= _routed.PAPER_TIME
    assert {scale for one in scans(FIG10, {"data": "mnist"}).values() for scale, _ in one.conditions} == {10}
