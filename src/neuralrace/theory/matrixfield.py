"""The loss and its gradient flow over weight matrices, batched over the states of the nodes (P1 eqs 3-4)."""

from collections.abc import Mapping
from dataclasses import dataclass

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.theory.moments import Moments, OutputMoments
from neuralrace.types import Edge

Pair = tuple[int, int]
Places = Mapping[Edge, Pair]  # edge -> its block and its place there
Stacks = tuple[jax.Array, ...]  # one array (edges, target, source) per block of edges of one shape


class Slot(eqx.Module):
    """One incoming edge of every state of a group: which matrix, which source, which gate."""

    block: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)  # all states use the same matrix
    group: int = eqx.field(static=True)  # the source's group; -1 for an input node
    places: tuple[int, ...] | None = eqx.field(static=True)  # columns of the source among those of the state
    edges: jax.Array
    sources: jax.Array
    gates: jax.Array


class Group(eqx.Module):
    """States of one structure, computed at once: (states, size, columns)."""

    count: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    slots: tuple[Slot, ...]
    root: jax.Array | None  # L, (states, columns, rank), at outputs
    target: jax.Array | None  # Y, (states, size, rank), at outputs


class MatrixField(eqx.Module):
    """Loss and velocity -dL/dW of all weight matrices, from moments alone."""

    groups: tuple[Group, ...]
    constant: jax.Array

    def loss(self, stacks: Stacks) -> jax.Array:
        """Half the weighted mean squared error."""
        return self.constant + self.excess(stacks)

    def excess(self, stacks: Stacks) -> jax.Array:
        """The loss above what no weight can change."""
        maps: list[jax.Array] = []
        total = jnp.zeros(())
        for group in self.groups:
            maps.append(_group_map(group, stacks, maps))
            if group.root is not None and group.target is not None:
                error = maps[-1] @ group.root - group.target
                total = total + 0.5 * jnp.sum(error**2)
        return total

    def velocity(self, stacks: Stacks) -> Stacks:
        """dW/dt = -dL/dW."""
        return jax.tree.map(jnp.negative, jax.grad(self.excess)(stacks))


def _group_map(group: Group, stacks: Stacks, maps: list[jax.Array]) -> jax.Array:
    total = jnp.zeros((group.count, group.size, group.columns))
    for slot in group.slots:
        weights = stacks[slot.block]
        through = weights[slot.edges[0]] if slot.shared else weights[slot.edges]
        if slot.group >= 0:
            through = through @ maps[slot.group][slot.sources]
        through = slot.gates[:, None, None] * through
        total = total + through if slot.places is None else total.at[..., jnp.array(slot.places)].add(through)
    return total


@dataclass(frozen=True)
class Blocks:
    """Which edges are stacked together: those whose matrices have one shape."""

    edges: tuple[tuple[Edge, ...], ...]

    def stack(self, weights: Mapping[Edge, np.ndarray]) -> Stacks:
        """Gather the matrices of each block."""
        return tuple(jnp.stack([jnp.asarray(weights[edge]) for edge in block]) for block in self.edges)

    def unstack(self, stacks: Stacks) -> dict[Edge, np.ndarray]:
        """Take the matrices out again, in numpy."""
        arrays = [np.asarray(stack) for stack in stacks]
        return {edge: arrays[b][i] for b, block in enumerate(self.edges) for i, edge in enumerate(block)}


