"""The tables of an explanation, in words, for the text and the page alike."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from neuralrace.analysis import Agreement, Line
from neuralrace.explanation.foretold import ALIKE, Foretold, Match
from neuralrace.explanation.measures import Module, Selectivity
from neuralrace.explanation.scores import Measure, Score
from neuralrace.explanation.trained import ALONG, along_gradient
from neuralrace.explanation.verdicts import beside, moment, so_many
from neuralrace.reln import Ranking
from neuralrace.reln.modular import MOST_MODULES
from neuralrace.reln.pricing import NEAR_L1, NEAR_LOG, Priced, distance_learned, near
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

DISTANCES = (
    "Normalized L1 is the area between two loss curves over the area between the trained one and the lowest loss that "
    "it reaches; the log10 gap is the mean distance of their logarithms."
)


class Section(NamedTuple):
    """One table with its title and what is to be said of it."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def of_warnings(warnings: Sequence[str], notes: Sequence[str]) -> Section:
    """What to mind, and what was done to the data."""
    told = [(text,) for text in warnings] + [(f"of the data: {text}",) for text in notes]
    return Section("Mind", "", ("",), tuple(told))


def of_forecast(foreseen: Agreement | None, forecast: Forecast | None, run: Trajectory, before: bool) -> Section:
    """How near the forecast came, beside how near networks are to each other; before: whether it was made first."""
    head = ("what is compared", "normalized L1", "log10 gap", "largest gap over the fall")
    if foreseen is None or forecast is None:
        why = (
            "the networks did not go down the gradient of the squared error, which is what forecasts follow."
            if along_gradient(run) < ALONG
            else "the law of the first weights is not known; give initial=..."
        )
        return Section("The forecast and training", f"Nothing was foreseen: {why}", head, ())
    rows = [("forecast, from the mean network", *_numbers(foreseen))]
    if len(run.loss) > 1:
        others = [np.delete(run.loss, seed, axis=0) for seed in range(len(run.loss))]
        apart = [
            distance_learned(Line(run.time, one), Line(run.time, rest))
            for one, rest in zip(run.loss, others, strict=True)
        ]
        far = max(apart, key=lambda one: one.normalized_l1)
        rows.append(("the network farthest from the others", *_numbers(far)))
    held = "It held" if near(foreseen) else "It did not hold"
    note = (
        f"Made {'before any' if before else 'without a look at the'} training, by {forecast.method}, from the law of "
        f"the first weights and the examples alone. {held}: at most {NEAR_L1} and {NEAR_LOG} are asked. {DISTANCES}"
    )
    return Section("The forecast and training", note, head, tuple(rows))


def of_modules(modules: Sequence[Module]) -> Section:
    """What each module is, does and sees."""
    timed = any(not math.isnan(module.learned) for module in modules)
    head = ("module", "neurons", "consistency", "on for", "writes", "singular values of its data")
    rows = tuple(
        (
            module.name,
            f"{module.neurons:.0f}" if module.neurons >= 1 else f"{module.neurons:.1g}",  # the mean over networks
            f"{module.consistency:.2f}",
            module.responds,
            module.writes,
            ", ".join(f"{value:.3g}" for value in module.singular_values),
            *((moment(module.learned),) if timed else ()),
        )
        for module in modules
    )
    note = "" if modules else "No neuron is on for anything: there are no modules."
    return Section("Modules", note, (*head, "half grown at") if timed else head, rows)


def of_foretold(foretold: Foretold, matches: Sequence[Match], before: bool) -> Section:
    """Which modules were foreseen, and as what they were found."""
    layered = len({one.layer for one in matches}) > 1

    def name(kind: str, one: Match, place: int | None) -> str:
        return "" if place is None else f"{one.layer}_{kind}{place}" if layered else f"{kind}{place}"

    rows = tuple(
        (
            name("f", one, one.foreseen) or "not foreseen",
            one.responds,
            name("m", one, one.found) or "not found",
            f"{one.alike:.1%}" if one.found is not None and one.foreseen is not None else "",
            " and ".join(f"{share:.0%}" for share in one.share),
            "yes" if one.same else "no",
        )
        for one in matches
    )
    fewest = foretold.chosen
    number = (
        "as many as were found"
        if fewest is None
        else f"the fewest that explain them, {fewest.modules} in {so_many(fewest.stretches, 'stretch')}"
    )
    note = (
        f"{'Before any' if before else 'Without a look at the'} training the neurons of the forecast were put into "
        f"modules by the same rule: {number}. Foreseen and found are the same module if both are on or both are off "
        f"for at least {ALIKE:.0%} of the examples."
    )
    return Section("Modules foreseen", note, ("foreseen", "on for", "found as", "alike", "carry", "the same"), rows)


