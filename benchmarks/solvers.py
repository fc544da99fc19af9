"""Our explicit solver beside diffrax's Tsit5 with its own step control, warm, where both reach the same error."""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import diffrax
import jax
import numpy as np

import neuralrace as nr
from benchmarks.theory import FLOW_RTOL, warm
from neuralrace._engine.devices import compiled
from neuralrace.arrays import float64
from neuralrace.theory.flow.linear import linear_flow
from neuralrace.theory.integration.solution import Solution

STEPS = 10**6
STRICT = 1e-10  # of the reference, which Dopri8 makes
TRIED = 10.0 ** -np.arange(3.0, 9.0, 0.25)  # tolerances of Tsit5, until its error is as small as ours


@dataclass(frozen=True)
class Case:
    """A flow from given weights: what its loss above the part that no weight can change is at some times."""

    problem: nr.Problem
    weights: dict[Any, np.ndarray]
    times: np.ndarray
    formula: bool = False  # whether there is one to compare with


def rows() -> list[tuple[str, float, str]]:
    """Label, measured and required."""
    pathways = nr.tasks.contextual(structure="mixed").problem("common + all-but-one", hidden=100)
    contextual = Case(pathways, nr.initial.gaussian(0.005 / 700)(pathways, 0), np.linspace(0, 192, 201))
    shared = nr.tasks.routing(domains=7, trained=4).gatings["shared"](64)
    routing = Case(shared, nr.initial.orthogonal(0.2)(shared, 0), np.linspace(0, 80, 201))
    plateau, small = plateaus(32), plateaus(8)
    often = replace(contextual, times=np.linspace(0, 192, 8001))
    return [
        ("Tsit5 / our explicit solver: contextual, 19,600 unknowns, 1e-6", ratio(contextual, 1e-6), "reported"),
        ("... at 1e-4", ratio(contextual, 1e-4), "reported"),
        ("... at 1e-4, the loss at 8,001 times, which ours interpolates", ratio(often, 1e-4), "at least 1.5"),
        ("... error with rtol = atol = 1e-4 for every number / for every mode", of_numbers(contextual), "at least 1.5"),
        ("... routing, 3e-5", ratio(routing, FLOW_RTOL), "reported"),
        ("... plateaus, 1,216 unknowns, 1e-6", ratio(plateau, 1e-6), "at least 1.5"),
        ("... plateaus, 112 unknowns, 1e-6, crossed by Kvaerno5", ratio(small, 1e-6), "at least 1.5"),
        ("descent of 700 rectified neurons, step by step / several steps at once", strides(), "at least 1.5"),
    ]


def plateaus(hidden: int) -> Case:
    """A chain with two hidden layers and three modes that are learned one after the other."""
    chain = nr.Architecture({"x": 3, "h1": hidden, "h2": hidden, "y": 3}, [("x", "h1"), ("h1", "h2"), ("h2", "y")])
    inputs = np.sqrt(3) * np.eye(3)
    deep = nr.Problem(chain, nr.Task({"x": inputs}, {"y": inputs * [3.0, 2.0, 1.0]}))
    return Case(deep, nr.initial.decoupled(1e-3)(deep, 0), np.array([0.0, 300.0, 1e3, 2e3, 5e3, 2e4]), True)


def strides() -> float:
    """Seconds of a forecast of P2 Fig 4 by single steps over those of one that takes several at once."""
    network, initial = nr.ReLUNetwork(nr.tasks.contextual(3, "mixed").task, 700), nr.initial.gaussian(0.005 / 700)
    times = 0.024 * np.arange(0, 8001, 50)

    def forecast(at_once: int) -> None:
        method = nr.theory.Representatives(at_once=at_once)
        nr.predict(network, initial, times, method, key=0, learning_rate=0.024, dynamics="descent")

    taken = [warm(partial(forecast, at_once)) for at_once in (1, 6)]
    return taken[0] / taken[1]


@float64
def ratio(case: Case, rtol: float) -> float:
    """Seconds of Tsit5 over ours at a tolerance, with the largest tolerance whose error is not above ours."""
    end = case.times[-1]
    flow = linear_flow(case.problem.statistics(), case.weights, end, rtol)
    system, start = flow.solution.system, flow.solution.start
    unknowns = np.concatenate([np.ravel(stack) for stack in start.values()])
    size = np.sqrt(np.mean(unknowns**2))  # below it errors are absolute

    def ours() -> Any:
        return Solution(system, start, rtol, STEPS).at(case.times)[:, 0]

    def theirs(solver: Any, tolerance: float) -> Any:
        return jax.block_until_ready(_solved(solver, system, start, case.times, np.asarray(tolerance), size))

    if case.formula:
        exact = nr.predict(case.problem, case.weights, case.times, "closed_form").loss - flow.constant
    else:
        exact = theirs(diffrax.Dopri8(), STRICT)
    allowed = np.abs(ours() - exact).max()
    for tolerance in TRIED:
        if np.abs(theirs(diffrax.Tsit5(), tolerance) - exact).max() <= allowed:
            return warm(lambda: theirs(diffrax.Tsit5(), tolerance)) / warm(ours)  # noqa: B023  called at once
    raise RuntimeError(f"Tsit5 did not reach an error of {allowed:.2g}")


@float64
def of_numbers(case: Case, rtol: float = 1e-4) -> float:
    """The error of Tsit5 when its tolerances are the usual ones, over ours, at the same tolerance."""
    flow = linear_flow(case.problem.statistics(), case.weights, case.times[-1], rtol)
    system, start = flow.solution.system, flow.solution.start
    exact = _solved(diffrax.Dopri8(), system, start, case.times, np.asarray(STRICT), 1e-3)
    ours = Solution(system, start, rtol, STEPS).at(case.times)[:, 0]
    theirs = _solved(diffrax.Tsit5(), system, start, case.times, np.asarray(rtol), 1.0)
    return float(np.abs(theirs - exact).max() / np.abs(ours - exact).max())


@compiled
def _solved(solver: Any, system: Any, start: Any, times: Any, tolerance: Any, size: Any) -> Any:
    """The loss at times."""
    return diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, state, args: args.velocity(state)),
        solver,
        0.0,
        times[-1],
        None,
        start,
        system,
        saveat=diffrax.SaveAt(ts=times, fn=lambda t, state, args: args.record(state)[0]),
        stepsize_controller=diffrax.PIDController(rtol=tolerance, atol=tolerance * size),
        adjoint=diffrax.ForwardMode(),
        max_steps=STEPS,
    ).ys
