"""When the loop looks at a training, which looks are recorded, and what they say of its end."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralrace.errors import RangeError, require_count
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
