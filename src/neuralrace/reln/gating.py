"""Modules of a stretch of time: neurons that one gate can replace, found by what the replacement would change."""

from dataclasses import dataclass, field

import numpy as np

from neuralrace.reln.modular import Layer
from neuralrace.reln.modules import Modules
from neuralrace.reln.watched import Stretch

RESTARTS = 6
ROUNDS = 30
AT_THRESHOLD = 0.01  # of what a module would carry for an example if it treated all alike; below, it is closed
STRONG = 1024  # neurons that are clustered; of more, so many that carry most, and the rest join the nearest


@dataclass(frozen=True, eq=False)
class LayerGating:
    """Modules with a gate for each example, the one that carries most first.

    gates: (modules, N), from 0 to 1. members: (seeds, neurons), the module of each neuron, -1 for one that is on for
    nothing. consistency: (modules,), the share of what its neurons carry whose gate is on the side of one half that
    the module's is. share: (modules,), of all that is carried.
    """

    gates: np.ndarray = field(repr=False)
    members: np.ndarray = field(repr=False)
    consistency: np.ndarray
    share: np.ndarray

    @classmethod
    def of_layer(cls, layer: Layer) -> "LayerGating":
        """The modules of a layer as `reln` finds them."""
        modules = layer.modules
        return cls(np.asarray(modules.patterns, dtype=float), layer.members, modules.consistency, modules.share)

    def as_layer(self, name: str) -> Layer:
        """The same as a layer of a `Modular` network."""
        silent = float(np.mean(self.members < 0))
        return Layer(name, Modules(self.gates, self.patterns, self.consistency, self.share, silent), self.members)

    def __len__(self) -> int:
        return len(self.gates)

    @property
    def patterns(self) -> np.ndarray:
        """(modules, N) of bool: for which examples a module is on."""
        return self.gates > 0.5


def find_gating(stretch: Stretch, modules: int, key: int = 0) -> LayerGating:
    """Put neurons into modules so that their gates, replaced by their module's, change least of what is passed on.

    For one neuron and example the gate g changes sum |w|^2 z^2 (on - g)^2 = passed (1 - 2 g) + carried g^2, over the
    records; w: outgoing weights, z: what is received. Both steps of the iteration lower the sum: the gate of a module
    is passed over carried, and each neuron goes where it changes least.
    """
    shape, active = stretch.carried.shape[:2], ~stretch.silent
    carried, passed = stretch.carried[active], stretch.passed[active]
    if not len(carried):
        empty = np.zeros(0)
        return LayerGating(np.zeros((0, stretch.carried.shape[-1])), np.full(shape, -1), empty, empty)
    strong = np.argsort(-carried.sum(axis=1), kind="stable")[:STRONG]
    random = np.random.default_rng([key, modules])
    tries = [_iterated(carried[strong], passed[strong], modules, random) for _ in range(RESTARTS)]
    gates = min(tries, key=lambda found: found[0])[1]
    chosen = np.argmin(_changes(carried, passed, gates), axis=1)
    members = np.full(shape, -1)
    members[active] = chosen
    return _described(gates, members, stretch)


def _iterated(
    carried: np.ndarray, passed: np.ndarray, modules: int, random: np.random.Generator
) -> tuple[float, np.ndarray]:
    """One descent from a spread start: the sum that is left, and the gates."""
    gates = _start(carried, passed, modules, random)
    before = np.inf
    for _ in range(ROUNDS):
        changes = _changes(carried, passed, gates)
        chosen, total = changes.argmin(axis=1), float(changes.min(axis=1).sum())
        if total >= before * (1 - 1e-9):
            break
        before, inside = total, np.eye(len(gates))[:, chosen]
        gates = _ratio(inside @ passed, inside @ carried)
    return before, gates


def _start(carried: np.ndarray, passed: np.ndarray, modules: int, random: np.random.Generator) -> np.ndarray:
    """Gates of single neurons, each drawn by how much it would change under those that are there."""
    own, whole = _ratio(passed, carried), carried.sum(axis=1)
    least = np.sum(passed * (1 - own), axis=1)  # of a neuron under its own gate
    chosen = [int(random.choice(len(own), p=_shares(whole)))]
    left = np.full(len(own), np.inf)
    while len(chosen) < modules:
        left = np.minimum(left, _changes(carried, passed, own[chosen[-1:]])[:, 0] - least)
        left[left <= 1e-9 * whole] = 0.0
        if not left.any():  # there are no more patterns
            break
        chosen.append(int(random.choice(len(own), p=_shares(left))))
    return np.asarray(own[chosen])


def _changes(carried: np.ndarray, passed: np.ndarray, gates: np.ndarray) -> np.ndarray:
    """(neurons, modules): how much of what is passed on would change."""
    return np.asarray(passed.sum(axis=1)[:, None] - 2 * passed @ gates.T + carried @ (gates**2).T)


def _described(gates: np.ndarray, members: np.ndarray, stretch: Stretch) -> LayerGating:
    """Leave out modules that are on for nothing, and put the others in order.

    Where the neurons of a module sit at their threshold, the gate is the sign of next to nothing; it counts as closed.
    """
    amount = np.array([stretch.carried[members == m].sum(axis=0) for m in range(len(gates))])
    carried = amount.sum(axis=1)
    alike = np.outer(carried, amount.sum(axis=0)) / max(carried.sum(), np.finfo(float).tiny)
    gates = np.where(amount > AT_THRESHOLD * alike, gates, 0.0)
    kept = [m for m in np.argsort(-carried, kind="stable") if carried[m] > 0 and (gates[m] > 0.5).any()]
    numbers = np.full(len(gates) + 1, -1)
    numbers[kept] = np.arange(len(kept))
    agree = []
    for m in kept:
        inside = members == m
        passed, whole = stretch.passed[inside].sum(axis=0), stretch.carried[inside].sum(axis=0)
        agree.append(float(np.where(gates[m] > 0.5, passed, whole - passed).sum() / whole.sum()))
    share = carried[kept] / max(carried[kept].sum(), np.finfo(float).tiny)
    return LayerGating(gates[kept], numbers[members], np.array(agree), share)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _shares(sizes: np.ndarray) -> np.ndarray:
    return np.asarray(sizes / sizes.sum())
