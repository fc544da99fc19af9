"""P3's predictions measured on ReLU networks that read all views at once, and what it assumes of their gates."""

import itertools
from dataclasses import replace
from functools import partial

import xarray

from neuralrace.analysis.intervals import Interval, interval
from neuralrace.papers.claims import Claim, Claims, enumerated
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.views._claims import judged
from neuralrace.papers.views._trainings import Settings, draw, measure

REASONS = {
    "early growth": "a hidden unit reads the sum of the views, so they grow together at sqrt(M) sigma",
    "growth at depth": "at depth 3 the rate depends on the strength reached",
    "prediction": "the views of a class end nearly even, and chance says which is ahead",
    "losers": "all views keep what they have gained",
    "coverage": "all views are learned, and a view alone is classified right",
    "ratio": "it comes to a halt near one",
    "deeper": "the shares are even at depth 2 and at depth 3",
    "cross-entropy race counts": "there is no winner to lose; the shares are even under both losses",
    "momentum": "the shares are even without it",
    "momentum counts": "the shares are even without it",
    "distillation, views apart": "hard targets keep all views already",
}


def claims(data: xarray.Dataset) -> list[Claim]:
    """Whether P3's assumptions are true of these networks, and its predictions, each with those assumptions."""
    moments = itertools.product(enumerate(("start", "end")), enumerate(data["depth"].values))
    cells = [(f"{moment}, L = {depth}", (i, j)) for (i, moment), (j, depth) in moments]
    apart, added = (
        {cell: interval(data[name].values[place].mean(axis=-1)) for cell, place in cells}
        for name in ("gates_apart", "gates_added")
    )
    claim = Claims()
    claim.finding(
        "P3 questions 1 and 5",
        "ReLU networks are gated networks of P3's kind: different views activate different neurons (A4), several views "
        "activate their union (A5).",
        "D",
    )
    claim.at_least("of the units that either of two views opens, the part that only one opens (A4),", apart, 0.5)
    claim.at_least("part of units open for all views together just where some view alone opens them (A5)", added, 0.9)
    claim.fails(
        "at the start units open for a view and not for the sum, and at the end the views of a class open the same "
        "units"
    )
    held = f"; A2 by construction, at the end A4 {enumerated(_last(apart))}, A5 {enumerated(_last(added))}"
    predicted = judged(data, REASONS, assumed=False)
    return [*claim, *(replace(one, note=one.note + held) for one in predicted)]


def _last(parts: dict[str, Interval]) -> list[Interval]:
    return list(parts.values())[len(parts) // 2 :]


EXPERIMENT = Experiment(
    name="views-relu",
    full=Settings(depths=(2, 3), hidden=32),
    tiny=Settings(depths=(3,), hidden=8, scale=0.5, steps=60, seeds=2),
    compute=partial(measure, "relu"),
    claims=claims,
    draw=draw,
    differs="P3 says that ReLU networks are gated ones. Its assumptions A4 and A5 are measured here; features are "
    "orthogonal (A2).",
    finding="In ReLU networks the views of a class share their units and grow together: all of them are "
    "learned, at either depth.",
)
