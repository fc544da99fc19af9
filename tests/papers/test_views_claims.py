"""The verdicts on made-up trainings: they must be able to come out either way."""

import numpy as np
import pytest
import xarray

from neuralrace.papers.views._claims import SAYS, judged, log_ratio

DEPTHS, SEEDS, LOOKS = (2, 3), 6, 1200
TIME = np.linspace(0.0, 400.0, LOOKS)
NAMES = ["growth L2", "unequal L2", "fine descent L3", "fine momentum L3"]
NAMES += [
    f"{kind} L{depth}"
    for depth in DEPTHS
    for kind in (
        "flow",
        "descent",
        "momentum",
        "entropy",
        "standard",
        "compete",
        "standard, all views",
        "student",
        "student, all views",
    )
]
EVEN = ("momentum", "entropy", "student")


def made_up(obeys):
    """Trainings in which every claim of P3 is true, or in which three views share alike from the start."""
    random = np.random.default_rng(0)
    first = random.integers(3, size=(SEEDS, 3))  # the winner of each class
    curves = np.zeros((len(NAMES), SEEDS, LOOKS, 3, 3))
    for number, name in enumerate(NAMES):
        depth = int(name[-1])
        # exponential growth of the layer amplitude at rate sigma = 1/3 up to one
        total = np.minimum(1e-4 * np.exp(depth * TIME / 3), 1.0)
        if "entropy" in name:
            total = total * np.log1p(np.maximum(TIME, 1e-9))
        wins = obeys and not any(word in name for word in EVEN) and "standard" not in name
        lost = np.exp(-TIME / 30) / 3 * (1 if depth == 2 else 0.9) if wins else np.full(LOOKS, 1 / 3)
        for seed, cls in np.ndindex(SEEDS, 3):
            for view in range(3):
                part = 1 - 2 * lost if view == first[seed, cls] else lost
                curves[number, seed, :, cls, view] = total * (part + (1e-3 if view == first[seed, cls] else 0))
    names = ("training", "seed", "look", "class", "view")
    data = xarray.Dataset(
        {"responses": (names, curves), "strengths": (names, curves)},
        coords={"training": NAMES, "depth": list(DEPTHS)},
    )
    data["time"] = (("training", "look"), np.tile(TIME, (len(NAMES), 1)))
    right = np.zeros((len(NAMES), SEEDS, 3, 3, 3))
    right[..., np.arange(3), :, np.arange(3)] = 1.0
    data["lone_outputs"] = (("training", "seed", "class", "view", "output"), right)
    data.attrs["network"] = "gated"
    return data


@pytest.fixture(scope="module")
def verdicts():
    return {obeys: dict(zip(SAYS, judged(made_up(obeys), {}), strict=True)) for obeys in (True, False)}


@pytest.mark.parametrize(
    "name",
    [
        "early growth",
        "growth at depth",
        "prediction",
        "losers",
        "coverage",
        "winners",
        "ratio",
        "cross-entropy",
        "cross-entropy race",
        "cross-entropy race counts",
        "momentum",
        "momentum counts",
        "cross-entropy at depth",
        "distillation",
    ],
)
def test_what_p3_says_would_be_confirmed(verdicts, name):
    found = verdicts[True][name]
    assert found.holds, found.measured


@pytest.mark.parametrize(
    "name",
    ["losers", "coverage", "ratio", "deeper", "cross-entropy race counts", "momentum counts", "competition loss"],
)
def test_even_views_refute_it(verdicts, name):
    found = verdicts[False][name]
    assert not found.holds, found.measured


def test_momentum_is_judged_where_shares_can_change():
    """At depth two shares are conserved, so that momentum cannot even them there; that is a claim of its own."""
    data = made_up(True)
    data["responses"].loc[{"training": "momentum L2"}] = data["responses"].sel(training="descent L2").values
    found = dict(zip(SAYS, judged(data, {}), strict=True))
    assert found["momentum"].holds
    assert found["momentum at depth two"].holds
    assert "L = 2" not in found["momentum"].shown


def test_every_prediction_is_judged_with_its_kind_and_reason():
    data = made_up(False)
    claims = judged(data, {"losers": "they stay"})
    assert [claim.text for claim in claims] == [text for text, *_ in SAYS.values()]
    kept = claims[list(SAYS).index("losers")]
    assert (kept.kind, kept.fails, kept.as_recorded) == ("paper", "they stay", True)
    assert kept.note.endswith(f"{SEEDS} seeds")
    elsewhere = judged(data, {"losers": "they stay"}, assumed=False)[list(SAYS).index("losers")]
    assert (elsewhere.kind, elsewhere.fails) == ("finding", "they stay")


def test_log_ratio_falls_at_the_rate_of_the_losers():
    data = made_up(True)
    late = log_ratio(data["strengths"].sel(training="flow L2").values)[:, -100:]
    np.testing.assert_allclose(np.diff(late, axis=1), -(TIME[1] - TIME[0]) / 30, rtol=1e-3)


def test_seeds_that_diverge_are_counted_and_left_out():
    data = made_up(True)
    data["responses"].loc[{"training": "compete L2", "seed": 0}] = np.nan
    found = judged(data, {})[list(SAYS).index("competition loss")]
    assert "1 diverged" in found.note
    assert found.holds
