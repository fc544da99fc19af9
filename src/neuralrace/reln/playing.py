"""Networks played again under imposed gates, from their own first weights: many gatings in one program.

Under gates that belong to modules the examples are seen through moments alone: of pairs of modules, S_mn = <g_m g_n x
x^T>, and of modules with the targets, C_m = <g_m y x^T>. And the neurons of a module are a linear layer: what they
span, at most inputs + outputs directions, is all that ever moves, so that a module of any width is followed exactly as
one matrix R, (directions, inputs + outputs), the triangle of its incoming and outgoing weights side by side.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.network import Stacks
from neuralrace.arrays import float64
from neuralrace.axes import Array
from neuralrace.reln.gating import LayerGating
from neuralrace.reln.watched import Stretch, Watched
from neuralrace.training.learner import LossFunction
from neuralrace.training.loop import Program, Schedule, one_program, run
from neuralrace.training.rules import Descent


class Played(LossFunction):
    """All networks under one gating: each descends its own loss, and the mean of these is recorded.

    Parameters: modules, (networks, modules, directions, inputs + outputs), and offset, (networks, outputs).
    """

    pairs: Array  # (modules * inputs, modules * inputs)
    targets: Array  # (outputs, modules * inputs)
    inputs: Array  # (modules * inputs,)
    wanted: Array  # (outputs,), the mean of the targets
    energy: Array  # (), the mean squared length of the targets
    biased: Array  # (), 0 or 1: whether the offset is learned

    def loss(self, parameters: Stacks) -> jax.Array:
        """The mean over the networks."""
        return self.loss_and_gradient(parameters)[0]

    def loss_and_gradient(self, parameters: Stacks) -> tuple[jax.Array, Stacks]:
        """The mean loss, and the gradient of each network's own."""
        products, back = jax.vjp(self._products, parameters["modules"])
        offset, through, mean = parameters["offset"], products @ self.pairs, products @ self.inputs
        losses = jnp.sum(products * (0.5 * through - self.targets), axis=(-2, -1))
        losses += jnp.sum(offset * (mean + 0.5 * offset - self.wanted), axis=-1) + 0.5 * self.energy
        error = through - self.targets + offset[..., None] * self.inputs
        return jnp.mean(losses), {
            "modules": back(error)[0],
            "offset": self.biased * (mean + offset - self.wanted),
        }

    def _products(self, modules: jax.Array) -> jax.Array:
        """What all modules do, A_m side by side, (networks, outputs, modules * inputs)."""
        size = modules.shape[-1] - self.targets.shape[0]
        products = jnp.einsum("smro,smri->somi", modules[..., size:], modules[..., :size])
        return products.reshape(*products.shape[:2], -1)


@float64
def play(
    watched: Watched, plans: Sequence[Sequence[LayerGating]], stretches: Sequence[Stretch], rate: float, padded: int
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Train networks whose gates are those of a plan, one gating for each stretch.

    Return their mean losses, (plans, records), and for each plan the outputs of all networks at the end, (networks, N,
    outputs). padded: modules of the program, at least as many as any gating has.
    """
    weights = [np.concatenate([watched.incoming[:, 0], watched.outgoing[:, 0]], axis=-1) for _ in plans]
    offset = np.zeros((len(plans), len(weights[0]), watched.network.targets.shape[1]))
    if watched.offset is not None:
        offset[:] = watched.offset[:, 0]
    keys, rule, losses = jax.random.split(jax.random.key(0), len(plans)), Descent(np.asarray(rate)), []  # unused keys
    for place, stretch in enumerate(stretches):
        gatings = [plan[place] for plan in plans]
        bases, blocks = _narrowed(weights, gatings, padded)
        programs = [Program(one, rule) for one in _played(watched, gatings, padded)]
        steps = watched.steps[stretch.first : stretch.last + 1] - watched.steps[stretch.first]
        looks = np.pad(steps, (0, len(watched.steps) - len(steps)), "edge")  # one program serves all stretches
        always = np.ones(len(looks), dtype=bool)
        schedule = Schedule(looks, always, always)
        start = jax.device_put({"modules": blocks, "offset": offset})
        training = run(one_program(programs, 1), start, keys, schedule)
        found = training.records()["loss"]
        losses.append(found[:, : len(steps) - (place < len(stretches) - 1)])  # the next one starts where this one ends
        end = training.parameters()
        offset = end["offset"]
        for (plan, seed, module), basis in bases.items():  # back into the neurons; those in no module stay
            inside = gatings[plan].members[seed] == module
            weights[plan][seed][inside] = basis @ end["modules"][plan, seed, module, : basis.shape[1]]
    outputs = [_outputs(watched, *end) for end in zip(weights, gatings, offset, strict=True)]
    return np.concatenate(losses, axis=-1), outputs


def _outputs(watched: Watched, weights: np.ndarray, gating: LayerGating, offset: np.ndarray) -> np.ndarray:
    """Neurons in no module send nothing; weights: (networks, neurons, inputs + outputs)."""
    rows, slope = watched.inputs, watched.network.slope
    gates = np.vstack([slope + (1 - slope) * gating.gates, np.zeros((1, len(rows)))])
    incoming, outgoing = np.split(weights, [rows.shape[1]], axis=-1)
    sent = (incoming @ rows.T) * gates[gating.members]  # the last row serves members -1
    return np.asarray(sent.swapaxes(-1, -2) @ outgoing + offset[:, None])


def _played(watched: Watched, gatings: Sequence[LayerGating], padded: int) -> list[Played]:
    """What modules see of the examples under each gating, padded to as many modules."""
    network, rows, amount = watched.network, watched.inputs, watched.network.task.weights
    wanted, root = network.targets, np.sqrt(amount)[:, None]
    count, size = rows.shape
    energy, biased = amount @ np.sum(wanted**2, axis=1), np.asarray(float(watched.offset is not None))
    shared = amount @ wanted, np.asarray(energy), biased
    found = []
    for gating in gatings:
        gates = np.zeros((padded, count))
        gates[: len(gating)] = network.slope + (1 - network.slope) * gating.gates
        seen = root * (gates.T[:, :, None] * rows[:, None, :]).reshape(count, padded * size)
        found.append(Played(seen.T @ seen, (root * wanted).T @ seen, root[:, 0] @ seen, *shared))
    return found


Bases = dict[tuple[int, int, int], np.ndarray]  # gating, network, module -> (neurons, directions), orthonormal


def _narrowed(weights: list[np.ndarray], gatings: Sequence[LayerGating], padded: int) -> tuple[Bases, np.ndarray]:
    """The bases that lead back, and the triangles, (gatings, networks, modules, directions, inputs + outputs)."""
    seeds, neurons, width = weights[0].shape
    blocks, bases = np.zeros((len(gatings), seeds, padded, min(neurons, width), width)), {}
    for place, gating in enumerate(gatings):
        for seed, module in np.ndindex(seeds, len(gating)):
            basis, triangle = np.linalg.qr(weights[place][seed][gating.members[seed] == module])
            blocks[place, seed, module, : len(triangle)] = triangle
            bases[place, seed, module] = basis
    return bases, blocks
