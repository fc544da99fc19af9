"""What is measured of trained networks beside their modules: what modules do, how neurons mix groups, what held."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neuralrace.analysis import share_by_groups
from neuralrace.explanation.trained import ALONG, along_gradient
from neuralrace.reln import gate_samples, neuron_strengths
from neuralrace.reln.course import written_by
from neuralrace.reln.gating import LayerGating
from neuralrace.reln.passing import final_weights, received_by
from neuralrace.reln.watched import Watched
from neuralrace.task import Task
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

NAMED = 4  # columns that are named, at most
SINGULAR_VALUES = 5  # that are listed, at most
ROUNDING = 1e-12  # of the largest singular value


@dataclass(frozen=True, eq=False)
class Module:
    """One module. on: (N,) of bool. responds, writes: in words. written: (outputs,), the mean size of what it adds.

    singular_values: of the input-output correlation of the examples that it is on for, its effective data set. learned:
    when it had half of its last strength; infinite if it never grew, not a number if that is not known.
    """

    name: str
    layer: str
    neurons: float
    share: float
    consistency: float
    on: np.ndarray
    responds: str
    writes: str
    written: np.ndarray
    singular_values: np.ndarray
    learned: float


class Selectivity(NamedTuple):
    """How many groups neurons of a layer are active in: shares of neurons, of strength, and before training."""

    layer: str
    share: np.ndarray
    share_of_strength: np.ndarray
    before: np.ndarray


class Held(NamedTuple):
    """How far one assumption held, in words."""

    assumption: str
    measured: str


def describe_modules(
    run: Trajectory,
    network: ReLUNetwork,
    layers: Mapping[str, LayerGating],
    watched: Watched | None,
    groups: np.ndarray | None,
    labels: tuple[Sequence[str], Sequence[str]],
) -> tuple[Module, ...]:
    """Every module of every layer; watched: where there is one alone, of which it is known when its modules grew."""
    modules = []
    for place, (layer, gating) in enumerate(layers.items()):
        last = place == len(layers) - 1
        prefix = f"{layer}_" if len(layers) > 1 else ""
        written = _written(run, network, gating.members, len(gating)) if last else None
        grown = np.full(len(gating), np.nan) if watched is None else growth(watched, gating, run.time)
        for index, pattern in enumerate(gating.patterns):
            added = np.zeros(network.targets.shape[1]) if written is None else written[index]
            modules.append(
                Module(
                    name=f"{prefix}m{index}",
                    layer=layer,
                    neurons=float(np.mean(np.sum(gating.members == index, axis=1))),
                    share=float(gating.share[index]),
                    consistency=float(gating.consistency[index]),
                    on=pattern,
                    responds=words_of(pattern, groups, network.inputs, labels[0]),
                    writes=_columns(added, labels[1], "output") if last else "all modules of the next layer",
                    written=added,
                    singular_values=_effective(network.task, network.inputs, network.targets, pattern),
                    learned=float(grown[index]),
                )
            )
    return tuple(modules)


def growth(watched: Watched, gating: LayerGating, time: np.ndarray) -> np.ndarray:
    """(modules,): when what the neurons of a module do together first had half of its last size, in the mean network.

    That is the norm of the sum over its neurons of outgoing times incoming weights; infinite where it never grew.
    """
    found = []
    for module in range(len(gating)):
        size = np.zeros(len(time))
        for seed, inside in enumerate(gating.members == module):
            both = watched.outgoing[seed][:, inside], watched.incoming[seed][:, inside]
            size += np.linalg.norm(np.einsum("rno,rni->roi", *both), axis=(1, 2))
        grew = size[-1] > 2 * size[0]
        found.append(float(time[int(np.argmax(size >= size[-1] / 2))]) if grew else float("inf"))
    return np.array(found)


def measure_selectivity(run: Trajectory, layers: Sequence[str], groups: np.ndarray) -> tuple[Selectivity, ...]:
    """In how many groups the neurons of each layer are active at the end, and were before training."""
    found = []
    for layer in layers:
        samples, strength = gate_samples(run, layer), neuron_strengths(run, layer)
        before, end = (share_by_groups(samples[:, record], groups) for record in (0, -1))
        found.append(Selectivity(layer, end, share_by_groups(samples[:, -1], groups, strength), before))
    return tuple(found)


def measure_assumptions(run: Trajectory, layers: Mapping[str, LayerGating], curvature: float) -> tuple[Held, ...]:
    """What the description by modules rests on; curvature: the largest that the task can lead to."""
    held = []
    for layer, gating in layers.items():
        samples = gate_samples(run, layer)
        active = gating.members >= 0
        agree = (gating.patterns[gating.members] == samples[:, -1])[active] if len(gating) else np.zeros(0)
        flips = (samples[:, 1:] != samples[:, :-1]).mean(axis=(0, 2, 3))
        half = int(np.searchsorted(run.time[1:], run.time[-1] / 2))
        kind = f"{layer}: " if len(layers) > 1 else ""
        alike, silent = agree.mean() if agree.size else 1, 1 - np.mean(active)
        told = f"{alike:.1%} of gates agree at the end; {silent:.1%} of neurons are on for nothing"
        held.append(Held(f"{kind}neurons gate like their module", told))
        if 0 < half < len(flips):
            first, second = flips[:half].sum(), flips[half:].sum()
            told = (
                f"a gate turns {first:.3g} times in the first half of training, {second:.3g} in the second, in the mean"
            )
            held.append(Held(f"{kind}gates do not change", told))
    rate, cosine = run.settings["learning_rate"], along_gradient(run)
    if cosine < ALONG:
        held.append(Held("descent follows its flow", f"the weights did not go down the gradient, cosine {cosine:.2f}"))
    elif rate is not None:  # a schedule has no one rate
        bound = f"learning rate times a bound on the curvature is {rate * curvature:.2g}; 2 would be unstable"
        held.append(Held("descent follows its flow", bound))
    return tuple(held)


def _written(run: Trajectory, network: ReLUNetwork, members: np.ndarray, count: int) -> np.ndarray:
    """(modules, outputs): the mean over runs and examples of the size of what a module adds to the output."""
    layer, weights = network.architecture.hidden[-1], final_weights(run)
    inside = members[..., None] == np.arange(count)
    added = written_by(network, weights, layer, received_by(network, weights, layer), inside)
    return np.abs(added).mean(axis=(1, 2))


def _effective(task: Task, rows: np.ndarray, wanted: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Singular values of the correlation between inputs and targets over the examples that a module is on for.

    Without those that are rounding: a class that it is never on for has none.
    """
    correlation = (wanted * (task.weights * pattern)[:, None]).T @ rows
    values = np.linalg.svd(correlation, compute_uv=False)[:SINGULAR_VALUES]
    return values[values >= ROUNDING * values[0]]


