"""The figures with images: what they measure, their settings, and the driver of the paper's sizes."""

import json
from pathlib import Path

import images as driver
import numpy as np
import pytest
import xarray

from neuralrace.errors import FileFormatError, RangeError
from neuralrace.papers import get
from neuralrace.papers.experiment import override
from neuralrace.papers.saxe2022 import images

FIG7, FIG8, FIG10 = (get(f"saxe2022-fig{number}") for number in (7, 8, 10))
ROOT = Path(__file__).parents[2]


def panel(trained, untrained, gains=None, data="mnist"):
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
        {"kind": list(images.KINDS)},
    )
    return images.assemble({"a": {"data": data, "over": "gains" if gains else "pairs"}}, {"a": part})


@pytest.mark.parametrize(
    ("trained", "untrained", "first"),
    [
        ([0.1] * 4, [0.9, 0.5, 0.14, 0.1], 0.3),
        ([0.1] * 4, [0.9, 0.1, 0.5, 0.1], 0.4),  # once is not enough
        ([0.1] * 4, [0.9, 0.9, 0.9, 0.2], np.nan),
        ([0.9] * 3, [0.9] * 3, np.nan),  # never learned
    ],
)
def test_untrained_pairs_work_from_the_least_fraction(trained, untrained, first):
    assert images.first_fraction(panel(trained, untrained), "a") == pytest.approx(first, nan_ok=True)


def test_sentences_are_the_papers_on_its_data_only():
    for data, kind in (("mnist", "paper"), ("digits", "finding")):
        claims = list(FIG8.claims(panel([0.1] * 4, [0.9, 0.5, 0.3, 0.12], data=data)))
        assert {claim.kind for claim in claims} == {kind}
        assert all(claim.holds for claim in claims)


def test_gains_are_judged_where_trained_pairs_are_learned():
    """The smallest gain has not learned anything yet: that its pairs are equally bad says nothing."""
    measured = panel([0.9, 0.1, 0.1, 0.1], [0.9, 0.2, 0.3, 0.6], gains=[0.01, 0.1, 1.0, 10.0])
    small, good = FIG10.claims(measured)
    assert small.kind == "finding"  # the paper has K = 10
    assert next(iter(FIG10.claims(measured.assign(trained=0 * measured["trained"] + 10)))).kind == "paper"
    assert small.measured[0] == pytest.approx(0.1)
    assert not small.holds
    assert not good.holds
    assert all(claim.holds for claim in FIG10.claims(panel([0.1] * 2, [0.1, 0.5], gains=[0.1, 10.0])))


def test_panels_of_both_kinds_share_a_dataset():
    parts = {"a": panel([0.1] * 3, [0.5] * 3), "b": panel([0.1] * 2, [0.4, 0.2], gains=[1.0, 0.1])}
    scans = {"a": {"data": "mnist", "over": "pairs"}, "b": {"data": "mnist", "over": "gains"}}
    both = images.assemble(scans, {name: part.isel(panel=0, drop=True) for name, part in parts.items()})
    places, ends = images.curve(both, "b")
    np.testing.assert_array_equal(places, [0.1, 1.0])  # without the NaN where the other panel has more
    np.testing.assert_allclose(ends.mean("seed"), [[0.1, 0.2], [0.1, 0.4]])
    assert len(list(FIG7.claims(both))) == 5


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"data": "mnist", "folder": "nowhere"}, FileFormatError, "the folder nowhere must hold"),
        ({"fractions": "0.5,1.5"}, RangeError, "trained must be at most the number of domains, 10; it was 15"),
        ({"panels": "rotated-ten"}, RangeError, "a panel must be named like permuted-40; it was 'rotated-ten'"),
    ],
)
def test_bad_settings_are_refused(changes, error, says):
    with pytest.raises(error, match=says):
        FIG8.check(override(FIG8.full, changes))


def test_recorded_verdicts_are_those_of_the_recorded_datasets():
    """Every panel of the paper's sizes is there under the name that its present settings give it."""
    judged = 0
    for record in json.loads((ROOT / "docs/records/larger.json").read_text(encoding="utf-8")):
        if record["name"] not in driver.FIGURES:
            continue
        experiment = get(record["name"])
        settings = override(experiment.full, record["settings"])
        data = driver.dataset(ROOT / "docs/records/images", experiment, settings, "", dry=True)
        for claim, told in zip(experiment.claims(data), record["claims"], strict=True):
            assert (claim.text, claim.holds) == (told["text"], told["holds"])
        judged += 1
    assert judged >= 6
