"""Networks trained in another framework: checkpoint files, names of layers, learning rate, and the record of a run.

A chain of linear layers is read as its framework names it: PyTorch and Equinox call a matrix `weight`, (outputs,
inputs); Flax calls it `kernel`, (inputs, outputs). All call the rest `bias`. The text before these words names the
layer. Nothing in a file is executed.
"""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralrace._engine.network import as_numpy, compiled_descent
from neuralrace.architecture import Architecture, edge_name
from neuralrace.arrays import float64
from neuralrace.axes import Edge
from neuralrace.errors import (
    FileFormatError,
    NeuralRaceError,
    ProblemError,
    RangeError,
    WeightError,
    require_kind,
    require_number,
    shortened,
)
from neuralrace.io import read_archive
from neuralrace.problem import BIAS, Problem

LEAF = re.compile(r"[./\[\]'\"]*(?P<leaf>weight|kernel|bias|w|b)[\]'\"]*$")

Checkpoints = tuple[tuple[int, ...], tuple[dict[str, np.ndarray], ...]]  # ascending steps, and the arrays of each
Layer = tuple[str, np.ndarray, np.ndarray | None]  # name, (outputs, inputs), and (outputs,) where it has biases


def read_folder(folder: str | os.PathLike[str]) -> tuple[Checkpoints, ...]:
    """Read all checkpoints of a folder: of one network, or of several, each in a folder of its own."""
    found: dict[Path, dict[int, Path]] = {}
    for path in sorted([*Path(folder).glob("*"), *Path(folder).glob("*/*")]):
        if path.suffix.lower() not in (".npz", ".safetensors"):
            continue
        number = re.search(r"(\d+)\D*$", path.stem)  # the last number of the name
        if number is None:
            raise FileFormatError(
                f"a checkpoint must have its step in its name, such as step_100{path.suffix}; {path} has none"
            )
        other = found.setdefault(path.parent, {}).setdefault(int(number[1]), path)
        if other != path:
            raise FileFormatError(f"every step must occur once; {other.name} and {path.name} have the same step")
    if not found:
        raise FileFormatError(
            f"{folder} must be a folder with checkpoints as .npz or .safetensors files, or with folders of them, one "
            "for each network; it holds none"
        )
    return tuple((tuple(sorted(own)), tuple(read_weights(own[step]) for step in sorted(own))) for own in found.values())


