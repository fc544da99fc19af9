"""The method `flow`: the exact flow of every weight, or gradient descent itself. It always applies."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import numpy as np

from neuralrace._engine.devices import map_on_devices
from neuralrace.axes import Edge
from neuralrace.errors import RangeError
from neuralrace.objectives import Squared
from neuralrace.problem import Problem
from neuralrace.statistics import PathStatistics
from neuralrace.theory.certificate import CHECKED, STEPPED, Assumption, first_failing
from neuralrace.theory.check import TOLERANCE
from neuralrace.theory.evolution import matrix_evolution
from neuralrace.theory.flow.linear import LinearFlow, linear_flow, own_vectors
from neuralrace.theory.flow.simulation import SMOOTHING, Simulation, Translate
from neuralrace.theory.integration.descent import SINGLE
from neuralrace.theory.method import Method, Outcome, Request, saddle_notes
from neuralrace.theory.sharpness import regime

# With activations the flow of P2's mixed task is .001 to .002 in normalized L1 and .003 to .014 in log10 from descent
# at this rtol; two trained networks differ by .002 to .014 and .004 to .076.
ACTIVATED_RTOL = 5e-4
MANY = 64  # neurons of a layer, of which none decides the loss, so that an unchecked forecast may hold
AGREED = 0.0025  # normalized L1 of flows at two tolerances, a quarter of what a certificate promises
FINER = 0.04  # ratio of the two tolerances that are compared: gates that open over 2.5e-3, and over 1e-4
ROUGH = 1e-3  # rtol of linear flows, at which their error is still far below one percent of the loss
STEPS = 4_000  # most steps of a flow that is only a check
MANY_STEPS = 50_000  # of descent, from which on the flow is tried first ...
LONG = 10**11  # ... where all draws take more products than this, some ten seconds ...
WORTH = 200  # ... with a step for this many of them, which costs as much as some thirty


@dataclass(frozen=True, repr=False)
class Flow(Method[PathStatistics]):
    """The exact gradient flow of linear nodes (P1 eqs 3-4)."""

    name: ClassVar[str] = "flow"
    last: ClassVar[bool] = True

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], PathStatistics | None]:
        """Assume nothing."""
        return (), request.statistics

    def solve(self, request: Request, prepared: PathStatistics) -> Outcome:
        """Integrate, or take steps, draw by draw."""
        flows, vectors = [start_flow(request, weights) for weights in request.weights], partial(own_vectors, prepared)
        row = Assumption(CHECKED, 0.0, request.rtol, "the forecast is the exact flow, integrated to this rtol")
        if request.rtol > ROUGH:
            row = Assumption("accuracy of the integration", request.rtol, ROUGH, "rtol of every step and mode")
        return Outcome(
            np.array(map_on_devices(lambda flow: flow.losses(request.times), flows)),
            tuple(matrix_evolution(flow.weights_at, request.architecture, vectors) for flow in flows),
            tuple(prepared.open_paths) if prepared.listable else (),
            (row,),
        )


def start_flow(request: Request, weights: Mapping[Edge, np.ndarray]) -> LinearFlow:
    """Start the flow of linear nodes at these weights, with the accuracy of the request."""
    return linear_flow(request.statistics, weights, request.end, request.rtol, request.max_steps, request.descent)


@dataclass(frozen=True, repr=False)
class NetworkFlow(Method[Problem]):
    """Whole networks on their examples, by the flow or by steps: any graph, activations, losses and optimizers."""

    name: ClassVar[str] = "flow"
    linear: ClassVar[bool] = False
    general: ClassVar[bool] = True
    last: ClassVar[bool] = True

    def setup(self, request: Request) -> tuple[tuple[Assumption, ...], Problem | None]:
        """Require the examples."""
        problem, assumption = examples(request)
        return (assumption,), problem

    def solve(self, request: Request, prepared: Problem) -> Outcome:
        """Integrate, or take steps, all draws in one program."""
        nodes = prepared.architecture.nodes
        sizes = ", ".join(f"{nodes[node]} in {node!r}" for node in prepared.architecture.hidden)
        drawn = f"{len(request.weights)} fresh draws from the initializer"
        kind = drawn if callable(request.initial) else "given weights"
        note = f"simulated: {kind}, every neuron ({sizes or 'no hidden node'}); no trained network was seen"
        return outcome_of(Simulation(prepared, request.weights, request), note)


def examples(request: Request) -> tuple[Problem | None, Assumption]:
    """Return the problem with its examples; None if only statistics were given."""
    missing = request.problem is None
    detail = "only statistics were given" if missing else "those of the problem"
    return request.problem, Assumption("examples of the task", float(missing), 0.0, detail)


def outcome_of(
    simulation: Simulation, note: str, simulated: Problem | None = None, translate: Translate | None = None
) -> Outcome:
    """Follow the draws. note: describes the simulation; simulated: the problem in other coordinates, if any."""
    request, rate = simulation.request, simulation.request.learning_rate
    steps = 0 if request.descent is None else round(request.end / request.descent)
    long = steps >= MANY_STEPS and steps * simulation.products * len(simulation.first) >= LONG
    if request.flow_first and long and simulation.strides is None:
        flow = replace(request, descent=None, max_steps=min(request.max_steps, steps // WORTH))
        with suppress(RangeError):
            outcome = outcome_of(replace(simulation, request=flow), note, simulated, translate)
            if first_failing(outcome.assumptions) is None:
                return outcome
    losses, unchecked = simulation.follow(), ""
    if request.descent is None:
        nodes, given = simulation.problem.architecture.nodes, request.architecture
        own = all(nodes[node] == given.nodes[node] for node in given.hidden)
        simulation, losses, row, unchecked = refined(simulation, losses, own)
        limit = "the limit of small steps" if rate is None else f"corrected to first order for steps of {rate:g}"
        width = f"gates open over {SMOOTHING * simulation.request.rtol:.2g} of what a neuron receives"
        made = f"simulated by the gradient flow, {limit}; {width}"
    else:
        loss = "" if request.objective == Squared() else f" of the {request.objective.name} loss"
        rule = f"gradient descent of {rate:g}" if request.optimizer is None else f"the optimizer, each {rate:g} of time"
        made = f"simulated by steps of {rule}{loss}, from the initialization and the data alone"
        row = Assumption(STEPPED, 0.0, 0.0, "the forecast is these steps themselves, in double precision")
        if simulation.strides is not None:
            unchecked = "not checked: steps of descent are taken several at once"
            row = replace(single_neurons(simulation.problem), needed=False)  # as many as the curvature allows
            several = f"up to {simulation.strides} at once where the loss has halved"
            made = f"{made}; {several if simulation.strides > 1 else 'one by one'}"
            made = f"{made}; in single precision down to {SINGLE:g} of the loss"
    rows, notes = [row], [note, made, *saddle_notes(simulation.first), *([unchecked] if unchecked else [])]
    draws = len(simulation.first)
    if draws > 1 and np.isfinite(losses).all():  # the mean is nearer to that of many draws than single draws are
        mean = losses.mean(axis=0)
        apart = np.abs(losses - mean).sum(axis=1).mean() / max(float(np.abs(mean).sum()), np.finfo(float).tiny)
        detail = f"normalized L1 of {draws} draws from their mean"
        rows += [Assumption("draws agree", float(apart), 0.01, detail, needed=False)]
    if rate is not None and request.descent is None:
        rows += [simulation.first_step(rate), regime(rate, request.times[-1:], [simulation.sharpness()], needed=True)]
    evolutions = tuple(simulation.evolution(draw, translate) for draw in range(draws))
    return Outcome(losses, evolutions, assumptions=tuple(rows), notes=tuple(notes), simulated=simulated)


def single_neurons(problem: Problem) -> Assumption:
    """Require many neurons in every layer with activations: then none decides the loss by the width of its gate."""
    counts = {node: problem.architecture.nodes[node] for node in problem.activations}
    fewest = min(counts, key=counts.__getitem__, default=None)
    detail = "no node has an activation" if fewest is None else f"{counts[fewest]} neurons in {fewest!r}"
    return Assumption("share of a single neuron", 1 / counts[fewest] if fewest else 0.0, 1 / MANY, detail)


def refined(simulation: Simulation, losses: np.ndarray, own: bool) -> tuple[Simulation, np.ndarray, Assumption, str]:
    """Follow all draws at smaller tolerances until two agree, and return the more accurate of the two.

    The tolerance is also the width over which gates open, which can decide whether a neuron dies. Returns the
    simulation, its losses, a row for the certificate, and why nothing was measured, if so.
    own: the neurons are the network's own, and no sample of them; then gates that were not resolved are a failing
    assumption. Two curves may agree by chance, so they have to be nearer to each other than to the truth.
    """
    request, problem = simulation.request, simulation.problem
    work = problem.architecture.weight_count * len(problem.task) * len(simulation.first)
    unchecked = ""
    if request.check is False:
        unchecked = "not checked at a smaller rtol: as requested (check=False)"
    elif request.check == "auto" and work > 300_000:  # a second flow is not affordable
        unchecked = "not checked at a smaller rtol: the network is too large (check=True does it)"
    if unchecked:
        return simulation, losses, single_neurons(problem), unchecked
    most = STEPS if work > 30_000 else 4 * STEPS  # of a second or two
    apart, advice = None, ""
    steps = request.max_steps if request.check is True else min(request.max_steps, most)
    for _ in range(3):
        finer = replace(simulation, request=replace(request, rtol=FINER * simulation.request.rtol, max_steps=steps))
        try:
            found = finer.follow()
        except RangeError:
            advice = f"a smaller rtol takes over {steps:,} steps; check=True follows it to max_steps"
            break
        sizes = np.maximum(np.abs(found).sum(axis=1), np.finfo(float).tiny)
        gaps = np.abs(found - losses).sum(axis=1) / sizes
        apart, worst = float(gaps.max()), int(gaps.argmax())
        both = (losses[worst] > 0) & (found[worst] > 0)
        logs = np.abs(np.log10(losses[worst][both] / found[worst][both])).mean() if both.any() else 0.0
        simulation, losses = finer, found
        if apart <= AGREED:
            break
    if apart is None:  # gates that flip so often may decide a curve, and nothing shows that these do not
        return simulation, losses, Assumption("accuracy of the gates", 1.0, TOLERANCE, advice, own), ""
    rtol = simulation.request.rtol
    detail = (
        f"the farthest of {len(losses)} draws at rtol {rtol:.2g} from itself at {rtol / FINER:.2g} (normalized L1; "
    )
    detail += f"mean gap of log10 loss {logs:.2g})" + (f": {advice}" if apart > AGREED and advice else "")
    return simulation, losses, Assumption(CHECKED, apart, AGREED, detail), ""
