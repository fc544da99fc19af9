"""P3's predictions measured on ReLU networks that read all views at once."""

import xarray

from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.figures.views_gated import Settings, draw, plan, recorded_claims
from neuralrace.views.campaign import run_campaign

RECORD = {
    "early growth": "refuted: a hidden unit reads the sum of the views, so they grow together at sqrt(M) sigma",
    "growth at depth": "refuted: at depth 3 the rate depends on the strength reached",
    "prediction": "refuted: the views of a class end nearly even, and chance says which is ahead",
    "losers": "refuted: all views keep what they have gained",
    "coverage": "refuted: all views are learned, and a view alone is classified right",
    "ratio": "refuted: it comes to a halt near one",
    "deeper": "refuted: the shares are even at depth 2 and at depth 3",
    "cross-entropy race": "refuted: there is no winner to lose; the shares are even under both losses",
    "momentum": "refuted: the shares are even without it",
    "distillation, views apart": "refuted: hard targets keep all views already",
}


def compute(settings: Settings) -> xarray.Dataset:
    """Train the ReLU networks of the campaign."""
    return run_campaign(plan("relu", settings))


def claims(data: xarray.Dataset) -> list[Claim]:
    """P3's claims for ReLU networks."""
    return recorded_claims(data, RECORD)


EXPERIMENT = Experiment(
    name="views-relu",
    title="The race of views: every prediction measured on ReLU networks",
    source="P3",
    full=Settings(depths=(2, 3), hidden=32),
    tiny=Settings(depths=(3,), hidden=8, scale=0.5, steps=60, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
