"""Networks played again under imposed gates, from their own first weights: many gatings in one program.

Under gates that belong to modules the examples are seen through moments alone: of pairs of modules, S_mn = <g_m g_n x
x^T>, and of modules with the targets, C_m = <g_m y x^T>. And the neurons of a module are a linear layer: what they
span, at most inputs + outputs directions, is all that ever moves, so that a module of any width is followed exactly as
one matrix R, (directions, inputs + outputs), the triangle of its incoming and outgoing weights side by side.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.arrays import float64
from neuralrace.explanation.gating import Gating
from neuralrace.explanation.watched import Stretch, Watched


class Moments(NamedTuple):
    """What modules see of the examples, for several gatings at once, padded to as many modules."""

    pairs: np.ndarray  # (gatings, modules * inputs, modules * inputs)
    targets: np.ndarray  # (gatings, outputs, modules * inputs)
    inputs: np.ndarray  # (gatings, modules * inputs)
    wanted: np.ndarray  # (outputs,), the mean of the targets
    energy: np.ndarray  # (), the mean squared length of the targets


class State(NamedTuple):
    """Networks at one moment. modules: (gatings, seeds, modules, directions, inputs + outputs)."""

    modules: jax.Array
    offset: jax.Array  # (gatings, seeds, outputs)


@float64
def play(
    watched: Watched, plans: Sequence[Sequence[Gating]], stretches: Sequence[Stretch], rate: float, padded: int
) -> np.ndarray:
    """The losses (plans, seeds, records) of networks whose gates are those of a plan, one gating for each stretch.

    padded: modules of the program, at least as many as any gating has.
    """
    weights = [np.concatenate([watched.incoming[:, 0], watched.outgoing[:, 0]], axis=-1) for _ in plans]
    seeds, outputs = len(weights[0]), watched.network.targets.shape[1]
    offset, biased = np.zeros((len(plans), seeds, outputs)), jnp.asarray(float(watched.offset is not None))
    if watched.offset is not None:
        offset[:] = watched.offset[:, 0]
    records, losses = len(watched.steps), []
    for place, stretch in enumerate(stretches):
        gatings = [plan[place] for plan in plans]
        counts = np.zeros(records, dtype=int)  # as long in every stretch: one program serves all
        length = stretch.last - stretch.first
        counts[1 : length + 1] = np.diff(watched.steps[stretch.first : stretch.last + 1])
        bases, state = _narrowed(weights, offset, gatings, padded)
        moments = jax.tree.map(jnp.asarray, _moments(watched, gatings, padded))
        end, seen = _steps(moments, state, jnp.asarray(rate), jnp.asarray(counts), biased)
        found = np.asarray(seen)[: length + 1]
        losses.append(found if place == len(stretches) - 1 else found[:-1])
        offset = np.asarray(end.offset)
        for plan, gating in enumerate(gatings):
            _widen(weights[plan], gating, bases[plan], np.asarray(end.modules[plan]))
    return np.moveaxis(np.concatenate(losses), 0, -1)


def _moments(watched: Watched, gatings: Sequence[Gating], padded: int) -> Moments:
    network, rows, amount = watched.network, watched.inputs, watched.network.task.weights
    wanted, root = network.targets, np.sqrt(amount)[:, None]
    count, size = rows.shape
    pairs, targets, inputs = [], [], []
    for gating in gatings:
        gates = np.zeros((padded, count))
        gates[: len(gating)] = network.slope + (1 - network.slope) * gating.gates
        seen = root * (gates.T[:, :, None] * rows[:, None, :]).reshape(count, padded * size)
        pairs.append(seen.T @ seen)
        targets.append((root * wanted).T @ seen)
        inputs.append(root[:, 0] @ seen)
    energy = amount @ np.sum(wanted**2, axis=1)
    return Moments(np.stack(pairs), np.stack(targets), np.stack(inputs), amount @ wanted, np.asarray(energy))


Bases = list[dict[int, np.ndarray]]  # per seed: module -> (neurons, directions), orthonormal


def _narrowed(
    weights: list[np.ndarray], offset: np.ndarray, gatings: Sequence[Gating], padded: int
) -> tuple[list[Bases], State]:
    """The triangles of all modules, and the bases that lead back."""
    seeds, neurons, width = weights[0].shape
    directions = min(neurons, width)
    blocks = np.zeros((len(gatings), seeds, padded, directions, width))
    bases: list[Bases] = []
    for place, gating in enumerate(gatings):
        bases.append([])
        for seed in range(seeds):
            mine = {}
            for module in range(len(gating)):
                inside = gating.members[seed] == module
                basis, triangle = np.linalg.qr(weights[place][seed][inside])
                blocks[place, seed, module, : len(triangle)] = triangle
                mine[module] = basis
            bases[-1].append(mine)
    return bases, State(jnp.asarray(blocks), jnp.asarray(offset))


def _widen(weights: np.ndarray, gating: Gating, bases: Bases, blocks: np.ndarray) -> None:
    """Put what the modules came to back into their neurons; what is in no module stays as it was."""
    for seed, mine in enumerate(bases):
        for module, basis in mine.items():
            weights[seed][gating.members[seed] == module] = basis @ blocks[seed, module, : basis.shape[1]]


@jax.jit
def _steps(
    moments: Moments, state: State, rate: jax.Array, counts: jax.Array, biased: jax.Array
) -> tuple[State, jax.Array]:
    gatings, seeds, padded, _, width = state.modules.shape
    outputs = state.offset.shape[-1]
    size = width - outputs

    def look(at: State) -> tuple[jax.Array, jax.Array, jax.Array]:
        """The products A_m, (gatings, seeds, outputs, modules * inputs), what they make of the pairs, and the mean."""
        products = jnp.einsum("csmro,csmri->csomi", at.modules[..., size:], at.modules[..., :size])
        flat = products.reshape(gatings, seeds * outputs, padded * size)
        through = (flat @ moments.pairs).reshape(gatings, seeds, outputs, padded * size)
        mean = (flat @ moments.inputs[:, :, None]).reshape(gatings, seeds, outputs)
        return flat.reshape(through.shape), through, mean

    def loss(at: State) -> jax.Array:
        products, through, mean = look(at)
        modules = jnp.sum(products * (0.5 * through - moments.targets[:, None]), axis=(-2, -1))
        constant = jnp.sum(at.offset * (mean + 0.5 * at.offset - moments.wanted), axis=-1)
        return jnp.asarray(0.5 * moments.energy + modules + constant)

    def step(_: int, at: State) -> State:
        through, mean = look(at)[1:]
        error = through - moments.targets[:, None] + at.offset[..., None] * moments.inputs[:, None, None]
        error = error.reshape(gatings, seeds, outputs, padded, size)
        incoming, outgoing = at.modules[..., :size], at.modules[..., size:]
        slope = (
            jnp.einsum("csmro,csomi->csmri", outgoing, error),
            jnp.einsum("csmri,csomi->csmro", incoming, error),
        )
        offset = at.offset - rate * biased * (mean + at.offset - moments.wanted)
        return State(at.modules - rate * jnp.concatenate(slope, axis=-1), offset)

    def to_record(at: State, count: jax.Array) -> tuple[State, jax.Array]:
        at = jax.lax.fori_loop(0, count, step, at)
        return at, loss(at)

    return jax.lax.scan(to_record, state, counts)
