"""Train a ResNet20 on CIFAR-10 and encode rotated images by its first two stages: 512 features for each image.

These are the inputs of the CIFAR experiments of the Neural Race Reduction (section 5, appendix D). A rotation is done
on the pixels, black behind them, so each domain is encoded anew. The labels are permuted afterwards, by the task.

    python scripts/cifar_features.py FOLDER --out results/cifar

FOLDER holds the binary version of CIFAR-10. The script writes, under --out, what data=features reads:

    images.npy, test_images.npy   (domains, images, 512), float16, domain i turned by range * i / domains degrees;
                                  51 MB for each domain of 50,000 images: read with numpy.load(..., mmap_mode="r")
    labels.npy, test_labels.npy   (images,)
    about.json                    the settings, and the test accuracies of the network and of a linear readout

Training is meant for a GPU; encoding all images once takes a minute or two on two cores.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from neuralrace.errors import FileFormatError, NeuralRaceError, RangeError, require_count, require_number
from neuralrace.io import make_folder, write_text, write_whole
from neuralrace.tasks.images import rotations

SIDE, COLORS, CLASSES = 32, 3, 10
MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of each color over the training images, in [0, 1]
CUT, POOL = 2, 4  # stages before the features, and the side of the patches that they are averaged over
CHUNK = 1000  # images encoded at once

Tree = Any


def initial_network(blocks: int, channels: int, key: jax.Array) -> tuple[Tree, Tree]:
    """Return the initial weights (He's initialization of the kernels) and the running statistics of each layer."""
    sizes = {"stem": (COLORS, channels)}
    width = channels
    for stage in range(3):
        for block in range(blocks):
            sizes[f"{stage}.{block}.first"] = (width, channels * 2**stage)
            width = channels * 2**stage
            sizes[f"{stage}.{block}.second"] = (width, width)
    *keys, last = jax.random.split(key, len(sizes) + 1)
    weights, statistics = {}, {}
    for (name, (source, target)), own in zip(sizes.items(), keys, strict=True):
        kernel = jax.random.normal(own, (3, 3, source, target), jnp.float32) * np.sqrt(2 / (9 * source))
        one, zero = jnp.ones(target, jnp.float32), jnp.zeros(target, jnp.float32)
        weights[name] = {"kernel": kernel, "scale": one, "shift": zero}
        statistics[name] = {"mean": zero, "variance": one}
    readout = jax.random.normal(last, (width, CLASSES), jnp.float32) * np.sqrt(1 / width)
    weights["readout"] = {"matrix": readout, "bias": jnp.zeros(CLASSES, jnp.float32)}
    return weights, statistics


def run_stages(
    weights: Tree, statistics: Tree, images: jax.Array, stages: int, training: bool = False
) -> tuple[jax.Array, Tree]:
    """Return the output of the first stages for images (N, 32, 32, 3) as bytes, and the new running statistics.

    In training a layer normalizes by the batch, which the running statistics follow; otherwise by these, so that each
    image is seen alone.
    """
    kept = dict(statistics)

    def layer(name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        part = weights[name]
        x = jax.lax.conv_general_dilated(
            x, part["kernel"], (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        mean, variance = statistics[name]["mean"], statistics[name]["variance"]
        if training:
            now = {"mean": x.mean((0, 1, 2)), "variance": x.var((0, 1, 2))}
            kept[name] = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, statistics[name], now)
            mean, variance = now["mean"], now["variance"]
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * part["scale"] + part["shift"]

    pixels = images.astype(jnp.float32) / 255
    x = jax.nn.relu(layer("stem", (pixels - jnp.asarray(MEAN, jnp.float32)) / jnp.asarray(SPREAD, jnp.float32)))
    for name in [name for name in weights if name.endswith(".first") and int(name[0]) < stages]:
        stride = 2 if name[0] != "0" and name[2:] == "0.first" else 1
        inner = layer(name.replace("first", "second"), jax.nn.relu(layer(name, x, stride)))
        missing = inner.shape[-1] - x.shape[-1]  # the way around a block has no weights: it drops pixels, adds zeros
        around = jnp.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (missing // 2, missing - missing // 2)))
        x = jax.nn.relu(inner + around)
    return x, kept


def logits(weights: Tree, statistics: Tree, images: jax.Array, training: bool = False) -> tuple[jax.Array, Tree]:
    """Return the ten outputs for each image, and the new running statistics."""
    x, kept = run_stages(weights, statistics, images, 3, training)
    return x.mean((1, 2)) @ weights["readout"]["matrix"] + weights["readout"]["bias"], kept


def features(weights: Tree, statistics: Tree, images: jax.Array) -> jax.Array:
    """Return the second stage averaged over patches of 4 x 4: channel, then row, then column."""
    x, _ = run_stages(weights, statistics, images, CUT)
    patches = x.shape[1] // POOL
    pooled = x.reshape(len(x), patches, POOL, patches, POOL, -1).mean((2, 4))
    return pooled.transpose(0, 3, 1, 2).reshape(len(x), -1)


def augment(images: jax.Array, key: jax.Array) -> jax.Array:
    """Move each image by up to four pixels, black behind it, and mirror half of them."""
    move_key, mirror_key = jax.random.split(key)
    wide = jnp.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    corners = jax.random.randint(move_key, (len(images), 2), 0, 9)
    moved = jax.vmap(lambda image, at: jax.lax.dynamic_slice(image, (at[0], at[1], 0), (SIDE, SIDE, COLORS)))(
        wide, corners
    )
    return jnp.where(jax.random.bernoulli(mirror_key, shape=(len(images), 1, 1, 1)), moved[:, :, ::-1], moved)


def train(options: argparse.Namespace, images: np.ndarray, labels: np.ndarray) -> tuple[Tree, Tree]:
    """Train with momentum, a rate that rises over the first 5 % of the steps and falls along a cosine, and decay."""
    if options.batch > len(images):
        raise RangeError(f"batch must be at most the number of images, {len(images)}; it was {options.batch}")
    key, network_key = jax.random.split(jax.random.key(options.seed))
    steps = len(images) // options.batch
    total = steps * options.epochs
    schedule = optax.warmup_cosine_decay_schedule(0.0, options.rate, max(total // 20, 1), total)
    rule = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(schedule, momentum=0.9))

    def loss(weights: Tree, statistics: Tree, batch: jax.Array, targets: jax.Array) -> tuple[jax.Array, Tree]:
        outputs, kept = logits(weights, statistics, batch, training=True)
        return optax.softmax_cross_entropy_with_integer_labels(outputs, targets).mean(), kept

    @jax.jit
    def epoch(state: Tree, rows: jax.Array, targets: jax.Array, key: jax.Array) -> tuple[Tree, jax.Array]:
        keys = jax.random.split(key, 1 + steps)
        order = jax.random.permutation(keys[0], len(rows))[: steps * options.batch].reshape(steps, -1)

        def step(state: Tree, given: Tree) -> tuple[Tree, jax.Array]:
            (weights, statistics, memory), (chosen, own) = state, given
            batch = augment(rows[chosen], own)
            (value, statistics), slope = jax.value_and_grad(loss, has_aux=True)(
                weights, statistics, batch, targets[chosen]
            )
            moves, memory = rule.update(slope, memory, weights)
            return (optax.apply_updates(weights, moves), statistics, memory), value

        state, losses = jax.lax.scan(step, state, (order, keys[1:]))
        return state, losses.mean()

    weights, statistics = initial_network(options.blocks, options.channels, network_key)
    state, began = (weights, statistics, rule.init(weights)), time.perf_counter()
    rows, targets = jnp.asarray(images), jnp.asarray(labels, jnp.int32)
    for number in range(1, options.epochs + 1):
        state, value = epoch(state, rows, targets, jax.random.fold_in(key, number))
        if number % 5 == 0 or number in (1, options.epochs):
            print(f"epoch {number}: loss {value:.4f}, {time.perf_counter() - began:.0f} s", flush=True)
    return state[:2]


def in_chunks(work: Callable[[jax.Array], jax.Array], images: np.ndarray) -> Iterator[np.ndarray]:
    """Map a compiled function over pieces of one size; the last piece is padded."""
    size = min(CHUNK, len(images))
    for start in range(0, len(images), size):
        piece = images[start : start + size]
        padded = np.concatenate([piece, images[: size - len(piece)]])
        yield np.asarray(work(jnp.asarray(padded)))[: len(piece)]


def turned(images: np.ndarray, where: np.ndarray) -> np.ndarray:
    """Apply an index map of the pixels; those from outside the image are black."""
    pixels = images.reshape(len(images), SIDE * SIDE, COLORS)
    black = np.zeros((len(images), 1, COLORS), np.uint8)
    return np.concatenate([pixels, black], axis=1)[:, where].reshape(images.shape)


def linear_readout(train_set: tuple[np.ndarray, np.ndarray], test_set: tuple[np.ndarray, np.ndarray]) -> float:
    """Return the test accuracy of least squares from the features, with a bias: the limit of a linear network."""
    rows, tests = (np.hstack([part.astype(np.float64), np.ones((len(part), 1))]) for part, _ in (train_set, test_set))
    matrix = np.linalg.lstsq(rows.T @ rows, rows.T @ np.eye(CLASSES)[train_set[1]], rcond=None)[0]
    return float(((tests @ matrix).argmax(1) == test_set[1]).mean())


def read_cifar(source: Path) -> tuple[np.ndarray, np.ndarray]:
    """Read images (N, rows, columns, colors) and labels of one file: records of a label and three planes."""
    record = 1 + COLORS * SIDE * SIDE
    if not source.is_file() or not source.stat().st_size or source.stat().st_size % record:
        raise FileFormatError(f"{source} must hold records of {record} bytes, a label and an image; it does not")
    rows = np.fromfile(source, dtype=np.uint8).reshape(-1, record)
    return rows[:, 1:].reshape(-1, COLORS, SIDE, SIDE).transpose(0, 2, 3, 1), rows[:, 0]


def work(options: argparse.Namespace) -> None:
    """Read, train, encode, save."""
    for name in ("blocks", "channels", "epochs", "batch", "domains"):
        require_count(name, getattr(options, name))
    require_number("rate", options.rate, above=0)
    require_number("range", options.range, above=0, most=360)
    parts = [read_cifar(options.folder / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate(part) for part in zip(*parts, strict=True))
    stored = {"": (images, labels), "test_": read_cifar(options.folder / "test_batch.bin")}
    sets = {}
    for (prefix, (rows, labels)), count in zip(stored.items(), options.rotated, strict=True):
        if not 1 <= count <= len(rows):
            raise RangeError(f"rotated must be from 1 to the number of images, {len(rows)}; it was {count}")
        sets[prefix] = rows, labels, count
    out = make_folder(options.out)
    network = train(options, *sets[""][:2])
    classes = jax.jit(lambda images: logits(*network, images)[0].argmax(1))
    accuracy = float((np.concatenate([*in_chunks(classes, sets["test_"][0])]) == sets["test_"][1]).mean())
    print(f"test accuracy of the network: {accuracy:.4f}", flush=True)
    encode, plain = jax.jit(partial(features, *network)), {}
    for prefix, (images, labels, count) in sets.items():

        def write(part: Path, images: np.ndarray = images[:count]) -> None:
            target = None
            for domain, where in enumerate(rotations((SIDE, SIDE), options.domains, options.range)):
                start = 0
                for piece in in_chunks(encode, turned(images, where)):
                    if target is None:
                        shape = (options.domains, len(images), piece.shape[1])
                        target = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape)
                    target[domain, start : start + len(piece)] = piece
                    start += len(piece)

        path = write_whole(out / f"{prefix}images.npy", write)
        plain[prefix] = np.load(path, mmap_mode="r", allow_pickle=False)[0], labels[:count]
        np.save(out / f"{prefix}labels.npy", labels[:count])
    about = {name: getattr(options, name) for name in ("blocks", "channels", "epochs", "batch", "rate", "seed")}
    about |= {"accuracy": accuracy, "linear_readout": linear_readout(plain[""], plain["test_"])}
    write_text(out / "about.json", json.dumps(about))
    print(json.dumps(about))


def main(given: Sequence[str] | None = None) -> int:
    """Run the script; print a user's mistake in one line and return 2."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where the binary version of CIFAR-10 is")
    parser.add_argument("--out", type=Path, default=Path("results/cifar"), help="the folder to write (%(default)s)")
    parser.add_argument("--blocks", type=int, default=3, help="of a stage; layers are 6 blocks + 2 (%(default)s)")
    parser.add_argument("--channels", type=int, default=16, help="of the first stage (%(default)s)")
    parser.add_argument("--epochs", type=int, default=80, help="%(default)s")
    parser.add_argument("--batch", type=int, default=128, help="%(default)s")
    parser.add_argument("--rate", type=float, default=0.1, help="the largest learning rate (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="%(default)s")
    parser.add_argument("--domains", type=int, default=40, help="rotated domains (%(default)s)")
    parser.add_argument("--range", type=float, default=270.0, help="degrees; domain i has range * i / domains")
    counts = {"nargs": 2, "metavar": ("TRAIN", "TEST"), "default": (50_000, 10_000)}
    parser.add_argument("--rotated", type=int, help="how many images of each set to encode", **counts)
    try:
        work(parser.parse_args(given))
    except NeuralRaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
