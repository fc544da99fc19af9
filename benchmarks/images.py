"""Rows of routed images: a step of ours beside a bare vmapped scan of the same networks. Meant for a GPU.

python -m benchmarks.images            # MNIST's sizes on random images; --small for a look on a CPU
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import neuralrace as nr
from neuralrace.training import Condition, train_together
from neuralrace.training.rules import Momentum

Row = tuple[str, float, str]
RATE, MOMENTUM = 0.02, 0.9
GAIN = 0.1


class Size(NamedTuple):
    """networks: how many are trained side by side; limit: of a bare step on an H200, milliseconds."""

    domains: int
    batch: int
    networks: int
    limit: float
    hidden: int = 128
    images: int = 60_000
    pixels: int = 784


SIZES = (Size(40, 16, 14, 0.65), Size(40, 8, 1, 0.11), Size(100, 8, 1, 0.19))
SMALL = (Size(6, 8, 4, float("nan"), 16, 500, 64),)


def images(size: Size) -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (size.images + 100, size.pixels), dtype=np.uint8)
    labels = random.integers(0, 10, len(rows))
    return {
        "images": rows[100:],
        "labels": labels[100:],
        "test_images": rows[:100],
        "test_labels": labels[:100],
    }


def trained(size: Size) -> list[int]:
    """K of each network."""
    return [int(k) for k in np.linspace(1, size.domains, size.networks).round()]


def ours(size: Size, data: dict[str, np.ndarray], steps: int) -> Callable[[], Any]:
    network = nr.RoutedNetwork(nr.tasks.routed_images(data, size.domains, 1), size.hidden)
    rule = Momentum(np.asarray(RATE), np.asarray(MOMENTUM))
    law = nr.initial.xavier(GAIN)
    conditions = [
        Condition(
            network.with_pairs(nr.tasks.routed_images(data, size.domains, k).pairs),
            law,
            rule,
            1.0,
            "cross-entropy",
            batch_size=size.batch,
            drawn=True,
        )
        for k in trained(size)
    ]

    def work() -> Any:
        runs = train_together(conditions, steps, at=[steps], precision="single", keep_weights=False, progress=False)
        return [run.loss for run in runs]

    return work


def bare(size: Size, data: dict[str, np.ndarray], steps: int) -> Callable[[], Any]:
    """What one would write by hand: stacked products, pairs as a mask, a scan, mapped over the networks."""
    rows, labels = jnp.asarray(data["images"]), jnp.asarray(data["labels"])
    m, h, d = size.domains, size.hidden, size.pixels
    masks = jnp.stack(
        [jnp.asarray(nr.tasks.routed_images(data, m, k).pairs / (m * k), dtype=jnp.float32) for k in trained(size)]
    )

    def first(key: jax.Array) -> Any:
        keys = jax.random.split(key, 3)
        uniform = [
            GAIN * (6 / sum(shape[-2:])) ** 0.5 * jax.random.uniform(one, shape, minval=-1, maxval=1)
            for one, shape in zip(keys, ((m, h, d), (h, h), (m, 10, h)), strict=True)
        ]
        return (*uniform, jnp.zeros((m, h)), jnp.zeros(h), jnp.zeros((m, 10)))

    def loss(weights: Any, mask: jax.Array, x: jax.Array, y: jax.Array) -> jax.Array:
        e, w, o, be, bw, bo = weights
        near = jnp.einsum("bd,mhd->bmh", x, e) + be
        far = near @ w.T + bw
        logits = jnp.einsum("bmh,nch->bmnc", far, o) + bo
        picked = jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(y, 10)[:, None, None, :], axis=-1)
        return -jnp.sum(picked * mask) / len(x)

    def one(weights: Any, key: jax.Array, mask: jax.Array) -> Any:
        def step(carry: Any, number: jax.Array) -> tuple[Any, None]:
            weights, velocity = carry
            chosen = jax.random.randint(jax.random.fold_in(key, number), (size.batch,), 0, len(rows))
            x = rows[chosen].astype(jnp.float32) / 255
            slope = jax.grad(loss)(weights, mask, x, labels[chosen])
            velocity = jax.tree.map(lambda v, g: MOMENTUM * v + g, velocity, slope)
            return (jax.tree.map(lambda w, v: w - RATE * v, weights, velocity), velocity), None

        return jax.lax.scan(step, (weights, jax.tree.map(jnp.zeros_like, weights)), jnp.arange(steps))[0]

    keys = jax.random.split(jax.random.key(0), size.networks)
    start = jax.jit(jax.vmap(first))(keys)
    program = jax.jit(jax.vmap(one))
    return lambda: program(start, keys, masks)


def per_step(work: Callable[[int], Callable[[], Any]], steps: int) -> float:
    """Milliseconds of a step once all is compiled: from two lengths, so that what happens once does not count."""
    took = []
    for length in (steps, 3 * steps):
        run = work(length)
        jax.block_until_ready(run())
        began = time.perf_counter()
        jax.block_until_ready(run())
        took.append(time.perf_counter() - began)
    return 1e3 * (took[1] - took[0]) / (2 * steps)


def rows(sizes: tuple[Size, ...] = SIZES, steps: int = 2000) -> list[Row]:
    """Measure all."""
    found = []
    for size in sizes:
        data = images(size)
        theirs, mine = (per_step(partial(work, size, data), steps) for work in (bare, ours))
        name = f"M = {size.domains}, batch {size.batch}, {size.networks} networks"
        found.append((f"routed images, {name}: bare scan, ms a step", theirs, f"{size.limit:g} on an H200"))
        found.append((f"... ours / bare ({mine:.3f} ms)", mine / theirs, "at most 1.3"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    print(jax.devices(), file=sys.stderr)
    for label, value, required in rows(SMALL if small else SIZES, 200 if small else 2000):
        print(f"{label}: {value:.3f} ({required})")


if __name__ == "__main__":
    main()