def make_field(
    architecture: Architecture,
    moments: Moments,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> tuple[MatrixField, Blocks]:
    """Batch the states; sizes: coordinates of each node, inputs and outputs: their orthonormal bases."""
    by_shape: dict[tuple[int, int], list[Edge]] = {}
    for edge, (source, target) in architecture.edges.items():
        by_shape.setdefault((sizes[target], sizes[source]), []).append(edge)
    blocks = Blocks(tuple(tuple(edges) for edges in by_shape.values()))
    place = {edge: (b, i) for b, block in enumerate(blocks.edges) for i, edge in enumerate(block)}
    at_output = {entry.state: entry for entry in moments.outputs}
    batches: dict[tuple[object, ...], list[int]] = {}
    where: dict[int, tuple[int, int]] = {}
    numbers: dict[tuple[object, ...], int] = {}
    for number, state in enumerate(moments.states):
        if not state.incoming:
            continue
        key = _key(moments, number, number in at_output, sizes, place, where)
        members = batches.setdefault(key, [])
        where[number] = (numbers.setdefault(key, len(numbers)), len(members))
        members.append(number)
    groups = []
    for key in batches:
        slots = _slots(moments, batches[key], sizes, place, where)
        first = moments.states[batches[key][0]]
        moments_here: tuple[jax.Array | None, jax.Array | None] = (None, None)
        if batches[key][0] in at_output:
            entries = [at_output[number] for number in batches[key]]
            moments_here = _padded(moments, entries, inputs, outputs)
        columns = sum(sizes[name] for name in first.columns)
        groups.append(Group(len(batches[key]), sizes[first.node], columns, slots, *moments_here))
    return MatrixField(tuple(groups), jnp.asarray(moments.constant)), blocks


def _key(
    moments: Moments, number: int, output: bool, sizes: Mapping[str, int], place: Places, where: Mapping[int, Pair]
) -> tuple[object, ...]:
    """States with the same key have maps of the same shape, made in the same way."""
    state = moments.states[number]
    slots = []
    for edge, _, source in state.incoming:
        before = moments.states[source]
        slots.append((place[edge][0], where.get(source, (-1, 0))[0], _places(state.columns, before.columns, sizes)))
    return (output, sizes[state.node], tuple(sizes[name] for name in state.columns), tuple(slots))


def _slots(
    moments: Moments, members: list[int], sizes: Mapping[str, int], place: Places, where: Mapping[int, Pair]
) -> tuple[Slot, ...]:
    slots = []
    for k, (edge, _, source) in enumerate(moments.states[members[0]].incoming):
        entries = [moments.states[number].incoming[k] for number in members]
        edges = np.array([place[e][1] for e, _, _ in entries])
        state, before = moments.states[members[0]], moments.states[source]
        slots.append(
            Slot(
                block=place[edge][0],
                shared=bool((edges == edges[0]).all()),
                group=where.get(source, (-1, 0))[0],
                places=_places(state.columns, before.columns, sizes),
                edges=jnp.asarray(edges),
                sources=jnp.asarray(np.array([where.get(s, (-1, 0))[1] for _, _, s in entries])),
                gates=jnp.asarray(np.array([gate for _, gate, _ in entries])),
            )
        )
    return tuple(slots)


def _places(whole: tuple[str, ...], part: tuple[str, ...], sizes: Mapping[str, int]) -> tuple[int, ...] | None:
    if whole == part:
        return None
    starts = dict(zip(whole, np.cumsum([0, *(sizes[name] for name in whole)]).tolist(), strict=False))
    return tuple(starts[name] + i for name in part for i in range(sizes[name]))


def _padded(
    moments: Moments,
    entries: list[OutputMoments],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> tuple[jax.Array, jax.Array]:
    """The moments of a group of output states in the bases, padded with zeros to one rank."""
    rank = max(entry.root.shape[1] for entry in entries)
    roots, targets = [], []
    for entry in entries:
        state = moments.states[entry.state]
        stops = np.cumsum([inputs[name].shape[0] for name in state.columns])[:-1]
        parts = np.split(entry.root, stops)
        rows = [inputs[name].T @ part for name, part in zip(state.columns, parts, strict=True)]
        pad = ((0, 0), (0, rank - entry.root.shape[1]))
        roots.append(np.pad(np.vstack(rows), pad))
        targets.append(np.pad(outputs[state.node].T @ entry.target, pad))
    return jnp.asarray(np.stack(roots)), jnp.asarray(np.stack(targets))
