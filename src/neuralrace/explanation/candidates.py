"""Which gatings race against the one that was found."""

import math
from collections.abc import Mapping

import numpy as np

from neuralrace import reln
from neuralrace.initial import Initializer
from neuralrace.reln import Ranking
from neuralrace.reln.gating import LayerGating
from neuralrace.task import Task
from neuralrace.training import ReLUNetwork

MOST_PATHWAYS = 20  # of one candidate
MOST_SEEN = 200  # pathways times inputs of one candidate: its solution takes the cube of this
CRITERION = 0.1  # of the first loss: the finish of the race


def race_of(
    task: Task,
    network: ReLUNetwork,
    times: np.ndarray,
    law: Initializer,
    layers: Mapping[str, LayerGating],
    groups: np.ndarray | None,
) -> tuple[Ranking, tuple[str, ...]]:
    """Race the gatings that respect the groups and the one that was found; say under which names it takes part.

    Candidates that are too large to be solved in seconds stay out. Nothing is trained.
    """
    most = max(1, min(MOST_PATHWAYS, MOST_SEEN // network.inputs.shape[1]))
    candidates = {"common": np.ones((1, len(task)), dtype=bool)}
    if groups is not None:
        count = len(np.unique(groups))
        candidates = reln.gatings_of_groups(groups, [s for s in range(1, count) if math.comb(count, s) < most])
    patterns = list(layers.values())[-1].patterns
    found = np.unique(patterns, axis=0)
    entered = tuple(name for name, other in candidates.items() if np.array_equal(np.unique(other, axis=0), found))
    if not entered and 0 < len(patterns) <= most:
        candidates["found"], entered = patterns, ("found",)
    *before, last = network.hidden  # earlier layers are always open
    layered = {name: [*(np.ones((1, len(task))) for _ in before), rows] for name, rows in candidates.items()}
    problems = {
        name: reln.gated_problem(task, gates, [*before, max(1, last // len(gates[-1]))], network.biases)
        for name, gates in layered.items()
    }
    first = 0.5 * float(task.weights @ np.sum(network.targets**2, axis=1))
    return reln.race(task, problems, initial=law, times=times, criterion=CRITERION * first, draws=2), entered
