"""What the training loop runs: one step and one look, for all seeds and conditions at once.

Written for one seed and mapped over all; what conditions that run side by side differ in has an axis for the seeds too.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.devices import compiled, everywhere, padded, spread
from neuralrace._engine.network import Stacks
from neuralrace.axes import Array
from neuralrace.training.learner import Landscape
from neuralrace.training.records import Recorder
from neuralrace.training.rules import Rule, Step

Views = dict[str, jax.Array]  # variable -> array


class How(NamedTuple):
    """What a look is for: one of those that are made in any case, one that is recorded, or both."""

    regular: Array
    kept: Array


class Carried(NamedTuple):
    """What training carries from step to step; seeds first."""

    parameters: Stacks
    memory: Any  # the rule's
    order: jax.Array  # of the examples, for mini-batches
    resting: jax.Array  # seeds that have reached the loss to stop at


class Batches(eqx.Module):
    """How mini-batches are drawn: each epoch goes once through a new order of the examples, or each step draws anew.

    drawn: every step draws its examples by their weights, with replacement. count: of all examples.
    """

    size: int = eqx.field(static=True)
    count: int = eqx.field(static=True)
    drawn: bool = eqx.field(static=True)


class Program(eqx.Module):
    """What the loop is compiled for. mapped: which arrays of learner and rule have an axis for the seeds."""

    learner: Landscape
    rule: Rule
    recorder: Recorder
    batches: Batches | None
    level: Array | None  # the loss at which a seed stops
    mapped: tuple[bool, ...] = eqx.field(static=True)  # in the order of their leaves; empty: none

    def start(self, parameters: Stacks) -> Carried:
        """The state of each seed before the first step; parameters have a leading axis of seeds."""
        seeds = jax.tree.leaves(parameters)[0].shape[0]
        shuffled = 0 if self.batches is None or self.batches.drawn else self.batches.count
        blank = np.zeros((seeds, shuffled), dtype=np.int32), np.zeros(seeds, dtype=bool)
        memory = _memory(self, parameters) if self.rule.remembers else ()
        return Carried(parameters, memory, *jax.device_put(blank))

    def memory(self, parameters: Stacks) -> Any:
        """What the rule of each seed remembers before the first step."""
        return self._each(lambda learner, rule, p: rule.start(learner, p))(parameters)

    def look(self, state: Carried, how: How) -> tuple[Carried, Views]:
        """Look at every seed."""
        return self._seen(state, self._each(lambda learner, rule, p: learner.loss(p))(state.parameters), how)

    def views(self, state: Carried) -> dict[str, Any]:
        """What a look gives, as shapes; the loss is a number of the parameters' kind, so nothing is traced for it."""
        leaf = jax.tree.leaves(state.parameters)[0]
        shape: Any = jax.ShapeDtypeStruct  # it has no types
        found = {"loss": shape(leaf.shape[:1], leaf.dtype)}
        if self.recorder.chosen:
            found |= eqx.filter_eval_shape(self._record(), state.parameters)
        return found

    def look_and_step(self, state: Carried, keys: jax.Array, step: jax.Array, how: How) -> tuple[Carried, Views]:
        """Look at every seed and take one step; a full batch shares the gradient's forward pass with the loss."""
        if self.batches is not None:
            state, seen = self.look(state, how)
            return self.step(state, keys, step), seen
        loss, slope = self._each(lambda learner, rule, p: learner.loss_and_gradient(p))(state.parameters)
        state, seen = self._seen(state, loss, how)
        return self.step(state, keys, step, slope), seen

    def in_turn(
        self, state: Carried, keys: jax.Array, work: "Callable[[Program, Carried, jax.Array], Carried]"
    ) -> Carried:
        """What is made of each seed's state, one after the other; work: has the program of one, with an axis of one."""
        leaves, made = self.parts()
        own = self._own(leaves)

        def one(given: tuple[list[Any], Carried, jax.Array]) -> Carried:
            theirs, state, key = jax.tree.map(lambda leaf: leaf[None], given)
            found = [mine if has else leaf for has, mine, leaf in zip(own, theirs, leaves, strict=True)]
            program = Program(*made(found), self.recorder, self.batches, self.level, self.mapped)
            return jax.tree.map(lambda leaf: leaf[0], work(program, state, key))

        theirs = [leaf if has else None for has, leaf in zip(own, leaves, strict=True)]
        found: Carried = jax.lax.map(one, (theirs, state, keys))
        return found

    def _seen(self, state: Carried, loss: jax.Array, how: How) -> tuple[Carried, Views]:
        if self.level is not None:
            state = state._replace(resting=state.resting | (how.regular & (loss <= self.level)))
        return state, self._recorded(state.parameters, how) | {"loss": loss}

    def _recorded(self, parameters: Stacks, how: How) -> Views:
        if not self.recorder.chosen:
            return {}
        record = self._record()
        if not self.recorder.costly:
            return record(parameters)
        shapes = jax.eval_shape(record, parameters)  # not where it would be thrown away
        blank = jax.tree.map(lambda space: jnp.zeros(space.shape, space.dtype), shapes)
        views: Views = jax.lax.cond(how.kept, record, lambda _: blank, parameters)
        return views

    def _record(self) -> Callable[[Stacks], Views]:
        return self._each(lambda learner, rule, p: self.recorder.look(learner, p))

    def step(self, state: Carried, keys: jax.Array, step: jax.Array, slope: Stacks | None = None) -> Carried:
        """Take one step for every seed; slope: the gradient there, if it is known."""
        chosen, order = self._batch(state.order, keys, step)

        def one(learner: Any, rule: Rule, parameters: Stacks, memory: Any, slope: Any, chosen: Any) -> Any:
            def gradient(at: Stacks) -> Stacks:
                if self.batches is None:
                    return learner.loss_and_gradient(at)[1]
                return learner.batch_gradient(at, chosen, by_weight=not self.batches.drawn)

            here = gradient(parameters) if slope is None else slope
            return rule.move(learner, memory, Step(parameters, here, gradient, step))

        parameters, memory = self._each(one)(state.parameters, state.memory, slope, chosen)
        if self.level is not None:  # a seed that has arrived rests
            parameters, memory = jax.tree.map(
                lambda new, old: jnp.where(state.resting.reshape(-1, *[1] * (new.ndim - 1)), old, new),
                (parameters, memory),
                (state.parameters, state.memory),
            )
        return Carried(parameters, memory, order, state.resting)

    def _batch(self, order: jax.Array, keys: jax.Array, step: jax.Array) -> tuple[jax.Array | None, jax.Array]:
        """The examples of this step for each seed; what does not fill a batch of an epoch waits."""
        if self.batches is None:
            return None, order
        count = self.batches.count
        if self.batches.drawn:
            size = self.batches.size
            draw = self._each(lambda learner, rule, key: learner.draw(jax.random.fold_in(key, step), size))
            return draw(keys), order
        batches = max(count // self.batches.size, 1)

        def shuffle(_: jax.Array) -> jax.Array:
            epoch_keys = jax.vmap(lambda key: jax.random.fold_in(key, step // batches))(keys)
            return jax.vmap(lambda key: jax.random.permutation(key, count).astype(jnp.int32))(epoch_keys)

        order = jax.lax.cond(step % batches == 0, shuffle, lambda old: old, order)
        start = (step % batches) * self.batches.size
        return jax.lax.dynamic_slice_in_dim(order, start, min(self.batches.size, count), axis=1), order

    def _each(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Map (learner, rule, ...) over the seeds."""
        leaves, made = self.parts()
        axes = [0 if own else None for own in self._own(leaves)]

        def apply(*arguments: Any) -> Any:
            def one(inner: list[Any], *rest: Any) -> Any:
                return function(*made(inner), *rest)

            return jax.vmap(one, in_axes=(axes, *[0] * len(arguments)))(leaves, *arguments)

        return apply

    def parts(self) -> tuple[list[Any], Callable[[list[Any]], tuple[Landscape, Rule]]]:
        """The arrays of learner and rule, and what makes the two of such arrays."""
        arrays, static = eqx.partition((self.learner, self.rule), eqx.is_array)
        leaves, structure = jax.tree.flatten(arrays)
        return leaves, lambda found: eqx.combine(jax.tree.unflatten(structure, found), static)

    def placed(self, room: int) -> "Program":
        """The same with its arrays on the devices: those that each seed has of its own spread, the rest on each."""
        leaves, made = self.parts()
        found = [
            spread(padded(leaf, room)) if own else everywhere(leaf, room)
            for leaf, own in zip(leaves, self._own(leaves), strict=True)
        ]
        recorder, batches, level = everywhere((self.recorder, self.batches, self.level), room)
        return Program(*made(found), recorder, batches, level, self.mapped)

    def _own(self, leaves: list[Any]) -> tuple[bool, ...]:
        return self.mapped or (False,) * len(leaves)


@compiled
def _memory(program: Program, parameters: Stacks) -> Any:
    return program.memory(parameters)


def one_program(programs: Sequence[Program], seeds: int) -> Program:
    """One program for several of one shape; what they compute on has an axis for condition and seed."""
    first = programs[0]
    if len(programs) == 1:
        return first
    columns = list(zip(*(one.parts()[0] for one in programs), strict=True))
    mapped = tuple(any(leaf is not column[0] for leaf in column) for column in columns)  # what all share has no axis
    leaves = [
        np.repeat(np.stack([np.asarray(leaf) for leaf in column]), seeds, axis=0) if own else column[0]
        for own, column in zip(mapped, columns, strict=True)
    ]
    return Program(*first.parts()[1](leaves), first.recorder, first.batches, first.level, mapped)


def shape_of(program: Program) -> Any:
    """Equal for programs that differ in numbers only."""
    arrays, static = eqx.partition(program, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    shapes = tuple((np.shape(leaf), np.asarray(leaf).dtype) for leaf in leaves)
    others, skeleton = jax.tree.flatten(static)
    return structure, shapes, skeleton, tuple(others)
