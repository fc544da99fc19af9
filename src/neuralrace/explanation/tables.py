"""The tables of an Explanation (`told`, here and in `panels` and `page`), in words, for text and page alike."""

import math
from typing import Any, NamedTuple

import numpy as np

from neuralrace.analysis import Agreement, Line
from neuralrace.reln.discover import ALIKE
from neuralrace.reln.replay import MOST_DEEP, NEAR_L1, NEAR_LOG, distance_learned

DISTANCES = (
    "Normalized L1 is the area between two loss curves over the area between the trained one and the lowest loss that "
    "it reaches; the log10 gap is the mean distance of their logarithms."
)


class Section(NamedTuple):
    """One table with its title and a note."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sections(told: Any) -> tuple[Section, ...]:
    """All tables, in their order."""
    warned = [(text,) for text in told.warnings] + [(f"of the data: {text}",) for text in told.notes]
    found = [Section("Mind", "", ("",), tuple(warned))] if warned else []
    found += [_forecast(told), _modules(told)]
    if told.predicted is not None:
        found.append(_predicted(told))
    found += [*_worth(told), _replays(told)]
    if told.race is not None:
        found.append(_race(told))
    for layer, kinds in told.selectivity.items():
        count = len(next(iter(kinds.values())))
        head = ("groups in which a neuron is active", *map(str, range(count)))
        rows = tuple((kind, *(f"{share:.1%}" for share in shares)) for kind, shares in kinds.items())
        found.append(Section(f"Selectivity of {layer}", "", head, rows))
    return (*found, Section("How far the assumptions held", "", ("assumption", "measured"), told.assumptions))


def course(told: Any) -> str:
    """What was done, in its order."""
    modules = "their modules were found by what passes through their neurons."
    if told.before:
        start = (
            "First the loss and the modules were predicted from the initializer. Then ReLU networks were trained, and "
            f"{modules}"
        )
    elif told.predicted is not None:
        start = (
            "These ReLU networks had been trained already. Their loss and modules were predicted from the initializer, "
            f"without a look at the training, and {modules}"
        )
    else:
        start = f"These ReLU networks had been trained already; nothing was predicted of them, and {modules}"
    replayed = "The networks trained again with the gates of these modules are a reconstruction: it describes them and "
    race = " The race of gatings is theory, from the statistics of the task alone." if told.race is not None else ""
    return f"{start} {replayed}predicts nothing.{race} Nothing was fitted."


def _forecast(told: Any) -> Section:
    """How near the forecast came, beside how near networks are to each other."""
    head = ("what is compared", "normalized L1", "log10 gap", "largest gap over the fall")
    title, run = "The forecast and training", told.run
    if told.forecast is None:
        cosine = float(run.settings["rule"].get("cosine", 1.0))
        why = "the initializer is not known; give initial=..."
        if cosine < 1 and told.settings["initial weights"] is not None:
            why = "the networks did not go down the gradient of the squared error, which is what forecasts follow."
        return Section(title, f"Nothing was predicted: {why}", head, ())
    rows = [("forecast, from the mean network", *_numbers(told.agreements["forecast"]))]
    if len(run.loss) > 1:
        apart = [
            distance_learned(Line(run.time, run.loss[seed]), Line(run.time, np.delete(run.loss, seed, axis=0)))
            for seed in range(len(run.loss))
        ]
        far = max(apart, key=lambda one: one.normalized_l1)
        rows.append(("the network farthest from the others", *_numbers(far)))
    note = (
        f"Made {'before any' if told.before else 'without a look at the'} training, by {told.forecast.method}, from "
        f"the initializer and the examples alone. {'It held' if told.held else 'It did not hold'}: at most {NEAR_L1} "
        f"and {NEAR_LOG} are allowed. {DISTANCES}"
    )
    return Section(title, note, head, tuple(rows))


def _modules(told: Any) -> Section:
    """What each module is, does and sees."""
    head: tuple[str, ...] = ("module", "neurons", "consistency", "on for", "writes", "singular values of its data")
    timed, rows = any(module.size is not None for module in told.modules), []
    for module in told.modules:
        grown = ""
        if module.size is not None:  # since when what it does had half of its last size
            grew, half = module.size[-1] > 2 * module.size[0], int(np.argmax(module.size >= module.size[-1] / 2))
            grown = moment(float(told.run.time[half]) if grew else math.inf)
        count = f"{module.neurons:.0f}" if module.neurons >= 1 else f"{module.neurons:.1g}"
        values = ", ".join(f"{value:.3g}" for value in told.singular_values(module))
        cells = (module.name, count, f"{module.consistency:.2f}", *told.words(module), values)
        rows.append((*cells, grown) if timed else cells)
    note = "" if told.modules else "No neuron is on for anything: there are no modules."
    return Section("Modules", note, (*head, "half grown at") if timed else head, tuple(rows))


def _predicted(told: Any) -> Section:
    """Which modules were predicted, and as what they were found."""
    rows = []
    for first, second, alike, _ in told.matches:
        share = " and ".join(f"{0 if one is None else one.share:.0%}" for one in (first, second))
        names = "not predicted" if first is None else first.name, "not found" if second is None else second.name
        near = f"{alike:.1%}" if first is not None and second is not None else ""
        on = "" if first is None else told.words(first)[0]
        rows.append((names[0], on, names[1], near, share, "yes" if alike >= ALIKE else "no"))
    note = (
        f"{'Before any' if told.before else 'Without a look at the'} training the neurons of the forecast were put "
        "into modules by the same rule, the fewest that explain them. Predicted and found are the same module if both "
        f"are on or both are off for at least {ALIKE:.0%} of the examples."
    )
    head = ("predicted", "on for", "found as", "alike", "carry", "the same")
    return Section("Modules predicted", note, head, tuple(rows))


def _worth(told: Any) -> list[Section]:
    """Loss and score of the networks, and with each module taken out; the loss of each class in a table of its own."""
    measure, title = told.measure, _title(told)
    names = [f"without {score.without}" if score.without else "as trained" for score in told.scores]
    rows = tuple(
        (name, f"{score.loss:.4g}", *(_score(told, value) for value in (score.score, *score.by_class)))
        for name, score in zip(names, told.scores, strict=True)
    )
    by_class = f" {title.capitalize()} of all, then of each class or group." if measure.names else ""
    note = f"The trained networks with the neurons of one module taken out, and nothing learned again.{by_class}"
    found = [Section("What modules are worth", note, ("networks", "loss", title, *measure.names), rows)]
    if measure.names:
        losses = tuple(
            (name, *(f"{value:.3g}" for value in score.loss_by_class))
            for name, score in zip(names, told.scores, strict=True)
        )
        found.append(Section("Loss of each class or group", "", ("networks", *measure.names), losses))
    return found


def _replays(told: Any) -> Section:
    """How near reconstructions come with fewer and with more modules."""
    rows = tuple(
        (
            f"{row.modules}",
            f"{row.stretches}",
            *_numbers(row.agreement)[:2],
            _score(told, told.score_of(row)),
            ("yes, chosen" if told.chosen is row else "yes") if row.explains else "no",
        )
        for row in told.found.tried
    )
    deep = len(told.found.network.architecture.hidden) > 1
    limit = f", up to {MOST_DEEP} in each layer unless a number is given" if deep else ""
    never = " With several hidden layers the gates never change." if deep else ""
    note = (
        "The networks trained again from their own initial weights with gates that are imposed, constant over each "
        f"stretch of time and shared by all neurons of a module{limit}.{never} Gates come from the run, so these are "
        "reconstructions and no forecasts."
    )
    head = ("modules", "stretches", "normalized L1", "log10 gap", _title(told), "explains")
    return Section("What fidelity costs", note, head, rows)


def _race(told: Any) -> Section:
    """Candidate gatings in the order of their finish."""
    race = told.race
    assert race is not None
    rows = tuple(
        (r.name, "yes" if r.name in told.entered else "", moment(r.time), f"{r.rate:.4g}", f"{r.final:.3g}")
        for r in race.runners
    )
    ending = "No candidate finished, so none won; the lowest last loss comes first."
    if told.found_wins is not None:
        same = "the gating that was found" if told.found_wins else "not the gating that was found"
        ending = f"The race is won by: {race.winner}, {same}."
    head = ("gating", "found", f"time to loss {race.criterion:.3g}", "first rate", "final loss")
    return Section("The race of gatings", f"No network is trained for this. {ending}", head, rows)


def beside(value: float, limit: float) -> str:
    """A number with three decimals, or as many as show on which side of the limit it is."""
    if not math.isfinite(value):
        return "not finite"
    for digits in range(3, 12):
        text = f"{value:.{digits}f}"
        if value == limit or ((float(text) > limit) == (value > limit) and float(text) != limit):
            return text
    return repr(value)


def moment(time: float) -> str:
    """A time, or that it never came."""
    return f"{time:.4g}" if math.isfinite(time) else "never"


def so_many(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ch') else 's'}"


def _numbers(apart: Agreement) -> tuple[str, str, str]:
    return beside(apart.normalized_l1, NEAR_L1), beside(apart.log10_gap, NEAR_LOG), f"{apart.max_gap:.3f}"


def _title(told: Any) -> str:
    return "accuracy" if told.measure.kind == "accuracy" else "R\u00b2"


def _score(told: Any, value: float) -> str:
    if math.isnan(value):
        return "none"
    return f"{value:.1%}" if told.measure.kind == "accuracy" else f"{value:.3f}"
