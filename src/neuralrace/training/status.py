"""How a training ended."""

import numpy as np

from neuralrace.training.schedule import LOOKS
from neuralrace.trajectory import STATUS

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
