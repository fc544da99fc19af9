"""Training rows of the benchmark."""

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from benchmarks import by_hand
from neuralrace._engine.network import squared_loss

Row = tuple[str, float, str]
EPOCHS = 8000
RATE = 0.001 * 24  # P2 sums its loss over 24 examples; here it is the mean


def seconds(work: Callable[[], Any]) -> float:
    began = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - began


def relu_row() -> Row:
    network = nr.ReLUNetwork(nr.tasks.contextual(3, structure="mixed").task, hidden=(700,))
    initial = nr.initial.gaussian(0.005 / 700)
    ours = seconds(lambda: nr.train(network, initial, RATE, EPOCHS).loss)
    with jax.enable_x64(True):
        weights = [jnp.asarray(matrix) for matrix in initial(network, 0).values()]
        theirs = seconds(lambda: by_hand.descend(by_hand.relu_loss(network), weights, RATE, EPOCHS)[-1][0])
    return "ReLU network of P2 Fig 4, 8001 epochs: by hand / ours", theirs / ours, "reported"


def pathways_row() -> Row:
    problem = nr.tasks.contextual(3, structure="mixed").problem("common + all-but-one + single", hidden=100)
    initial = nr.initial.gaussian(0.005 / 700)
    ours = seconds(lambda: nr.train(problem, initial, RATE, EPOCHS, record="path_singular_values").loss)
    with jax.enable_x64(True):
        drawn = initial(problem, 0)
        hidden = problem.architecture.hidden
        first = jnp.stack([jnp.asarray(drawn["x", h]) for h in hidden])
        second = jnp.stack([jnp.asarray(drawn[h, "y"]) for h in hidden])
        loss = by_hand.pathway_loss(problem)
        record = by_hand.pathway_singular_values
        theirs = seconds(lambda: by_hand.descend(loss, (first, second), RATE, EPOCHS, record)[-1][0])
    return (
        "gated network of P2 Fig 4, singular values at each epoch: by hand / ours",
        theirs / ours,
        "reported",
    )


def examples_row() -> Row:
    """Compressed, both have one shape and share one program: what is left to differ is noise, so pairs are timed."""

    def training(examples: int) -> Callable[[], Any]:
        random = np.random.default_rng(0)
        x, first = random.uniform(-1, 1, (examples, 2)), random.random(examples) < 0.5
        task = nr.Task({"x": x}, {"y": np.where(first[:, None], x[:, :1], x[:, 1:])})
        edges = [("x", "a"), ("x", "b"), ("a", "y"), ("b", "y")]
        architecture = nr.Architecture({"x": 2, "a": 64, "b": 64, "y": 1}, edges)
        problem = nr.Problem(architecture, task, nr.Gates({"a": first, "b": ~first})).compress()
        return lambda: nr.train(problem, nr.initial.gaussian(0.1), 0.01, 3000, at=[3000], progress=False).loss

    many, few = training(1_000_000), training(1_000)
    many(), few()
    ratio = float(np.median([seconds(many) / seconds(few) for _ in range(7)]))
    return "3,000 steps on 1,000,000 examples / on 1,000", ratio, "at most 1.2"


def seeds_row() -> Row:
    problem = nr.tasks.xor().problem("xor", hidden=128)

    def cost(seeds: int) -> float:
        return seconds(lambda: nr.train(problem, nr.initial.gaussian(2e-4), 0.4, 5000, seeds=seeds).loss)

    cost(1), cost(100)  # compiled once for each number of seeds
    return "100 seeds of XOR / one seed, 5,000 steps each, compiled", cost(100) / cost(1), "at most 5"


def routing_rows() -> list[Row]:
    problem = nr.tasks.routing(100, 40).problem("shared", hidden=64)
    weights = nr.initial.orthogonal(0.2)(problem, 0)
    repeats = 50
    began = time.perf_counter()
    network = problem.network
    planned = time.perf_counter() - began
    with jax.enable_x64(True):
        stacks = network.stack(weights)
        ours = _many_steps(lambda stacks: squared_loss(network, stacks), repeats)
        compiling = planned + seconds(lambda: ours(stacks))
        stacked = (
            jnp.stack([weights[f"x{i}", "h1"] for i in range(100)]),
            jnp.asarray(weights["h1", "h2"]),
            jnp.stack([weights["h2", f"y{j}"] for j in range(100)]),
        )
        theirs = _many_steps(by_hand.routing_loss(100, 40), repeats)
        jax.block_until_ready(theirs(stacked))
        pairs = [(seconds(lambda: ours(stacks)), seconds(lambda: theirs(stacked))) for _ in range(5)]
    ratio = float(np.median([one / other for one, other in pairs]))
    return [
        ("one step of routing, M = 100, K = 40: ours / stacked einsum", ratio, "at most 2"),
        ("... planning and compiling it, seconds", compiling, "under 15"),
    ]


def _many_steps(loss: Callable[[Any], jax.Array], repeats: int) -> Callable[[Any], Any]:
    def step(weights: Any, _: None) -> tuple[Any, None]:
        return jax.tree.map(lambda w, g: w - 0.1 * g, weights, jax.grad(loss)(weights)), None

    return jax.jit(lambda weights: jax.lax.scan(step, weights, None, length=repeats)[0])


def rows() -> list[Row]:
    """Measure all; JAX's own first-time set-up is not part of any row."""
    jax.jit(lambda x: x + 1)(1.0).block_until_ready()
    nr.train(nr.tasks.xor().problem("xor", hidden=2), nr.initial.gaussian(0.1), 0.1, 2)
    return [relu_row(), pathways_row(), examples_row(), seeds_row(), *routing_rows()]