def of_worth(scores: Sequence[Score], measure: Measure) -> tuple[Section, ...]:
    """Loss and score of the networks, and with each module taken out; the loss of each class in a table of its own."""
    accuracy = measure.kind == "accuracy"
    title = _title(measure)
    names = [f"without {score.module}" if score.module else "as trained" for score in scores]
    note = "The trained networks with the neurons of one module taken out, and nothing learned again."
    by_class = f" {title.capitalize()} of all, then of each class or group." if measure.names else ""
    rows = tuple(
        (name, f"{score.loss:.4g}", *(_part(value, accuracy) for value in (score.score, *score.by_class)))
        for name, score in zip(names, scores, strict=True)
    )
    whole = Section("What modules are worth", note + by_class, ("networks", "loss", title, *measure.names), rows)
    if not measure.names:
        return (whole,)
    losses = tuple(
        (name, *(f"{value:.3g}" for value in score.loss_by_class)) for name, score in zip(names, scores, strict=True)
    )
    return whole, Section("Loss of each class or group", "", ("networks", *measure.names), losses)


def of_prices(rows: Sequence[Priced], chosen: Priced, layers: int, measure: Measure) -> Section:
    """How near reconstructions come with fewer and with more; layers: hidden ones."""
    told = tuple(
        (
            f"{row.modules}",
            f"{row.stretches}",
            beside(row.agreement.normalized_l1, NEAR_L1),
            beside(row.agreement.log10_gap, NEAR_LOG),
            _part(row.score, measure.kind == "accuracy"),
            "yes, chosen" if row.meets and row is chosen else "yes" if row.meets else "no",
        )
        for row in rows
    )
    note = (
        "The networks played again from their own first weights with gates that are imposed, constant over each "
        "stretch of time and shared by all neurons of a module."
        if layers == 1
        else f"The gated network with so many modules in each layer (up to {MOST_MODULES} unless a number is given), "
        "solved from the law of the first weights. With several hidden layers gates never change here: stretches are "
        "tried with one hidden layer only (reln.rebuild plays them)."
    )
    note += " Gates come from the run, so these are reconstructions and no forecasts."
    head = ("modules", "stretches", "normalized L1", "log10 gap", _title(measure), "explains")
    return Section("What fidelity costs", note, head, told)


def of_race(race: Ranking, entered: Sequence[str]) -> Section:
    """Candidate gatings in the order of their finish."""
    rows = tuple(
        (r.name, "yes" if r.name in entered else "", moment(r.time), f"{r.rate:.4g}", f"{r.final:.3g}")
        for r in race.runners
    )
    if not math.isfinite(race.runners[0].time):
        ending = "Nobody finished, so nobody won; the lowest last loss comes first."
    else:
        same = "the gating that was found" if race.winner in entered else "not the gating that was found"
        ending = f"The race is won by: {race.winner}, {same}."
    head = ("gating", "found", f"time to loss {race.criterion:.3g}", "first rate", "final loss")
    return Section("The race of gatings", f"No network is trained for this. {ending}", head, rows)


def of_selectivity(one: Selectivity) -> Section:
    """How many groups neurons of a layer are active in."""
    head = ("groups in which a neuron is active", *(str(count) for count in range(len(one.share))))
    kinds = (("neurons", one.share), ("counted by strength", one.share_of_strength), ("before training", one.before))
    rows = tuple((kind, *(f"{share:.1%}" for share in shares)) for kind, shares in kinds)
    return Section(f"Selectivity of {one.layer}", "", head, rows)


def _numbers(apart: Agreement) -> tuple[str, str, str]:
    return beside(apart.normalized_l1, NEAR_L1), beside(apart.log10_gap, NEAR_LOG), f"{apart.max_gap:.3f}"


def _title(measure: Measure) -> str:
    return "accuracy" if measure.kind == "accuracy" else "R\u00b2"


def _part(value: float, accuracy: bool) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:.1%}" if accuracy else f"{value:.3f}"
