"""How long neurons grow before they part: until the loss has fallen by one per cent."""

import numpy as np

from neuralrace.theory.activated.simulation import Simulation
from neuralrace.theory.integration.integrate import Curve, integrate

FALL = 0.01  # of the first loss


def parting_time(pilot: Simulation, fall: float = FALL) -> float | None:
    """When the loss of the pilot's first draw has fallen by that share; None if not before the end."""
    request, system = pilot.request, pilot.flow
    goal = (1 - fall) * float(system.record(pilot.start)[0])
    curve = integrate(
        system,
        pilot.start,
        request.end,
        rtol=request.rtol,
        max_steps=request.max_steps,
        stop=lambda _, state: bool(system.record(state)[0] < goal),
    )
    found = _first_below(curve, goal)
    if found is None or request.descent is None:
        return found
    return float(request.descent.steps(np.array(found)) * request.descent.learning_rate)


def _first_below(curve: Curve, goal: float) -> float | None:
    below = np.flatnonzero(curve.at(curve.ends)[:, 0] <= goal)
    if not len(below):
        return None
    step = int(below[0])
    fine = np.linspace(curve.starts[step], curve.ends[step], 201)
    return float(fine[int(np.argmax(curve.at(fine)[:, 0] <= goal))])
