"""Arrays as lists for JSON: few digits, and null for what is not a number."""

from typing import Any

import numpy as np

DIGITS = 6


def numbers(values: Any, digits: int = DIGITS) -> Any:
    """Round to some significant digits; what is infinite or no number becomes None, which JSON can say."""
    array = np.asarray(values, dtype=float)
    plain = np.empty(array.size, dtype=object)
    plain[:] = [float(f"{value:.{digits}g}") if np.isfinite(value) else None for value in array.ravel().tolist()]
    return plain.reshape(array.shape).tolist()
