"""How long a training is: what that would take, when the loop looks, which looks are recorded, and what they say."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.errors import RangeError, require_count
from neuralrace.limits import require_memory
from neuralrace.problem import Problem
from neuralrace.training.routed import RoutedNetwork
from neuralrace.trajectory import STATUS

STRIDE = 100  # the most steps between two looks at the loss, recorded or not
LOOKS = 50  # the fewest looks in a run, to tell whether it has settled


@dataclass(frozen=True)
class Schedule:
    """The steps to record, ascending, and the looks that the loop makes: each a step and whether it is kept."""

    recorded: np.ndarray
    looks: np.ndarray  # ascending steps; the last one is the end of training
    kept: np.ndarray  # bool per look
    regular: np.ndarray  # bool per look: those that are made whatever is recorded

    @property
    def steps(self) -> int:
        """The last step."""
        return int(self.looks[-1])

    def until(self, look: int) -> "Schedule":
        """The same schedule up to a look, which is recorded in any case."""
        kept = self.kept[: look + 1].copy()
        kept[-1] = True
        looks = self.looks[: look + 1]
        return Schedule(looks[kept], looks, kept, self.regular[: look + 1])

    @property
    def gaps(self) -> np.ndarray:
        """Steps from each look to the next."""
        return np.diff(self.looks)


def make_schedule(steps: int, every: int, at: Sequence[int] | None) -> Schedule:
    """Record every so many steps and at the end, or at the given steps."""
    steps = require_count("steps", steps, least=0)
    if at is None:
        every = require_count("every", every)
        recorded = np.unique(np.append(np.arange(0, steps + 1, every), steps))
    else:
        recorded = np.unique(np.asarray(at))
        whole = len(recorded) > 0 and recorded.dtype.kind in "iu"
        if not whole or recorded[0] < 0 or recorded[-1] > steps:
            raise RangeError(f"at must name whole steps from 0 to {steps}; it was {at!r:.80}")
    stride = int(np.clip(steps // LOOKS, 1, STRIDE))
    regular = np.append(np.arange(0, steps, stride), steps)
    looks = np.union1d(recorded, regular)
    return Schedule(recorded, looks, np.isin(looks, recorded), np.isin(looks, regular))


MOST_STEPS = 2**31 - 1  # they are counted in 32 bits
COPIES = 3  # of all weights: the first, the present, and the gradient
LOOK_BYTES = 40  # of one look at the loss: its step, whether it is kept, and the loss
SMALLER = "give fewer seeds, fewer neurons, or fewer steps"


def check_size(network: Any, steps: Any, every: Any, seeds: Any) -> None:
    """Refuse weights and a curve of the loss that do not fit into memory; every: None where the records are given.

    Only what is certain is counted, so nothing possible is refused.
    """
    count, last = require_count("seeds", seeds), require_count("steps", steps, least=0)
    if last > MOST_STEPS:
        raise RangeError(f"steps must be at most {MOST_STEPS:,}; it was {last:,}: a larger learning_rate needs fewer")
    looks = last // min(STRIDE, STRIDE if every is None else require_count("every", every)) + 1
    if not isinstance(network, Problem | RoutedNetwork):
        return  # that is told elsewhere
    weights = network.architecture.weight_count
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


SETTLED = 1e-3  # see status_of
EXPLODED = 1e6  # a loss so many times the first one is divergence


def status_of(loss: np.ndarray, stop_at: float | None = None) -> np.ndarray:
    """Diverged: not finite, or EXPLODED times the first loss. Converged: fell, and is still at the end.

    loss: (seeds, regular looks), so that what is recorded makes no difference. Still means that over the last tenth
    of the run the loss changed by less than SETTLED of all that it fell; a long plateau looks the same. A seed that
    came down to the loss it was to stop at has converged too.
    """
    status = np.full(len(loss), STATUS.index("running"))
    first = np.maximum(loss[:, 0], np.finfo(float).eps)  # a perfect start leaves rounding, which may grow a little
    with np.errstate(invalid="ignore"):
        fallen = loss[:, 0] - loss[:, -1]
        late = loss[:, -max(loss.shape[1] // 10, 2) :]
        still = (late.max(axis=1) - late.min(axis=1) < SETTLED * fallen) & (fallen > SETTLED * loss[:, 0])
        exploded = ~np.isfinite(loss).all(axis=1) | (loss.max(axis=1) > EXPLODED * first)
        arrived = np.zeros(len(loss), dtype=bool) if stop_at is None else loss[:, -1] <= stop_at
    status[still & (loss.shape[1] >= LOOKS) | arrived] = STATUS.index("converged")
    status[exploded] = STATUS.index("diverged")
    return status
