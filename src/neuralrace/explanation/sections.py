"""The tables of an explanation, in words, for the text and the page alike."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from neuralrace.analysis import Agreement
from neuralrace.explanation.measures import Held, Module, Selectivity
from neuralrace.reln import Race


class Section(NamedTuple):
    """One table with its title and what is to be said of it."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def of_modules(modules: Sequence[Module]) -> Section:
    """What each module is, does and sees."""
    head = ("module", "neurons", "consistency", "on for", "writes", "singular values of its data", "learned at")
    rows = tuple(
        (
            module.name,
            f"{module.neurons:.0f}",
            f"{module.consistency:.2f}",
            module.responds,
            module.writes,
            ", ".join(f"{value:.3g}" for value in module.singular_values),
            _moment(module.learned),
        )
        for module in modules
    )
    return Section("Modules", "", head, rows)


def of_agreements(agreements: Mapping[str, Agreement]) -> Section:
    """How near each reconstruction comes."""
    rows = tuple(
        (name, f"{apart.normalised_l1:.3f}", f"{apart.log10_gap:.3f}", f"{apart.max_gap:.3f}")
        for name, apart in agreements.items()
    )
    note = "Reconstructions take modules and widths from the run; they describe it and are no forecasts."
    head = ("reconstruction", "normalised L1", "log10 gap", "largest gap over first loss")
    return Section("Agreement with training", note, head, rows)


def of_race(race: Race, entered: Sequence[str]) -> Section:
    """Candidate gatings in the order of their finish."""
    rows = tuple(
        (r.name, "yes" if r.name in entered else "", _moment(r.time), f"{r.rate:.4g}", f"{r.final:.3g}")
        for r in race.runners
    )
    same = "the gating that was found" if race.winner in entered else "not the gating that was found"
    note = f"No network is trained for this. The race is won by: {race.winner}, {same}."
    head = ("gating", "found", f"time to loss {race.criterion:.3g}", "first rate", "final loss")
    return Section("The race of gatings", note, head, rows)


def of_selectivity(one: Selectivity) -> Section:
    """How many groups neurons of a layer are active in."""
    head = ("groups in which a neuron is active", *(str(count) for count in range(len(one.share))))
    kinds = (("neurons", one.share), ("counted by strength", one.share_of_strength), ("before training", one.before))
    rows = tuple((kind, *(f"{share:.1%}" for share in shares)) for kind, shares in kinds)
    return Section(f"Selectivity of {one.layer}", "", head, rows)


def of_assumptions(assumptions: Sequence[Held]) -> Section:
    """What the description rests on."""
    return Section("How far the assumptions held", "", Held._fields, tuple(tuple(held) for held in assumptions))


def _moment(time: float) -> str:
    return f"{time:.4g}" if math.isfinite(time) else "never"
