"""Train a ResNet20 on CIFAR-10, and save what its first two stages make of the images: 512 numbers for each.

These are the inputs of the CIFAR experiments of the Neural Race Reduction (section 5, appendix D): rotated images,
encoded by a frozen network. A rotation is done on the pixels, black behind them, so each domain is encoded anew.
The labels are permuted afterwards, by the task.

    python scripts/cifar_features.py FOLDER --out results/cifar --rotated 50000 10000

FOLDER holds the binary version of CIFAR-10. Written are, under --out:

    network.npz         all weights and running statistics, about 1 MB; --network reads it instead of training
    features.npz        train (50000, 512), test (10000, 512), float16; labels; accuracies; settings as JSON; 61 MB
    rotated_train.npy   (domains, images, 512), float16, domain i turned by range * i / domains degrees; 51 MB for
    rotated_test.npy    each 50,000 images: read them with numpy.load(..., mmap_mode="r")

Training is meant for a GPU; encoding all images once takes a minute or two on two cores.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace.datafiles import make_folder, write_whole
from neuralrace.errors import FileFormatError, NeuralRaceError, RangeError, require_count, require_number
from neuralrace.tasks.images.base import base_images
from neuralrace.tasks.images.routed import rotations

SIDE, COLORS, CLASSES = 32, 3, 10
MEAN, SPREAD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of each color over the training images, in [0, 1]
CUT = 2  # stages before the features
POOL = 4
PLAIN = np.arange(SIDE * SIDE)  # the index map of images as they are
CHUNK = 1000  # images encoded at once

Tree = Any
Set = tuple[np.ndarray, np.ndarray]  # images and labels


@dataclass(frozen=True)
class Settings:
    """What is trained, and how. The network has 6 blocks + 2 layers: blocks = 3 makes a ResNet20."""

    blocks: int = 3
    channels: int = 16  # of the first stage; each of the next two has twice as many
    epochs: int = 80
    batch: int = 128
    rate: float = 0.1  # the largest
    momentum: float = 0.9
    decay: float = 1e-4  # of all weights
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("blocks", "channels", "epochs", "batch", "rate"):
            if not getattr(self, name) > 0:
                raise RangeError(f"{name} must be greater than zero; it was {getattr(self, name)}")


# the data


def read(folder: Path) -> tuple[Set, Set]:
    """The training and the test set of CIFAR-10's binary version: images (N, 32, 32, 3) and labels (N,), as bytes."""
    base = base_images("cifar10", folder)

    def pixels(rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows.reshape(-1, *base.shape).transpose(0, 2, 3, 1))

    return (pixels(base.images), base.labels), (pixels(base.test_images), base.test_labels)


# the network


def first_network(settings: Settings, key: jax.Array) -> tuple[Tree, Tree]:
    """The first weights (He's law for the kernels), and the running mean and variance of each layer's channels."""
    keys = iter(jax.random.split(key, 2 + 6 * settings.blocks))

    def layer(source: int, target: int) -> tuple[Tree, Tree]:
        kernel = jax.random.normal(next(keys), (3, 3, source, target), jnp.float32) * np.sqrt(2 / (9 * source))
        one, zero = jnp.ones(target, jnp.float32), jnp.zeros(target, jnp.float32)
        return {"kernel": kernel, "scale": one, "shift": zero}, {"mean": zero, "variance": one}

    layers = {"stem": layer(COLORS, settings.channels)}
    width = settings.channels
    for stage, block in positions(settings):
        target = settings.channels * 2**stage
        layers[f"{stage}.{block}.first"] = layer(width, target)
        layers[f"{stage}.{block}.second"] = layer(target, target)
        width = target
    weights = {name: pair[0] for name, pair in layers.items()}
    readout = jax.random.normal(next(keys), (width, CLASSES), jnp.float32) * np.sqrt(1 / width)
    weights["readout"] = {"matrix": readout, "bias": jnp.zeros(CLASSES, jnp.float32)}
    return weights, {name: pair[1] for name, pair in layers.items()}


def positions(settings: Settings) -> Iterator[tuple[int, int]]:
    """Stage and number of every block, in their order."""
    return ((stage, block) for stage in range(3) for block in range(settings.blocks))


