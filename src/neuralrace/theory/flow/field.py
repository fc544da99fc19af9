"""The loss and its gradient flow over weight matrices, batched over the states of the nodes (P1 eqs 3-4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.theory.flow.moments import Moments, OutputMoments

Pair = tuple[int, int]
Places = Mapping[Edge, Pair]  # edge -> its block and its place there
CROSSED = 0.3  # of all pairs of a matrix and a source, from where on all are multiplied at once
DENSE = 10_000  # up to so many pairs of a state and a product their gates are a table
Stacks = tuple[jax.Array, ...]  # one array (edges, target, source) per block of edges of one shape


class Slot(eqx.Module):
    """What arrives at the states of a group over edges of one shape from states of one group: products, and their sums.

    A product is one matrix times the map of one source. In a state it counts with a gate. Where every state takes one
    product of its own, `gates` are all that is needed; few states and products have a dense table `mix`; else
    `chosen` lists the products of each state.
    """

    block: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)  # all products use the same matrix
    crossed: bool = eqx.field(static=True)  # products are a good part of all pairs of a matrix and a source
    group: int = eqx.field(static=True)  # the sources' group; -1 for an input node
    places: tuple[int, ...] | None = eqx.field(static=True)  # columns of the source among those of the state
    edges: jax.Array  # (products,)
    sources: jax.Array  # (products,)
    gates: jax.Array | None  # (states,) or, with `chosen`, (states, most products of a state)
    chosen: jax.Array | None  # (states, most products of a state)
    mix: jax.Array | None  # (states, products)

    def arriving(self, stacks: Stacks, maps: list[jax.Array]) -> jax.Array:
        """The sum of gated products in each state; (states, size, columns of the source)."""
        weights = stacks[self.block]
        if self.crossed:  # every matrix with every source in one large product
            products = jnp.einsum("eak,skb->esab", weights, maps[self.group])[self.edges, self.sources]
        else:
            products = weights[self.edges[0]] if self.shared else weights[self.edges]
            if self.group >= 0:
                products = products @ maps[self.group][self.sources]
            elif self.shared:
                products = products[None]
        if self.mix is not None:
            return jnp.tensordot(self.mix, products, 1)
        if self.gates is not None and self.chosen is not None:
            each = (self.gates[:, k, None, None] * products[self.chosen[:, k]] for k in range(self.chosen.shape[1]))
            return sum(each, start=jnp.zeros(()))
        return products if self.gates is None else self.gates[:, None, None] * products


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
        through = slot.arriving(stacks, maps)
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
    where: dict[int, Pair] = {}
    depth: dict[int, int] = {}
    for number, state in enumerate(moments.states):
        depth[number] = max((depth[source] + 1 for _, _, source in state.incoming), default=0)
    numbers: dict[tuple[object, ...], int] = {}
    for number in sorted(depth, key=lambda n: depth[n]):
        if depth[number]:
            state = moments.states[number]
            widths = tuple(sizes[name] for name in state.columns)
            kind = (depth[number], number in at_output, sizes[state.node], widths)
            members = batches.setdefault(kind, [])
            where[number] = (numbers.setdefault(kind, len(numbers)), len(members))
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


def _slots(
    moments: Moments, members: list[int], sizes: Mapping[str, int], place: Places, where: Mapping[int, Pair]
) -> tuple[Slot, ...]:
    """One slot for each kind of edge and source that some state of the group has."""
    kinds: dict[tuple[Any, ...], list[list[tuple[Pair, float]]]] = {}
    for row, number in enumerate(members):
        state = moments.states[number]
        for edge, gate, source in state.incoming:
            group, position = where.get(source, (-1, 0))
            kind = (place[edge][0], group, _places(state.columns, moments.states[source].columns, sizes))
            by_state = kinds.setdefault(kind, [[] for _ in members])
            by_state[row].append(((place[edge][1], position), gate))
    pairs = {
        kind: sum(1 for block, _ in place.values() if block == kind[0])
        * sum(1 for group, _ in where.values() if group == kind[1])
        for kind in kinds
    }
    return tuple(_slot(kind, by_state, pairs[kind]) for kind, by_state in kinds.items())


def _slot(kind: tuple[Any, ...], by_state: list[list[tuple[Pair, float]]], pairs: int) -> Slot:
    """pairs: how many there are of a matrix of the block and a source of the group."""
    products = list(dict.fromkeys(pair for entries in by_state for pair, _ in entries))
    number = {pair: i for i, pair in enumerate(products)}
    edges, sources = (np.array(side) for side in zip(*products, strict=True))
    one_each = all(len(entries) == 1 for entries in by_state) and len(products) == len(by_state)
    most = max(len(entries) for entries in by_state)
    gates, chosen, mix = None, None, None
    if one_each:
        gates = np.array([entries[0][1] for entries in by_state])
    elif len(by_state) * len(products) <= DENSE:
        mix = np.zeros((len(by_state), len(products)))
        for row, entries in enumerate(by_state):
            for pair, gate in entries:
                mix[row, number[pair]] += gate
    else:
        gates, chosen = np.zeros((len(by_state), most)), np.zeros((len(by_state), most), dtype=int)
        for row, entries in enumerate(by_state):
            for k, (pair, gate) in enumerate(entries):
                gates[row, k], chosen[row, k] = gate, number[pair]
    arrays = [None if array is None else jnp.asarray(array) for array in (gates, chosen, mix)]
    shared = bool((edges == edges[0]).all())
    crossed = kind[1] >= 0 and 1 < len(products) >= CROSSED * pairs
    return Slot(kind[0], shared, crossed, kind[1], kind[2], jnp.asarray(edges), jnp.asarray(sources), *arrays)


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
    first = moments.states[entries[0].state]
    roots = np.zeros((len(entries), sum(inputs[name].shape[1] for name in first.columns), rank))
    targets = np.zeros((len(entries), outputs[first.node].shape[1], rank))
    for row, entry in enumerate(entries):
        state, place, start = moments.states[entry.state], 0, 0
        for name in state.columns:
            basis = inputs[name]
            part = basis.T @ entry.root[place : place + len(basis)]
            roots[row, start : start + len(part), : part.shape[1]] = part
            place, start = place + len(basis), start + len(part)
        targets[row, :, : entry.target.shape[1]] = outputs[state.node].T @ entry.target
    return jnp.asarray(roots), jnp.asarray(targets)