def read_weights(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of one .npz or .safetensors file."""
    if path.suffix.lower() == ".npz":
        return read_archive(path)
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except Exception as error:  # any error that damaged bytes can cause
        raise FileFormatError(
            f"{path} is not a readable .safetensors file of float16, float32 or float64 ({shortened(error, 300)})"
        ) from None


def layers_of(arrays: Mapping[str, Any], inputs: int, outputs: int) -> Sequence[Layer]:
    """Order layers as they follow each other from the inputs to the outputs: by name, or where that fails by shape."""
    named: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        match, values = LEAF.search(str(name)), np.asarray(array)
        if match is None or values.ndim != (1 if match["leaf"] in ("bias", "b") else 2):
            raise WeightError(
                "weights must be those of a chain of linear layers: matrices called weight or kernel, and vectors "
                f"called bias; {name!r} of shape {values.shape} is neither: leave it out of the checkpoint"
            )
        # one letter for each: W of a matrix (outputs, inputs), b of a bias
        kind = "b" if values.ndim == 1 else "W"
        named.setdefault(str(name)[: match.start()], {})[kind] = values.T if match["leaf"] == "kernel" else values

    def numbers_by_size(name: str) -> list[str | int]:  # layer 10 after layer 9
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

    if any("W" not in parts for parts in named.values()) or len({len(parts) for parts in named.values()}) > 1:
        kinds = ", ".join(f"{name or 'unnamed'} has {' and '.join(parts)}" for name, parts in named.items())
        raise WeightError(f"layers must have a matrix W each, and a bias b in every layer or in none; {kinds}")
    layers = [(name, named[name]["W"], named[name].get("b")) for name in sorted(named, key=numbers_by_size)]

    def follow(order: Sequence[Layer]) -> bool:
        sizes = [inputs, *(len(matrix) for _, matrix, _ in order)]
        return bool(order) and sizes == [*(matrix.shape[1] for _, matrix, _ in order), outputs]

    if follow(layers):
        return layers
    fitting = [order for order in itertools.permutations(layers) if follow(order)] if len(layers) < 8 else []
    if len(fitting) == 1:
        return fitting[0]
    shapes = ", ".join(f"{name or 'unnamed'} {matrix.shape[::-1]}" for name, matrix, _ in layers)
    raise WeightError(
        f"layers must follow each other from {inputs} inputs to {outputs} outputs; with (inputs, outputs) these are "
        f"{shapes or 'none'}"
    )


def weights_by_edge(arrays: Mapping[Any, Any], architecture: Architecture, biases: bool) -> dict[Edge, np.ndarray]:
    """Read the weights of a chain by edge: from edges themselves, or from the names of a framework."""
    numbers: dict[Any, np.ndarray] = {}
    for name, values in arrays.items():
        try:  # types registered by other packages, such as bfloat16, are accepted too
            numbers[name] = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise WeightError(f"the weights of {name!r} must be numbers; they were {shortened(values)}") from None
    own = {edge_name(edge): edge for edge in architecture.parameters} | {edge: edge for edge in architecture.parameters}
    if all(name in own for name in numbers):
        return {edge: numbers[name] for name, edge in own.items() if name in numbers}
    chain = [node for node in architecture.order if node != BIAS or not biases]
    sizes = [architecture.nodes[node] for node in chain]
    layers = layers_of(numbers, sizes[0], sizes[-1])
    found = [sizes[0], *(len(matrix) for _, matrix, _ in layers)]
    if found != sizes or (layers[0][2] is not None) != biases:
        wanted, came = (" -> ".join(map(str, listed)) for listed in (sizes, found))
        raise WeightError(
            f"the network has layers of {wanted} with biases={biases}; the weights are of layers of {came} with "
            f"biases={layers[0][2] is not None}: make the network like them"
        )
    weights: dict[Edge, np.ndarray] = {}
    for (source, target), (_, matrix, bias) in zip(itertools.pairwise(chain), layers, strict=True):
        weights[source, target] = matrix
        if bias is not None:
            weights[BIAS, target] = bias[:, None]
    return weights


@float64
def estimate_learning_rate(
    problem: Problem, steps: Sequence[int], weights: Sequence[Mapping[Edge, np.ndarray]]
) -> tuple[float, float]:
    """Find the learning rate whose steps lead from one checkpoint to the next, and the cosine of their directions.

    The first estimate is the change of the weights over the mean gradient of both ends, for the two checkpoints between
    which the gradient changes least (of those that differ by more than rounding). It is refined by descent between
    these two checkpoints, until the steps move the weights as far.
    """

    def flat(by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(by_edge[edge]) for edge in problem.architecture.parameters])

    places, slopes = np.array([flat(w) for w in weights]), np.array([flat(problem.gradient(w)) for w in weights])
    moved, slope, counts = np.diff(places, axis=0), 0.5 * (slopes[1:] + slopes[:-1]), np.diff(steps)
    lengths, sizes = np.linalg.norm(moved, axis=1), np.linalg.norm(slope, axis=1)
    still = lengths < 1e-4 * np.linalg.norm(places[:-1], axis=1)  # single precision: good to a thousandth
    change = np.linalg.norm(np.diff(slopes, axis=0), axis=1) / np.where(sizes > 0, sizes, 1.0)
    usable = np.flatnonzero((lengths > 0) & (sizes > 0))
    if not len(usable):
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    place = int(min(usable, key=lambda i: (still[i], change[i])))
    way, length, count = moved[place], lengths[place], counts[place]
    along = -float(way @ slope[place]) / sizes[place]
    rate, cosine = float(along / (sizes[place] * count)), float(along / length)
    if rate <= 0 or count > 500:
        return rate, cosine
    stacks, cosine = problem.network.stack(weights[place]), 0.0
    for _ in range(5):
        ended = compiled_descent(problem.network, stacks, np.asarray(rate), np.asarray(count))
        went = flat(problem.network.unstack(as_numpy(ended))) - places[place]
        far = float(np.linalg.norm(went))
        if not 0 < far <= 1e3 * length:  # descent by such steps diverges, so it is not what moved the weights
            break
        cosine, part = float(went @ way / (far * length)), float(went @ way / length**2)
        if part <= 0 or abs(part - 1) < 1e-3:
            break
        rate /= part
    return rate, cosine


def checkpoint_records(
    network: Problem, steps: Sequence[int], weights: Sequence[Any], learning_rate: float | None
) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[tuple[str, ...], np.ndarray]], dict[str, Any]]:
    """Compute times, steps, variables and settings of a trajectory, as training records them.

    weights: one set for each step, or a list of such for each network; by edge, or by the names of a framework.
    """
    require_kind("network", network, Problem, ProblemError)
    times = np.asarray(steps)
    if times.ndim != 1 or len(times) < 2 or times.dtype.kind not in "iu" or times[0] or (np.diff(times) <= 0).any():
        raise RangeError(
            "steps must be at least two whole numbers that increase from 0, the weights before training; they were "
            f"{shortened(steps)}: save the weights once before the loop"
        )
    require_kind("weights", weights, Sequence, WeightError)
    sets = [weights] if weights and isinstance(weights[0], Mapping) else weights
    if not sets or any(np.shape(one) != times.shape for one in sets):
        raise WeightError(f"weights must be one set for each of the {len(times)} steps; it was {shortened(weights)}")
    seen: list[list[dict[Edge, np.ndarray]]] = [[] for _ in sets]
    losses = np.zeros((len(sets), len(times)))
    for seed, mine in enumerate(sets):
        for place, one in enumerate(mine):
            try:
                require_kind("weights by name or by edge", one, Mapping, WeightError)
                seen[seed].append(weights_by_edge(one, network.architecture, network.biases))
                losses[seed, place] = network.loss(seen[seed][-1])  # says which edge does not fit or is not finite
            except NeuralRaceError as error:
                raise WeightError(f"checkpoint of step {times[place]}: {error}") from None
    rates, cosines = np.transpose([estimate_learning_rate(network, times.tolist(), mine) for mine in seen])
    given = None if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    rate = float(np.median(rates)) if given is None else given
    if rate <= 0:
        raise WeightError(
            "weights that moved down the gradient of the squared error are required; these moved against it: check "
            "that examples, targets and the order of the inputs are those of the training"
        )
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"loss": (("seed", "time"), losses)}
    for edge in network.architecture.parameters:
        name, units = edge_name(edge), network.architecture.axes(edge)
        over_time = np.array([[one[edge] for one in mine] for mine in seen])
        variables[f"weights[{name}]"] = (("seed", "time", *units), over_time)
        variables[f"initial_weights[{name}]"] = (("seed", *units), over_time[:, 0])
        variables[f"final_weights[{name}]"] = (("seed", *units), over_time[:, -1])
    received = [[network.preactivations(one) for one in mine] for mine in seen]
    for node in network.activations:
        gates = np.array([[one[node] > 0 for one in mine] for mine in received])
        variables[f"gate_patterns[{node}]"] = (("seed", "time", "example", f"{node}_unit"), gates)
    rule = {"rule": "checkpoints", "cosine": float(np.min(cosines))}
    settings = {
        **{"learning_rate": rate, "steps": int(times[-1]), "seeds": len(seen), "key": None, "loss": "squared"},
        **{"rule": rule, "batch_size": None, "coupling": "joint", "initial": {"name": "given"}},
    }
    return rate * times, times.astype(int), variables, settings
