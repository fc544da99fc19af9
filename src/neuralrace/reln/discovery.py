"""From a trained ReLU network to the gated network with few modules that learns like it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from neuralrace.analysis import Agreement, Line
from neuralrace.errors import GateError
from neuralrace.initial import Initializer
from neuralrace.reln.chains import as_relu_law, as_relu_run
from neuralrace.reln.gating import find_gating
from neuralrace.reln.modular import (
    DRAWS,
    Layer,
    Modular,
    Tried,
    check_modules,
    fewest_that_serve,
    modules_in,
    modules_to_try,
)
from neuralrace.reln.pricing import Priced, deep_prices, fewest, prices
from neuralrace.reln.recorded import law_of, network_of, refuse_diverged, with_weights
from neuralrace.reln.watched import Watched, stretches_of
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Discovery(Modular):
    """The modules that were found, layer by layer.

    reconstruction: the loss under their gates, the mean over the networks. With one hidden layer the networks descend
    again from their own initial weights with these gates imposed; with several, and with bare gates, the gated network
    is solved by the exact flow from new draws of initial weights. It is read off the run, so it describes and predicts
    nothing. agreement: its distance from the run, in units of what the run learned (see `explain`); with bare gates
    `nr.agreement`. table: the distances for every number of modules and stretches of time that was tried. None and
    empty where the run does not say what a reconstruction needs.
    """

    reconstruction: Line | Forecast | None = field(default=None, repr=False)
    agreement: Agreement | None = None
    table: tuple[Tried, ...] = field(default=(), repr=False)


def discover(
    run: Trajectory,
    modules: int | str = "auto",
    *,
    fractional: bool = False,
    bare: bool = False,
    initial: Initializer | None = None,
    key: int = 0,
    draws: int = DRAWS,
) -> Discovery:
    """Find the modules of ReLU networks: the same that `explain` reports.

    run: of a ReLU network, with record=("gate_patterns", "weights"); a run of gradient descent without the weights is
    trained once more for them. Neurons share a module if one gate for all of them changes least of what they pass on.
    modules: how many in each hidden layer, fewer where there are fewer patterns, or "auto": the fewest whose
    reconstruction explains the run. fractional: whether the gated network has the gates of the modules (from 0 to 1) or
    their patterns (0 and 1). bare: cluster gates as they are, every neuron counting the same, and take the fewest
    modules at the elbow: P2's Algorithm 1 and Fig 9 to the letter. initial: the initializer that a reconstruction of
    several layers or of bare gates starts from (default: that of the run). draws: of it, with bare gates.
    """
    check_modules(modules)
    initial = None if initial is None else as_relu_law(run, initial)
    run = as_relu_run(run)
    network = network_of(run)  # says what is missing before anything is advised
    refuse_diverged(run)
    settings, count = run.settings, None if isinstance(modules, str) else modules
    squared, deep = settings["loss"] == "squared", len(network.hidden) > 1
    law = law_of(run) if squared and initial is None else initial if squared else None
    replayed = law is not None if deep or bare else squared and settings["learning_rate"] is not None
    if not replayed and count is None:
        raise GateError(_needed(run, deep or bare))
    if bare:
        described = modules_to_try(run, modules, fractional=fractional, bare=True, key=key)
        if law is None:
            return Discovery(described[0].layers, network, fractional)
        chosen, solved, apart, table = fewest_that_serve(described, run, law, draws, key)
        return Discovery(chosen.layers, network, fractional, solved, apart, table)
    if deep and not replayed:
        assert count is not None
        return Discovery(modules_in(run, count, key=key).layers, network, fractional)
    if deep:
        rows = deep_prices(run, law, count, key)
    else:
        watched = Watched.of(with_weights(run), network)
        if not replayed:
            assert count is not None
            (whole,) = stretches_of(watched, (1,))[1]
            return Discovery((find_gating(whole, count, key).as_layer("h1"),), network, fractional)
        rows = prices(run, watched, float(settings["learning_rate"]), count, key=key)
    best = fewest(rows)
    layers = _layers(best, network.architecture.hidden)
    return Discovery(layers, network, fractional, Line(run.time, best.loss), best.agreement, tuple(map(_tried, rows)))


def _layers(row: Priced, names: tuple[str, ...]) -> tuple[Layer, ...]:
    """The modules at the end: of the only layer in the last stretch, or of every layer."""
    gatings = row.gatings[-1:] if len(names) == 1 else row.gatings
    return tuple(gating.as_layer(name) for gating, name in zip(gatings, names, strict=True))


def _tried(row: Priced) -> Tried:
    consistency = np.concatenate([gating.consistency for gating in row.gatings])
    apart = row.agreement
    return Tried(row.modules, apart.normalized_l1, apart.log10_gap, float(consistency.min(initial=1.0)), row.stretches)


def _needed(run: Trajectory, from_law: bool) -> str:
    """Why modules="auto" cannot compare learning curves of this run, and what to do."""
    settings: dict[str, Any] = run.settings
    loss, number = settings["loss"], "give a number of modules"
    if loss != "squared":
        what, found = "squared error", f"descended the {loss} loss: {number}"
    elif from_law:
        what = "squared error from a known distribution of initial weights"
        found = f"has no record of that distribution: {number}, or the initializer, initial=..."
    else:
        what, found = "squared error with one learning rate", f"had a schedule of it: {number}"
    return f"modules='auto' compares learning curves, for which a run of the {what} is required; this one {found}"
