"""The answer of an explanation, in sentences that follow the criterion, and its numbers in words."""

import math
from collections.abc import Sequence

from neuralrace.analysis import Agreement
from neuralrace.explanation.foretold import Match
from neuralrace.reln.pricing import NEAR_L1, NEAR_LOG, Priced, fewer, near

DIGITS = 3


def beside(value: float, limit: float) -> str:
    """A number with three decimals, or as many as show on which side of the limit it is."""
    if not math.isfinite(value):
        return "not finite"
    for digits in range(DIGITS, 12):
        text = f"{value:.{digits}f}"
        if value == limit or ((float(text) > limit) == (value > limit) and float(text) != limit):
            return text
    return repr(value)


def distances_in_words(apart: Agreement) -> str:
    """Both distances, the first in words as well."""
    return (
        f"normalized L1 {beside(apart.normalized_l1, NEAR_L1)}, that is {apart.normalized_l1:.1%} of the area "
        f"between the loss and the lowest that it reaches; log10 gap {beside(apart.log10_gap, NEAR_LOG)}"
    )


def moment(time: float) -> str:
    """A time, or that it never came."""
    if math.isnan(time):
        return ""
    return f"{time:.4g}" if math.isfinite(time) else "never"


def so_many(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ch') else 's'}"


def of_modules(rows: Sequence[Priced], chosen: Priced, layers: int = 1) -> str:
    """How many modules explain the networks of so many hidden layers, and how few could otherwise."""
    apart, asked = distances_in_words(chosen.agreement), f"at most {NEAR_L1} and {NEAR_LOG} are asked"
    each = "" if layers == 1 else " in each layer"
    if not chosen.meets:
        tried = {row.modules for row in rows}
        told = f"No {so_many(max(tried), 'module')} or fewer explain"
        if len(tried) == 1:
            told = f"{so_many(chosen.modules, 'module')} {'does' if chosen.modules == 1 else 'do'} not explain"
        return (
            f"{told} these networks: the nearest reconstruction, with {so_many(chosen.modules, 'module')}{each} "
            f"{_gates(chosen)}, is off by {apart}; {asked}."
        )
    told = f"{so_many(chosen.modules, 'module')}{each} explain{'s' if chosen.modules == 1 else ''} these networks"
    again = "played again" if layers == 1 else "solved from the law of the first weights"
    first = f"{told}: {again} {_gates(chosen)}, they learn alike ({apart}; {asked})."
    other = fewer(rows, chosen)
    if other is None:
        return first
    enough = "would be enough"
    return f"{first} {so_many(other.modules, 'module').capitalize()} {enough} {_gates(other)}."


def of_forecast(foreseen: Agreement, before: bool) -> str:
    """Whether the forecast held; before: whether it was made before the networks were trained."""
    made = "before any training" if before else "without a look at the training"
    held = "held" if near(foreseen) else "did not hold"
    return f"The forecast, made {made}, {held}: {distances_in_words(foreseen)}."


def of_foretold(matches: Sequence[Match]) -> str:
    """Whether the modules that were found are those that were foreseen."""
    there = [one for one in matches if one.found is not None]
    expected = sum(one.foreseen is not None for one in matches)
    same = sum(one.same for one in there)
    told = f"{so_many(expected, 'module')} {'was' if expected == 1 else 'were'} foreseen"
    if same == len(there) == expected:
        return f"{told}, and {'the one found is this' if same == 1 else f'the {same} found are these'}."
    return f"{told}; of the {len(there)} found {same} {'is' if same == 1 else 'are'} among them."


def of_course(foreseen: bool, before: bool, raced: bool) -> str:
    """What was done, in its order; before: whether the forecast was made before the networks were trained."""
    modules = "their modules were found by what passes through their neurons."
    if before:
        start = (
            "First the loss and the modules were foreseen from the law of the weights. Then ReLU networks were "
            f"trained, and {modules}"
        )
    elif foreseen:
        start = (
            "These ReLU networks had been trained already. Their loss and modules were foreseen from the law of the "
            f"first weights, without a look at the training, and {modules}"
        )
    else:
        start = f"These ReLU networks had been trained already; nothing was foreseen of them, and {modules}"
    rebuilt = (
        "The networks played again with the gates of these modules are a reconstruction: it describes them and "
        "predicts nothing."
    )
    race = " The race of gatings is theory, from the statistics of the task alone." if raced else ""
    return f"{start} {rebuilt}{race} Nothing was fitted."


def of_little(remaining: float, warnings: Sequence[str]) -> str:
    """There is nothing to explain yet."""
    told = f"The networks hardly learned: {remaining:.0%} of the first loss is left, so there is little to explain."
    return f"{told} {'Mind the warnings first.' if warnings else 'Give more steps, or a larger network.'}"


def of_no_use(kind: str, score: float, constant: float) -> str:
    """What the networks learned does not answer what the targets ask."""
    return f"But the networks answer no better than a constant: {kind} {score:.3f}, and {constant:.3f} without inputs."


def _gates(row: Priced) -> str:
    if row.stretches == 1:
        return "with gates that never change"
    return f"with gates that change between {row.stretches} stretches of time"
