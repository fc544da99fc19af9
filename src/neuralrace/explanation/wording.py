"""Numbers in words: distances with enough digits to be told from what is asked, moments, parts."""

import math

from neuralrace.analysis import Agreement

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


def distance(apart: Agreement, near: tuple[float, float]) -> str:
    """Both distances, the first in words as well."""
    return (
        f"normalised L1 {beside(apart.normalised_l1, near[0])}, that is {apart.normalised_l1:.1%} of the area under "
        f"the loss; log10 gap {beside(apart.log10_gap, near[1])}"
    )


def moment(time: float) -> str:
    """A time, or that it never came."""
    if math.isnan(time):
        return ""
    return f"{time:.4g}" if math.isfinite(time) else "never"


def counted(count: int, thing: str) -> str:
    """A number of things."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}{'es' if thing.endswith('ch') else 's'}"