def words_of(pattern: np.ndarray, groups: np.ndarray | None, rows: np.ndarray, labels: Sequence[str]) -> str:
    """What a module is on for, in words."""
    if pattern.all():
        return "every example"
    if groups is not None:
        names = np.unique(groups)
        shares = np.array([pattern[groups == name].mean() for name in names])
        whole = [str(name) for name in names[shares == 1]]
        if np.isin(shares, (0, 1)).all():
            return f"groups {', '.join(whole)}"
        listed = ", ".join(f"{name}: {share:.0%}" for name, share in zip(names[:8], shares[:8], strict=True))
        return f"{int(pattern.sum())} of {len(pattern)} examples; by group {listed}{' ...' if len(names) > 8 else ''}"
    difference = rows[pattern].mean(axis=0) - rows[~pattern].mean(axis=0)
    told = f"{int(pattern.sum())} of {len(pattern)} examples"
    return f"{told}; more of {_columns(difference, labels, 'input')}" if (difference > 0).any() else told


def _columns(sizes: np.ndarray, labels: Sequence[str], kind: str) -> str:
    """The columns with the largest positive numbers, by name or number."""
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:NAMED] if sizes[i] > 0.1 * sizes.max()]
    names = [labels[i] if labels else f"{kind} {i + 1}" for i in order if sizes[i] > 0]
    return ", ".join(names) or "nothing"
