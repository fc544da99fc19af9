"""What is measured of trained networks beside their modules: what modules do, how neurons mix groups, what held."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from neuralrace.analysis.selectivity import share_by_groups
from neuralrace.reln import Discovery, gate_samples, neuron_strengths
from neuralrace.task import Task
from neuralrace.theory import Certificate, Forecast
from neuralrace.training import ReLUNetwork
from neuralrace.trajectory import Trajectory

NAMED = 4  # columns that are named, at most
SINGULAR_VALUES = 5  # that are listed, at most


@dataclass(frozen=True, eq=False)
class Module:
    """One module. on: (N,) of bool. responds, writes: in words. written: (outputs,), the mean size of what it adds.

    singular_values: of the input-output correlation of the examples that it is on for, its effective data set. learned:
    when the forecast has half of its strongest mode; infinite if never.
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

    @property
    def specific(self) -> float:
        """The share of neurons that are active in exactly one group."""
        return float(self.share[1])


class Held(NamedTuple):
    """How far one assumption held, in words."""

    assumption: str
    measured: str


def describe_modules(
    run: Trajectory,
    network: ReLUNetwork,
    found: Discovery,
    forecast: Forecast,
    groups: np.ndarray | None,
    labels: tuple[Sequence[str], Sequence[str]],
) -> tuple[Module, ...]:
    """Every module of every layer, in the order of `found.patterns`; forecast: of the gated network that was found."""
    times = _learned(forecast)
    modules = []
    for place, layer in enumerate(found.layers):
        last = place == len(found.layers) - 1
        prefix = f"{layer.name}_" if len(found.layers) > 1 else ""
        written = _written(run, network, layer.members, len(layer.modules)) if last else None
        for index, pattern in enumerate(layer.modules.patterns):
            name = f"{prefix}m{index}"
            added = np.zeros(network.targets.shape[1]) if written is None else written[index]
            modules.append(
                Module(
                    name=name,
                    layer=layer.name,
                    neurons=float(np.mean(np.sum(layer.members == index, axis=1))),
                    share=float(layer.modules.share[index]),
                    consistency=float(layer.modules.consistency[index]),
                    on=pattern,
                    responds=_responds(pattern, groups, network.inputs, labels[0]),
                    writes=_columns(added, labels[1], "output") if last else "all modules of the next layer",
                    written=added,
                    singular_values=_effective(network.task, network.inputs, network.targets, pattern),
                    learned=times.get(name, float("inf")),
                )
            )
    return tuple(modules)


def measure_selectivity(run: Trajectory, layers: Sequence[str], groups: np.ndarray) -> tuple[Selectivity, ...]:
    """In how many groups the neurons of each layer are active at the end, and were before training."""
    found = []
    for layer in layers:
        samples = gate_samples(run, layer)
        strength = neuron_strengths(run, layer)
        end = samples[:, -1]
        shares = (
            share_by_groups(end, groups),
            share_by_groups(end, groups, strength),
            share_by_groups(samples[:, 0], groups),
        )
        found.append(Selectivity(layer, *shares))
    return tuple(found)


def measure_assumptions(run: Trajectory, found: Discovery, certificate: Certificate) -> tuple[Held, ...]:
    """What the description by modules rests on."""
    held = []
    for layer in found.layers:
        samples = gate_samples(run, layer.name)
        active = layer.members >= 0
        agree = (layer.modules.patterns[layer.members] == samples[:, -1])[active]
        flips = (samples[:, 1:] != samples[:, :-1]).mean(axis=(0, 2, 3))
        half = len(flips) // 2
        kind = f"{layer.name}: " if len(found.layers) > 1 else ""
        held.append(
            Held(
                f"{kind}neurons gate like their module",
                f"{agree.mean() if agree.size else 1:.1%} of gates agree at the end; "
                f"{1 - np.mean(active):.1%} of neurons are silent",
            )
        )
        held.append(
            Held(
                f"{kind}gates do not change",
                f"{flips[:half].mean():.1%} of gates change from record to record in the first half of training, "
                f"{flips[half:].mean():.1%} in the second",
            )
        )
    kind = "the theory's own"
    held += [Held(kind, " ".join(str(assumption).split())) for assumption in certificate.assumptions]
    return (*held, *(Held(kind, f"not by {entry.method}: {entry.reason}") for entry in certificate.declined))


def _learned(forecast: Forecast) -> dict[str, float]:
    """Node -> when a path through it first has half of its last strength, all modes together."""
    found: dict[str, float] = {}
    for path in forecast.modes.paths:
        strength = np.linalg.norm(forecast.modes.path(path), axis=0)
        if strength[-1] <= strength[0]:
            continue
        time = float(forecast.time[int(np.argmax(strength >= strength[-1] / 2))])
        for edge in path.edges[:-1]:
            node = forecast.architecture.target(edge)
            found[node] = min(time, found.get(node, float("inf")))
    return found


def _written(run: Trajectory, network: ReLUNetwork, members: np.ndarray, count: int) -> np.ndarray:
    """(modules, outputs): the mean over runs and examples of the size of what a module adds to the output."""
    read_out, layer = run.edges[-1], network.architecture.hidden[-1]
    added = np.zeros((count, network.targets.shape[1]))
    for seed in range(len(run.loss)):
        weights = run.weights(seed)
        received = network.preactivations(weights)[layer]
        activity = np.where(received > 0, received, network.slope * received)
        for module in range(count):
            inside = members[seed] == module
            added[module] += np.abs(activity[:, inside] @ weights[read_out][:, inside].T).mean(axis=0)
    return added / len(run.loss)


def _effective(task: Task, rows: np.ndarray, wanted: np.ndarray, pattern: np.ndarray) -> np.ndarray:
    """Singular values of the correlation between inputs and targets over the examples that a module is on for."""
    correlation = (wanted * (task.weights * pattern)[:, None]).T @ rows
    return np.linalg.svd(correlation, compute_uv=False)[:SINGULAR_VALUES]


def _responds(pattern: np.ndarray, groups: np.ndarray | None, rows: np.ndarray, labels: Sequence[str]) -> str:
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
    return f"{int(pattern.sum())} of {len(pattern)} examples; more of {_columns(difference, labels, 'input')}"


def _columns(sizes: np.ndarray, labels: Sequence[str], kind: str) -> str:
    """The columns with the largest positive numbers, by name or number."""
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:NAMED] if sizes[i] > 0.1 * sizes.max()]
    names = [labels[i] if labels else f"{kind} {i + 1}" for i in order if sizes[i] > 0]
    return ", ".join(names) or "nothing"
