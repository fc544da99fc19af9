"""What is trained side by side: seeds in groups that fit into memory, and conditions that differ in numbers only."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.training.condition import Prepared, batch_keys
from neuralrace.training.loop import Program, Training

SEED_BYTES = 1 << 30  # seeds that are trained side by side may take this much of each device


def seed_groups(prepared: Prepared, seeds: int) -> list[slice]:
    """As many seeds side by side as memory allows; each group is one run of the same program."""
    program = prepared.program
    rows = program.learner.example_count if program.batches is None else program.batches.size
    activity = rows * sum(program.learner.architecture.nodes.values())
    per_seed = 8 * (6 * sum(matrix[0].size for matrix in prepared.first.values()) + 4 * activity)
    at_once = int(np.clip(jax.local_device_count() * (SEED_BYTES // max(per_seed, 1)), 1, seeds))
    return [slice(first, min(first + at_once, seeds)) for first in range(0, seeds, at_once)]


def side_by_side(group: Sequence[Prepared], seeds: int, key: Any) -> tuple[Program, Any, jax.Array]:
    """One program for several conditions of one shape; what they compute on has an axis for condition and seed."""
    first = group[0].program
    keys = jnp.concatenate([batch_keys(key, seeds)] * len(group))
    owners = {id(one.narrowing.weights): one for one in group}  # conditions may share first weights
    packed = {place: one.parameters() for place, one in owners.items()}
    parameters = jax.tree.map(_concatenated, *(packed[id(one.narrowing.weights)] for one in group))
    if len(group) == 1:
        return first, parameters, keys

    parts = [eqx.partition((one.program.learner, one.program.rule), eqx.is_array) for one in group]
    structure, static = jax.tree.structure(parts[0][0]), parts[0][1]
    columns = list(zip(*(jax.tree.leaves(arrays) for arrays, _ in parts), strict=True))
    mapped = tuple(any(leaf is not column[0] for leaf in column) for column in columns)  # what all share has no axis
    leaves = [
        np.repeat(np.stack([np.asarray(leaf) for leaf in column]), seeds, axis=0) if own else column[0]
        for own, column in zip(mapped, columns, strict=True)
    ]
    learner, rule = eqx.combine(jax.tree.unflatten(structure, leaves), static)
    return Program(learner, rule, first.recorder, first.batches, first.level, mapped), parameters, keys


def shape_of(program: Program) -> Any:
    """Equal for programs that differ in numbers only."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    shapes = tuple((np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves)
    others, skeleton = jax.tree.flatten(static)
    return structure, shapes, skeleton, tuple(others)


def part_of(training: Training, chosen: slice, *, weights: bool = True) -> Training:
    """Some seeds of a finished training; weights: with their state."""
    memory = training.memory
    arrays = {name: array[chosen] for name, array in memory.arrays.items()}
    count = len(range(*chosen.indices(memory.seeds)))
    mine = replace(memory, seeds=count, arrays=arrays, curve=[part[:, chosen] for part in memory.curve])
    state = training.state
    if weights:
        state = jax.tree.map(lambda leaf: np.asarray(leaf)[chosen], state)  # on the host: nothing to compile
    return replace(training, state=state, memory=mine, keys=training.keys[chosen])


def _concatenated(*parts: jax.Array) -> jax.Array:
    return jax.device_put(np.concatenate([np.asarray(part) for part in parts]))  # on the host: nothing to compile
