"""The maps of the nodes as functions of the weight matrices, batched over the states of the nodes (P1 eqs 3-4)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Array, Edge
from neuralrace.theory.flow.moments import State, StateMoments

Address = tuple[int, int]  # a block or a table, and the place there
Places = Mapping[Edge, Address]
CROSSED = 0.3  # of all pairs of a matrix and a source, from where on all are multiplied at once
DENSE = 10_000  # up to so many pairs of a state and a product their gates are a table
PADDED = 4_000  # up to so many numbers all matrices and maps have one shape: few kinds of products compile fast
SHORT = 16  # longest sum of products of small matrices that is a loop of ours and not a call for each matrix
TINY = 4_000  # ... and most products in it; with more XLA calls a library for each sum, three times as slow
Indices = Array | range  # the places (products,), or those between two; one if all products have the same
BlockStacks = tuple[jax.Array, ...]  # one array (edges, target, source) per block of edges of one shape


class Slot(eqx.Module):
    """What arrives at the states of a group over edges of one shape from states of one group: products, and their sums.

    A product is one matrix times the map of one source. In a state it counts with a gate. Where every state takes one
    product of its own, `gates` are all that is needed; few states and products have a dense table `mix`; else
    `chosen` lists the products of each state.
    """

    block: int = eqx.field(static=True)
    crossed: bool = eqx.field(static=True)  # products are a good part of all pairs of a matrix and a source
    table: int = eqx.field(static=True)  # where the maps of the sources are; -1 for an input node, whose map is one
    places: tuple[int, ...] | None = eqx.field(static=True)  # columns of the source among those of the state
    edges: Indices  # matrices of the block
    sources: Indices  # maps of the table
    gates: jax.Array | None  # (states,) or, with `chosen`, (states, most products of a state)
    chosen: jax.Array | None  # (states, most products of a state)
    mix: jax.Array | None  # (states, products)

    def arriving(self, stacks: BlockStacks, maps: dict[int, jax.Array]) -> jax.Array:
        """The sum of gated products in each state; (states, size, columns of the source)."""
        weights = stacks[self.block]
        if self.crossed:  # every matrix with every source in one large product
            products = jnp.einsum("eak,skb->esab", weights, maps[self.table])[self.edges, self.sources]
        else:
            products = _taken(weights, self.edges)
            if self.table >= 0:
                left = products[0] if len(products) == 1 else products  # one matrix for all is one large product
                products = multiply(left, _taken(maps[self.table], self.sources))
        if self.mix is not None and self.mix.shape[1] <= SHORT and len(self.mix) * products.size <= TINY:
            return jnp.sum(self.mix[..., None, None] * products, axis=1)
        if self.mix is not None:
            return jnp.tensordot(self.mix, products, 1)
        if self.gates is not None and self.chosen is not None:
            each = (self.gates[:, k, None, None] * products[self.chosen[:, k]] for k in range(self.chosen.shape[1]))
            return sum(each, start=jnp.zeros(()))
        return products if self.gates is None else self.gates[:, None, None] * products


class Group(eqx.Module):
    """States of one structure, computed at once: (states, size, columns)."""

    table: int = eqx.field(static=True)  # to which their maps are added
    count: int = eqx.field(static=True)
    size: int = eqx.field(static=True)
    columns: int = eqx.field(static=True)
    slots: tuple[Slot, ...]
    root: jax.Array | None  # L, (states, columns, rank), at outputs
    target: jax.Array | None  # Y, (states, size, rank), at outputs


def _taken(stack: jax.Array, chosen: Indices) -> jax.Array:
    """The gradient of a gathering is a loop, slow to run and to compile, that of a slice is not."""
    return stack[chosen.start : chosen.stop] if isinstance(chosen, range) else stack[chosen]


def multiply(left: jax.Array, right: jax.Array) -> jax.Array:
    """Products of stacks of matrices; those of tiny ones are one loop, where each would be a call of its own."""
    if left.shape[-1] > SHORT or left.size * right.shape[-1] > TINY:
        return left @ right
    return jnp.sum(left[..., None] * right[..., None, :, :], axis=-2)


def group_map(group: Group, stacks: BlockStacks, maps: dict[int, jax.Array]) -> jax.Array:
    """The maps of the states of a group, from those of their sources."""
    total = jnp.zeros((group.count, group.size, group.columns))
    for slot in group.slots:
        through = slot.arriving(stacks, maps)
        total = total + through if slot.places is None else total.at[..., jnp.array(slot.places)].add(through)
    return total


@dataclass(frozen=True)
class Blocks:
    """Which edges are stacked together: those whose matrices have one shape, which small ones are padded to."""

    edges: tuple[tuple[Edge, ...], ...]
    shapes: Mapping[Edge, tuple[int, int]]  # without the padding
    padded: tuple[tuple[int, int], ...]

    def stack(self, weights: Mapping[Edge, np.ndarray]) -> BlockStacks:
        """Gather the matrices of each block; what pads them is zero and stays so."""
        stacks = tuple(np.zeros((len(edges), *shape)) for edges, shape in zip(self.edges, self.padded, strict=True))
        for stack, edges in zip(stacks, self.edges, strict=True):
            for matrix, edge in zip(stack, edges, strict=True):
                rows, columns = self.shapes[edge]
                matrix[:rows, :columns] = weights[edge]
        return jax.device_put(stacks)

    def unstack(self, stacks: BlockStacks) -> dict[Edge, np.ndarray]:
        """Take the matrices out again, in numpy."""
        arrays = zip(self.edges, map(np.asarray, stacks), strict=True)
        pairs = [(edge, matrix) for edges, stack in arrays for edge, matrix in zip(edges, stack, strict=True)]
        return {edge: matrix[: self.shapes[edge][0], : self.shapes[edge][1]] for edge, matrix in pairs}


def batched_states(
    architecture: Architecture,
    moments: StateMoments,
    sizes: Mapping[str, int],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
) -> tuple[tuple[Group, ...], dict[int, jax.Array], Blocks]:
    """The states in groups, maps that are there from the start, and the blocks of edges.

    sizes: basis vectors of each node. inputs, outputs: their orthonormal bases.
    """
    shapes = {edge: (sizes[target], sizes[source]) for edge, (source, target) in architecture.edges.items()}
    widths, largest = sizes, max(sizes.values())
    columns = len(moments.states) * sum(sizes[name] for name in architecture.inputs)
    uniform = largest <= SHORT and largest * max(len(shapes) * largest, columns) <= PADDED
    if uniform:
        sizes = dict.fromkeys(sizes, largest)
    by_shape: dict[tuple[int, int], list[Edge]] = {}
    for edge, (source, target) in architecture.edges.items():
        by_shape.setdefault((sizes[target], sizes[source]), []).append(edge)
    blocks = Blocks(tuple(map(tuple, by_shape.values())), shapes, tuple(by_shape))
    batches = _batches(moments, sizes, widths, architecture.inputs if uniform else None)
    place = {edge: (b, i) for b, block in enumerate(blocks.edges) for i, edge in enumerate(block)}
    groups = []
    for members, table in zip(batches.members, batches.tables, strict=True):
        first = moments.states[members[0]]
        slots = _slots(moments, members, widths, place, batches)
        here: tuple[jax.Array | None, jax.Array | None] = (None, None)
        if members[0] in moments.outputs:
            here = _moments_in(moments, members, inputs, outputs, sizes[first.node], batches)
        wide = sum(widths[name] for name in batches.columns(first))
        groups.append(Group(table, len(members), sizes[first.node], wide, slots, *here))
    return tuple(groups), batches.given, blocks


@dataclass(frozen=True)
class _StateBatches:
    """States that are computed at once, those of one depth and shape, and the tables that their maps are in."""

    members: tuple[tuple[int, ...], ...]
    tables: tuple[int, ...]
    where: Mapping[int, Address]  # state -> its table and its row there
    given: dict[int, jax.Array]
    inputs: tuple[str, ...] | None  # what every state is taken to hear, if all have one shape

    def columns(self, state: State) -> tuple[str, ...]:
        """The input nodes whose basis vectors are the columns of its map."""
        return self.inputs or state.columns


def _batches(
    moments: StateMoments, sizes: Mapping[str, int], widths: Mapping[str, int], inputs: tuple[str, ...] | None
) -> _StateBatches:
    """Where all states have one shape they share one table, which begins with the maps of the inputs."""
    depth: dict[int, int] = {}
    for number, state in enumerate(moments.states):
        depth[number] = max((depth[source] + 1 for _, _, source in state.incoming), default=0)
    members: dict[tuple[object, ...], list[int]] = {}
    order = list(sizes)  # that of the edges in their blocks, so that most products take all of a block in its order
    for number in sorted(depth, key=lambda n: (depth[n], order.index(moments.states[n].node))):
        state = moments.states[number]
        if depth[number]:
            columns = tuple(widths[name] for name in inputs or state.columns)
            kind = (depth[number], number in moments.outputs, sizes[state.node], columns)
            members.setdefault(kind, []).append(number)
    where: dict[int, Address] = {}
    given, rows = {}, 0
    if inputs:
        sources = [number for number in depth if not depth[number]]
        maps = np.zeros((len(sources), sizes[inputs[0]], sum(widths[name] for name in inputs)))
        for row, number in enumerate(sources):
            node = moments.states[number].node
            maps[row, : widths[node], _places(inputs, (node,), widths)] = np.eye(widths[node])
            where[number] = (0, row)
        given, rows = {0: jax.device_put(maps)}, len(sources)
    for group, numbers in enumerate(members.values()):
        for row, number in enumerate(numbers):
            where[number] = (0, rows + row) if inputs else (group, row)
        rows += len(numbers)
    tables = tuple(0 if inputs else group for group in range(len(members)))
    return _StateBatches(tuple(map(tuple, members.values())), tables, where, given, inputs)


def _slots(
    moments: StateMoments, members: tuple[int, ...], widths: Mapping[str, int], place: Places, batches: _StateBatches
) -> tuple[Slot, ...]:
    """One slot for each kind of edge and source that some state of the group has."""
    kinds: dict[tuple[Any, ...], list[list[tuple[Address, float]]]] = {}
    for row, number in enumerate(members):
        state = moments.states[number]
        for edge, gate, source in state.incoming:
            table, position = batches.where.get(source, (-1, 0))
            whole, part = batches.columns(state), batches.columns(moments.states[source])
            kind = (place[edge][0], table, None if whole == part else tuple(_places(whole, part, widths)))
            by_state = kinds.setdefault(kind, [[] for _ in members])
            by_state[row].append(((place[edge][1], position), gate))
    found = []
    for kind, by_state in kinds.items():
        edges = sum(1 for block, _ in place.values() if block == kind[0])
        sources = sum(1 for table, _ in batches.where.values() if table == kind[1])
        found.append(_slot(kind, by_state, np.inf if batches.inputs else edges * sources))
    return tuple(found)


def _slot(kind: tuple[Any, ...], by_state: list[list[tuple[Address, float]]], pairs: float) -> Slot:
    """pairs: how many there are of a matrix of the block and a source in the table, if they may be crossed."""
    products = list(dict.fromkeys(pair for entries in by_state for pair, _ in entries))
    one_each = all(len(entries) == 1 for entries in by_state) and len(products) == len(by_state)
    if not one_each:
        products.sort()
    number = {pair: i for i, pair in enumerate(products)}
    edges, sources = (np.array(side) for side in zip(*products, strict=True))
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
    crossed = kind[1] >= 0 and 1 < len(products) >= CROSSED * pairs
    places = (edges, sources) if crossed else (_in_a_row(edges), _in_a_row(sources))
    return Slot(kind[0], crossed, kind[1], kind[2], *places, *jax.device_put((gates, chosen, mix)))


def _in_a_row(places: np.ndarray) -> np.ndarray | range:
    """Places that follow each other, or are all the same, as a range."""
    found = range(places[0], places[-1] + 1)
    return found if np.array_equal(places, found) or len(found) == 1 == len(set(places)) else places


def _places(whole: tuple[str, ...], part: tuple[str, ...], sizes: Mapping[str, int]) -> list[int]:
    """The columns of some input nodes among those of all that are heard."""
    starts = dict(zip(whole, np.cumsum([0, *(sizes[name] for name in whole)]).tolist(), strict=False))
    return [starts[name] + i for name in part for i in range(sizes[name])]


def _moments_in(
    moments: StateMoments,
    members: tuple[int, ...],
    inputs: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    size: int,
    batches: _StateBatches,
) -> tuple[jax.Array, jax.Array]:
    """The moments of a group of output states in the bases, padded with zeros to one rank and size."""
    rank, first = max(moments.outputs[number][0].shape[1] for number in members), moments.states[members[0]]
    widths = {name: basis.shape[1] for name, basis in inputs.items()}
    roots = np.zeros((len(members), sum(widths[name] for name in batches.columns(first)), rank))
    targets = np.zeros((len(members), size, rank))
    for root, target, number in zip(roots, targets, members, strict=True):
        state, place, (whole, seen) = moments.states[number], 0, moments.outputs[number]
        for name in state.columns:
            part = inputs[name].T @ whole[place : place + len(inputs[name])]
            root[_places(batches.columns(state), (name,), widths), : part.shape[1]] = part
            place += len(inputs[name])
        wanted = outputs[state.node].T @ seen
        target[: len(wanted), : wanted.shape[1]] = wanted
    return jax.device_put((roots, targets))
