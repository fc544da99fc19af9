"""What a training would take, before it takes it: only what is certain is counted, so nothing possible is refused."""

import math
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, require_count
from neuralrace.limits import require_memory
from neuralrace.problem import Problem
from neuralrace.training.routed import RoutedNetwork
from neuralrace.training.schedule import STRIDE

MOST_STEPS = 2**31 - 1  # they are counted in 32 bits
COPIES = 3  # of all weights: the first, the present, and the gradient
LOOK_BYTES = 40  # of one look at the loss: its step, whether it is kept, and the loss
SMALLER = "give fewer seeds, fewer neurons, or fewer steps"


def check_size(network: Any, steps: Any, every: Any, seeds: Any) -> None:
    """Refuse weights and a curve of the loss that do not fit into memory; every: None where the records are given."""
    count, last = require_count("seeds", seeds), require_count("steps", steps, least=0)
    if last > MOST_STEPS:
        raise RangeError(f"steps must be at most {MOST_STEPS:,}; it was {last:,}: a larger learning_rate needs fewer")
    looks = last // min(STRIDE, STRIDE if every is None else require_count("every", every)) + 1
    if not isinstance(network, Problem | RoutedNetwork):
        return  # that is told elsewhere
    shapes = [network.architecture.shape(edge) for edge in network.architecture.edges]
    weights = sum(math.prod(shape) for shape in shapes)
    require_memory(f"{count:,} seeds of {weights:,} weights", 8 * COPIES * count * weights, SMALLER)
    require_memory(
        f"the loss of {count:,} seeds at {looks:,} steps",
        looks * (LOOK_BYTES + 8 * count),
        "record less often with every=..., or give fewer seeds or steps",
    )


def check_records(name: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Refuse a record that does not fit into memory."""
    require_memory(
        f"the record {name!r}, {' x '.join(f'{size:,}' for size in shape)},",
        math.prod(shape) * dtype.itemsize,
        "record less often with every=... or at=..., leave it out, or give fewer seeds",
    )