def run_stages(
    weights: Tree, statistics: Tree, images: jax.Array, settings: Settings, training: bool, stages: int = 3
) -> tuple[jax.Array, Tree]:
    """What the network makes of images (N, 32, 32, 3) in [0, 1] after its first stages, and the statistics to keep.

    In training a layer normalises by the batch and the running statistics follow it; otherwise they are used and stay.
    """
    kept = dict(statistics)

    def layer(name: str, x: jax.Array, stride: int = 1) -> jax.Array:
        part = weights[name]
        x = jax.lax.conv_general_dilated(
            x, part["kernel"], (stride, stride), ((1, 1), (1, 1)), dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
        mean, variance = statistics[name]["mean"], statistics[name]["variance"]
        if training:
            old_mean, old_variance = mean, variance
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            kept[name] = {"mean": 0.9 * old_mean + 0.1 * mean, "variance": 0.9 * old_variance + 0.1 * variance}
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * part["scale"] + part["shift"]

    x = jax.nn.relu(layer("stem", (images - jnp.asarray(MEAN, jnp.float32)) / jnp.asarray(SPREAD, jnp.float32)))
    for stage, block in positions(settings):
        if stage == stages:
            break
        stride = 2 if stage > 0 and block == 0 else 1
        inner = jax.nn.relu(layer(f"{stage}.{block}.first", x, stride))
        inner = layer(f"{stage}.{block}.second", inner)
        missing = inner.shape[-1] - x.shape[-1]  # the way around a block has no weights: it drops pixels, adds zeros
        around = jnp.pad(x[:, ::stride, ::stride], ((0, 0), (0, 0), (0, 0), (missing // 2, missing - missing // 2)))
        x = jax.nn.relu(inner + around)
    return x, kept


def logits(
    weights: Tree, statistics: Tree, images: jax.Array, settings: Settings, training: bool
) -> tuple[jax.Array, Tree]:
    """The ten outputs for each image, and the statistics to keep."""
    x, kept = run_stages(weights, statistics, images, settings, training)
    return x.mean((1, 2)) @ weights["readout"]["matrix"] + weights["readout"]["bias"], kept


# training


def augment(images: jax.Array, key: jax.Array) -> jax.Array:
    """Each image moved by up to four pixels, black behind it, and mirrored or not."""
    count = len(images)
    move_key, mirror_key = jax.random.split(key)
    wide = jnp.pad(images, ((0, 0), (4, 4), (4, 4), (0, 0)))
    corners = jax.random.randint(move_key, (count, 2), 0, 9)
    moved = jax.vmap(lambda image, at: jax.lax.dynamic_slice(image, (at[0], at[1], 0), (SIDE, SIDE, COLORS)))(
        wide, corners
    )
    return jnp.where(jax.random.bernoulli(mirror_key, shape=(count, 1, 1, 1)), moved[:, :, ::-1], moved)


@partial(jax.jit, static_argnames="settings")
def train_epoch(
    state: Tree, images: jax.Array, labels: jax.Array, rates: jax.Array, key: jax.Array, settings: Settings
) -> tuple[Tree, jax.Array]:
    """One pass over the images in random order, a step for each rate; the mean loss of the pass comes second."""
    keys = jax.random.split(key, 1 + len(rates))
    order = jax.random.permutation(keys[0], len(images))[: len(rates) * settings.batch]

    def loss(weights: Tree, statistics: Tree, batch: jax.Array, asked: jax.Array) -> tuple[jax.Array, Tree]:
        outputs, kept = logits(weights, statistics, batch, settings, training=True)
        return -jnp.take_along_axis(jax.nn.log_softmax(outputs), asked[:, None], axis=1).mean(), kept

    def step(state: Tree, given: Tree) -> tuple[Tree, jax.Array]:
        weights, velocity, statistics = state
        chosen, rate, key = given
        batch = augment(images[chosen], key).astype(jnp.float32) / 255
        (value, statistics), slope = jax.value_and_grad(loss, has_aux=True)(weights, statistics, batch, labels[chosen])
        velocity = jax.tree.map(
            lambda v, s, w: settings.momentum * v + s + settings.decay * w, velocity, slope, weights
        )
        weights = jax.tree.map(lambda w, v: w - rate * v, weights, velocity)
        return (weights, velocity, statistics), value

    state, losses = jax.lax.scan(step, state, (order.reshape(len(rates), -1), rates, keys[1:]))
    return state, losses.mean()


def learning_rates(settings: Settings, steps: int) -> np.ndarray:
    """The rate of every step, (epochs, steps of an epoch): up over the first 5 % of them, down along a cosine."""
    done = (np.arange(settings.epochs * steps) + 0.5) / (settings.epochs * steps)
    shape = np.where(done < 0.05, done / 0.05, 0.5 * (1 + np.cos(np.pi * (done - 0.05) / 0.95)))
    return (settings.rate * shape).astype(np.float32).reshape(settings.epochs, steps)


def train(
    settings: Settings,
    train_set: Set,
    test_set: Set,
) -> "Network":
    """Train on one set, and say on the way how much of the other is recognised. Nothing is chosen by the other."""
    if settings.batch > len(train_set[0]):
        raise RangeError(f"batch must be at most the number of images, {len(train_set[0])}; it was {settings.batch}")
    key, first_key = jax.random.split(jax.random.key(settings.seed))
    weights, statistics = first_network(settings, first_key)
    state = (weights, jax.tree.map(jnp.zeros_like, weights), statistics)
    images, labels = jnp.asarray(train_set[0]), jnp.asarray(train_set[1], jnp.int32)
    began = time.perf_counter()
    for epoch, rates in enumerate(learning_rates(settings, len(images) // settings.batch), start=1):
        state, loss = train_epoch(state, images, labels, jnp.asarray(rates), jax.random.fold_in(key, epoch), settings)
        if epoch % 5 == 0 or epoch in (1, settings.epochs):
            accuracy = Network(settings, state[0], state[2]).accuracy(*test_set)
            passed = time.perf_counter() - began
            print(f"epoch {epoch}: loss {loss:.4f}, test accuracy {accuracy:.4f}, {passed:.0f} s", flush=True)
    return Network(settings, state[0], state[2])


# the trained network, frozen


@dataclass(frozen=True)
class Network:
    """A trained network. Its statistics are fixed, so each image is seen alone: the same in any batch."""

    settings: Settings
    weights: Tree
    statistics: Tree

    def encode(self, images: np.ndarray, where: np.ndarray = PLAIN) -> Iterator[np.ndarray]:
        """The features (chunk, 512) of images (N, 32, 32, 3) after an index map of their pixels, a chunk at a time.

        They are the output of the second stage, averaged over patches of 4 x 4: channel, then row, then column.
        """
        for chunk, count in _chunks(images):
            found = _encode(self.weights, self.statistics, chunk, jnp.asarray(where), self.settings)
            yield np.asarray(found)[:count]

    def accuracy(self, images: np.ndarray, labels: np.ndarray) -> float:
        """The fraction of images that are recognised."""
        found = [
            np.asarray(_classes(self.weights, self.statistics, chunk, self.settings))[:count]
            for chunk, count in _chunks(images)
        ]
        return float((np.concatenate(found) == labels).mean())

    def save(self, path: Path, accuracy: float) -> None:
        """Write one file of arrays."""
        words = {"settings": json.dumps(asdict(self.settings)), "accuracy": np.float64(accuracy)}
        arrays = {name: np.asarray(leaf) for name, leaf in _named(self.weights, self.statistics).items()}
        _write_arrays(path, {**words, **arrays})

    @classmethod
    def load(cls, path: Path) -> "Network":
        """Read the file that `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as file:
                settings = Settings(**json.loads(str(file["settings"])))
                shapes = jax.eval_shape(partial(first_network, settings), jax.random.key(0))
                leaves = [jnp.asarray(file[name]) for name in _named(*shapes)]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise FileFormatError(f"{path} must be a network.npz that this script wrote; {error}") from None
        for name, leaf, expected in zip(_named(*shapes), leaves, jax.tree.leaves(shapes), strict=True):
            if (leaf.shape, leaf.dtype) != (expected.shape, expected.dtype):
                raise FileFormatError(f"{path}: {name} must be {expected}; it is {leaf.dtype}{list(leaf.shape)}")
        return cls(settings, *jax.tree.unflatten(jax.tree.structure(shapes), leaves))


def _named(weights: Tree, statistics: Tree) -> dict[str, Any]:
    leaves, _ = jax.tree_util.tree_flatten_with_path((weights, statistics))
    return {jax.tree_util.keystr(path, simple=True, separator="/"): leaf for path, leaf in leaves}


def _chunks(images: np.ndarray) -> Iterator[tuple[jax.Array, int]]:
    """Pieces of one size, so that one program serves all; the last is filled up, and its own count given."""
    size = min(CHUNK, len(images))
    for start in range(0, len(images), size):
        piece = images[start : start + size]
        yield jnp.asarray(np.concatenate([piece, images[: size - len(piece)]])), len(piece)


@partial(jax.jit, static_argnames="settings")
def _encode(weights: Tree, statistics: Tree, images: jax.Array, where: jax.Array, settings: Settings) -> jax.Array:
    pixels = images.reshape(len(images), SIDE * SIDE, COLORS)
    black = jnp.zeros((len(images), 1, COLORS), pixels.dtype)  # what comes from outside an image
    turned = jnp.concatenate([pixels, black], axis=1)[:, where].reshape(images.shape)
    x, _ = run_stages(weights, statistics, turned.astype(jnp.float32) / 255, settings, training=False, stages=CUT)
    patches = x.shape[1] // POOL
    pooled = x.reshape(len(x), patches, POOL, patches, POOL, -1).mean((2, 4))
    return pooled.transpose(0, 3, 1, 2).reshape(len(x), -1)


@partial(jax.jit, static_argnames="settings")
def _classes(weights: Tree, statistics: Tree, images: jax.Array, settings: Settings) -> jax.Array:
    outputs, _ = logits(weights, statistics, images.astype(jnp.float32) / 255, settings, training=False)
    return outputs.argmax(1)


# what is saved


def linear_readout(train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray) -> float:
    """The accuracy of least squares from the features, with a bias: what a linear network can hope for."""

    def with_bias(features: np.ndarray) -> np.ndarray:
        return np.hstack([features.astype(np.float64), np.ones((len(features), 1))])

    rows = with_bias(train)
    gram, aim = rows.T @ rows, rows.T @ np.eye(CLASSES)[train_labels]
    matrix = np.linalg.lstsq(gram, aim, rcond=None)[0]
    return float(((with_bias(test) @ matrix).argmax(1) == test_labels).mean())


def save_rotated(network: Network, images: np.ndarray, maps: np.ndarray, path: Path) -> None:
    """Write the features of all images in all domains, (domains, images, features), never holding more than a chunk."""

    def write(part: Path) -> None:
        for domain, where in enumerate(maps):
            start = 0
            for piece in network.encode(images, where):
                if domain == start == 0:
                    shape = (len(maps), len(images), piece.shape[1])
                    target = np.lib.format.open_memmap(part, mode="w+", dtype=np.float16, shape=shape)
                target[domain, start : start + len(piece)] = piece
                start += len(piece)
        target.flush()

    write_whole(path, write)


def _write_arrays(path: Path, arrays: dict[str, Any]) -> None:
    def write(part: Path) -> None:
        with part.open("wb") as file:  # given a name, numpy would add an ending to it
            np.savez(file, **arrays)

    write_whole(path, write)


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n", 1)[0])
    parser.add_argument("folder", type=Path, help="where the binary version of CIFAR-10 lies")
    parser.add_argument("--out", type=Path, default=Path("results/cifar"), help="the folder to write (%(default)s)")
    parser.add_argument("--network", type=Path, help="a network.npz to encode with, instead of training")
    for name, value in asdict(Settings()).items():
        parser.add_argument(f"--{name}", type=type(value), default=value, help="%(default)s")
    parser.add_argument("--domains", type=int, default=40, help="rotated domains (%(default)s)")
    parser.add_argument("--range", type=float, default=270.0, help="degrees; domain i has range * i / domains")
    parser.add_argument(
        "--rotated", type=int, nargs=2, metavar=("TRAIN", "TEST"), default=(0, 0), help="images to rotate of each set"
    )
    return parser.parse_args(given)


def work(options: argparse.Namespace) -> None:
    """Read, train or load, encode, save."""
    settings = Settings(**{name: getattr(options, name) for name in asdict(Settings())})
    require_count("domains", options.domains)
    require_number("range", options.range, above=0, most=360)
    train_set, test_set = read(options.folder)
    for count, (images, _) in zip(options.rotated, (train_set, test_set), strict=True):
        if not 0 <= count <= len(images):
            raise RangeError(f"rotated must be at most the images that there are, {len(images)}; it was {count}")
    out = make_folder(options.out)
    network = Network.load(options.network) if options.network else train(settings, train_set, test_set)
    accuracy = network.accuracy(*test_set)
    print(f"test accuracy of the network: {accuracy:.4f}", flush=True)
    network.save(out / "network.npz", accuracy)

    began = time.perf_counter()
    features = [np.concatenate([*network.encode(images)]).astype(np.float16) for images, _ in (train_set, test_set)]
    readout = linear_readout(features[0], train_set[1], features[1], test_set[1])
    print(f"test accuracy of a linear readout of {features[0].shape[1]} features: {readout:.4f}", flush=True)
    about = {**asdict(network.settings), "accuracy": accuracy, "linear_readout": readout}
    about |= {"mean": float(features[0].mean(dtype=np.float64)), "largest": float(features[0].max())}
    arrays = {"train": features[0], "train_labels": train_set[1], "test": features[1], "test_labels": test_set[1]}
    _write_arrays(out / "features.npz", {**arrays, "settings": json.dumps(about)})
    maps = rotations((1, SIDE, SIDE), options.domains, options.range)
    for name, count, images in zip(("train", "test"), options.rotated, (train_set[0], test_set[0]), strict=True):
        if count:
            save_rotated(network, images[:count], maps, out / f"rotated_{name}.npy")
    print(json.dumps(about))
    print(f"encoded in {time.perf_counter() - began:.0f} s; written to {out}")


def main(given: Sequence[str] | None = None) -> int:
    """Run the script; a user's mistake is told in one line, with status 2."""
    try:
        work(_arguments(given))
    except NeuralRaceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
