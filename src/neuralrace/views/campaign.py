"""The trainings that P3's claims are measured on, for gated and for ReLU networks."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import xarray

from neuralrace.views.sweep import sweep
from neuralrace.views.trial import Trial, draw_weights, lone_rows
from neuralrace.views.winner import two_layer_end

EARLY = 200  # steps that are looked at one by two
UNEQUAL = (1.0, 0.8, 0.6)  # |phi_m|, and at depth two K times the rates
TEMPERATURE = 2.0  # of the teacher's soft targets
PENALTY = 0.1  # lambda of the competition loss
RARE = 0.9  # chance of a view where views are sometimes missing
FINER = 5  # how many times smaller the fine step is


@dataclass(frozen=True)
class Plan:
    """Which networks, from how many seeds, for how long; three classes with three views each."""

    network: str
    depths: tuple[int, ...]
    hidden: int
    scale: float = 0.25
    small_scale: float = 0.01  # for early growth and unequal rates, at depth two
    learning_rate: float = 0.5
    steps: int = 1500
    seeds: int = 30


def trials(plan: Plan) -> dict[str, Trial]:
    """Name -> condition; the name says the rule, then the depth."""
    base = Trial(network=plan.network, hidden=plan.hidden, scale=plan.scale, learning_rate=plan.learning_rate)
    small = replace(base, depth=2, scale=plan.small_scale, rule="flow")
    found = {"growth L2": small, "unequal L2": replace(small, sizes=UNEQUAL)}
    for depth in plan.depths:
        plain = replace(base, depth=depth)
        entropy = replace(plain, loss="cross-entropy")
        modern = replace(entropy, rule="momentum")
        found |= {
            f"flow L{depth}": replace(plain, rule="flow"),
            f"descent L{depth}": plain,
            f"momentum L{depth}": replace(plain, rule="momentum"),
            f"entropy L{depth}": entropy,
            f"standard L{depth}": replace(modern, probability=RARE),
            f"compete L{depth}": replace(modern, probability=RARE, competition=PENALTY),
            f"standard, all views L{depth}": modern,
        }
    fine = replace(base, depth=plan.depths[-1], learning_rate=plan.learning_rate / FINER)
    found[f"fine descent L{fine.depth}"] = fine
    found[f"fine momentum L{fine.depth}"] = replace(fine, rule="momentum")
    return found


def students(plan: Plan, taught: Mapping[str, Trial], data: xarray.Dataset) -> dict[str, Trial]:
    """The same training with soft targets: the mean of the softmax at TEMPERATURE over all seeds of the teacher."""
    found = {}
    for depth in plan.depths:
        for name in (f"standard L{depth}", f"standard, all views L{depth}"):
            logits = data["outputs"].sel(trial=name).values / TEMPERATURE
            raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
            soft = (raised / raised.sum(axis=-1, keepdims=True)).mean(axis=0)
            found[name.replace("standard", "student")] = replace(taught[name], targets=soft)
    return found


def run_campaign(plan: Plan) -> xarray.Dataset:
    """Train everything and keep responses over time, final outputs, and the exact forecast of depth two."""
    looks = campaign_looks(plan.steps)
    conditions = trials(plan)
    taught = _named(conditions, plan, looks)
    learners = _named(students(plan, conditions, taught), plan, looks)
    data = xarray.concat([taught, learners], "trial")
    data["lone_outputs"] = (("trial", "seed", "class", "view", "output"), data["outputs"].values[:, :, lone_rows(3, 3)])
    data = data.drop_vars("outputs")
    data.attrs |= {"network": plan.network, "depths": list(plan.depths), "rate": 1 / 3, "views": 3}
    if plan.network == "gated" and "flow L2" in conditions:
        data["forecast"] = (("seed", "class", "view"), _forecast(conditions["flow L2"], plan.seeds))
    return data


def campaign_looks(steps: int) -> np.ndarray:
    """Every second step at first, then a few dozen more."""
    early = min(EARLY, steps)
    return np.unique([*range(0, early, 2), *np.linspace(early, steps, 27).astype(int)])


def _named(conditions: Mapping[str, Trial], plan: Plan, looks: np.ndarray) -> xarray.Dataset:
    found = sweep(list(conditions.values()), plan.steps, plan.seeds, looks.tolist())
    return found.assign_coords(trial=list(conditions))


def _forecast(trial: Trial, seeds: int) -> np.ndarray:
    """Responses at the end by `two_layer_end`, (seeds, K, M)."""
    layers = [draw_weights(trial, seed) for seed in range(seeds)]
    ends = two_layer_end(*(np.stack(layer) for layer in zip(*layers, strict=True)))
    right = np.einsum("smkk->skm", ends)
    return np.asarray((trial.classes * right - np.einsum("smjk->skm", ends)) / (trial.classes - 1))
