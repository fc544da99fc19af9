"""Networks that another framework trained: checkpoint files, names of layers, learning rate, and the record of a run.

A chain of linear layers is read as its framework names it: PyTorch and Equinox call a matrix `weight`, (outputs,
inputs); Flax calls it `kernel`, (inputs, outputs). All call the rest `bias`. The text before these words names the
layer. Nothing in a file is executed.
"""

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from neuralrace.architecture import Architecture, edge_name
from neuralrace.archives import read_archive
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
from neuralrace.memory import in_bytes
from neuralrace.problem import BIAS, Problem

KINDS = (".npz", ".safetensors")
MOST_BYTES = 2**31  # of the arrays of one file
LEAF = re.compile(r"[./\[\]'\"]*(?P<leaf>weight|kernel|bias|w|b)[\]'\"]*$")

Checkpoints = tuple[tuple[int, ...], tuple[dict[str, np.ndarray], ...]]  # ascending steps, and the arrays of each
Layer = tuple[str, np.ndarray, np.ndarray | None]  # name, (outputs, inputs), and (outputs,) where it has biases


def read_folder(folder: str | os.PathLike[str]) -> tuple[Checkpoints, ...]:
    """Read all checkpoints of a folder: of one network, or of several, each in a folder of its own."""
    place = Path(folder)
    if not place.is_dir():
        raise FileFormatError(f"a folder with checkpoints is required; there is no folder {place}")

    def files(place: Path) -> list[Path]:
        return sorted(path for path in place.iterdir() if path.suffix.lower() in KINDS and path.is_file())

    networks = [place] if files(place) else sorted(path for path in place.iterdir() if path.is_dir() and files(path))
    if not networks:
        raise FileFormatError(
            f"{place} must hold checkpoints as .npz or .safetensors files, or folders of them, one for each network; "
            "it holds none"
        )
    found: list[Checkpoints] = []
    for network in networks:
        by_step: dict[int, Path] = {}
        for path in files(network):
            number = re.search(r"(\d+)\D*$", path.stem)  # the last number of the name
            if number is None:
                raise FileFormatError(
                    f"a checkpoint must have its step in its name, such as step_100{path.suffix}; {path} has none"
                )
            step = int(number[1])
            if step in by_step:
                raise FileFormatError(
                    f"every step must come once; {by_step[step].name} and {path.name} are both of step {step}"
                )
            by_step[step] = path
        steps = tuple(sorted(by_step))
        found.append((steps, tuple(read_weights(by_step[step]) for step in steps)))
    return tuple(found)


def read_weights(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the arrays of one .npz or .safetensors file."""
    source = Path(path)
    if not source.is_file():
        raise FileFormatError(f"a file with weights is required; there is no file {source}")
    if source.suffix.lower() not in KINDS:
        raise FileFormatError(f"weights must be in a .npz or .safetensors file; {source.name} came")
    if source.suffix.lower() == ".npz":
        arrays = dict(read_archive(source, MOST_BYTES))
    else:
        try:
            from safetensors import SafetensorError
            from safetensors.numpy import load_file
        except ImportError:
            raise FileFormatError(f"reading {path} needs the package safetensors: pip install safetensors") from None
        if source.stat().st_size > MOST_BYTES:
            raise FileFormatError(
                f"{path} must hold at most {in_bytes(MOST_BYTES)}; it holds {in_bytes(source.stat().st_size)}"
            )
        try:
            arrays = dict(load_file(source))
        except (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise FileFormatError(
                f"{path} is not a readable .safetensors file of float16, float32 or float64 ({reason})"
            ) from None
    for name, array in arrays.items():
        if array.dtype.kind not in "fiu":
            raise FileFormatError(f"{source}: {name!r} must hold numbers; it holds {array.dtype}")
    return arrays


def layers_of(arrays: Mapping[str, Any], inputs: int, outputs: int) -> tuple[Layer, ...]:
    """Order layers as they follow each other from the inputs to the outputs: by name, or where that fails by shape."""
    named: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        match, values = LEAF.search(str(name)), np.asarray(array)
        if match is None or values.ndim != (1 if match["leaf"] in ("bias", "b") else 2):
            raise WeightError(
                "weights must be those of a chain of linear layers: matrices called weight or kernel, and vectors "
                f"called bias; {name!r} of shape {values.shape} is neither: leave it out of the checkpoint"
            )
        named.setdefault(str(name)[: match.start()], {})[match["leaf"]] = values
    layers: list[Layer] = []
    # numbers in names by their size: layer 10 after layer 9
    for prefix in sorted(
        named, key=lambda name: [(int(p), "") if p.isdigit() else (0, p) for p in re.split(r"(\d+)", name)]
    ):
        parts = named[prefix]
        leaves = [leaf for leaf in ("weight", "w", "kernel") if leaf in parts]
        if len(leaves) != 1:
            raise WeightError(f"a layer must have one matrix; {prefix or 'the unnamed one'} has {', '.join(parts)}")
        matrix = parts[leaves[0]].T if leaves[0] == "kernel" else parts[leaves[0]]
        bias = parts.get("bias", parts.get("b"))
        if bias is not None and len(bias) != len(matrix):
            raise WeightError(
                f"the bias of layer {prefix or 'unnamed'} must have one number for each output, {len(matrix)}; it has "
                f"{len(bias)}"
            )
        layers.append((prefix, matrix, bias))
    without = [name for name, _, bias in layers if bias is None]
    if 0 < len(without) < len(layers):
        raise WeightError(
            f"biases in every layer or in none are understood; {', '.join(without)} has none, others have"
        )

    def follow(order: Sequence[Layer]) -> bool:
        sizes = [inputs, *(len(matrix) for _, matrix, _ in order)]
        return bool(order) and sizes == [*(matrix.shape[1] for _, matrix, _ in order), outputs]

    if follow(layers):
        return tuple(layers)
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
    own = {edge_name(edge): edge for edge in architecture.edges} | {edge: edge for edge in architecture.edges}
    if all(name in own for name in arrays):
        return {own[name]: _numbers(name, matrix) for name, matrix in arrays.items()}
    chain = [node for node in architecture.order if node != BIAS or not biases]
    sizes = [architecture.nodes[node] for node in chain]
    layers = layers_of(arrays, sizes[0], sizes[-1])
    found = [sizes[0], *(len(matrix) for _, matrix, _ in layers)]
    if found != sizes:
        wanted, came = (" -> ".join(map(str, listed)) for listed in (sizes, found))
        raise WeightError(f"the network has layers of {wanted}; the weights are of layers of {came}")
    if (layers[0][2] is not None) != biases:
        has = "has biases and the weights have none" if biases else "has no biases and the weights have"
        raise WeightError(f"the network {has}: make it with biases={not biases}")
    weights: dict[Edge, np.ndarray] = {}
    for (source, target), (name, matrix, bias) in zip(itertools.pairwise(chain), layers, strict=True):
        weights[source, target] = _numbers(name, matrix)
        if bias is not None:
            weights[BIAS, target] = _numbers(name, bias)[:, None]
    return weights


def _numbers(name: Any, values: Any) -> np.ndarray:
    """Convert to double precision; types that numpy learns from others, as half precision of JAX, serve as well."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"the weights of {name!r} must be numbers; they were {shortened(values)}") from None


class Pace(NamedTuple):
    """learning_rate: what the weights moved in a step, over the gradient. cosine: 1 where they moved down it."""

    learning_rate: float
    cosine: float


@float64
def estimate_learning_rate(
    problem: Problem, steps: Sequence[int], weights: Sequence[Mapping[Edge, np.ndarray]]
) -> Pace:
    """Find the learning rate whose steps lead from one checkpoint to the next.

    First from how the weights moved over the mean gradient of both ends, where the gradient changes least among those
    that moved by more than rounding. From there by steps of descent between these two checkpoints, until they come as
    far as the weights did.
    """
    from neuralrace._engine.network import as_numpy, compiled_descent  # a third of a second of imports

    def flat(by_edge: Mapping[Edge, np.ndarray]) -> np.ndarray:
        return np.concatenate([np.ravel(by_edge[edge]) for edge in sorted(by_edge, key=str)])

    slopes, places = [flat(problem.gradient(one)) for one in weights], [flat(one) for one in weights]
    found: list[tuple[bool, float, int, float, float]] = []
    for i in range(len(steps) - 1):
        moved, slope = places[i + 1] - places[i], 0.5 * (slopes[i] + slopes[i + 1])
        length, size = float(np.linalg.norm(moved)), float(np.linalg.norm(slope))
        if length == 0 or size == 0:
            continue
        along, change = -float(moved @ slope), float(np.linalg.norm(slopes[i + 1] - slopes[i]))
        rate = along / (size**2 * (steps[i + 1] - steps[i]))
        still = length < 1e-4 * float(np.linalg.norm(places[i]))  # single precision: good to a thousandth
        found.append((still, change / size, i, rate, along / (length * size)))
    if not found:
        raise WeightError("the weights must move between checkpoints; these are the same at every step")
    _, _, place, rate, cosine = min(found)
    count = steps[place + 1] - steps[place]
    if rate <= 0 or count > 500:
        return Pace(rate, cosine)
    moved, cosine = places[place + 1] - places[place], 0.0
    network, length = problem.network, float(np.linalg.norm(moved))
    stacks = network.stack(weights[place])
    for _ in range(5):
        ended = compiled_descent(network, stacks, np.asarray(rate), np.asarray(count))
        went = flat(network.unstack(as_numpy(ended))) - places[place]
        far = float(np.linalg.norm(went))
        if far == 0 or not far <= 1e3 * length:  # descent by such steps diverges, so it is not what moved the weights
            break
        cosine, part = float(went @ moved) / (far * length), float(went @ moved) / length**2
        if part <= 0 or abs(part - 1) < 1e-3:
            break
        rate /= part
    return Pace(rate, cosine)


def checkpoint_records(
    network: Problem, steps: Sequence[int], weights: Sequence[Any], learning_rate: float | None
) -> tuple[np.ndarray, np.ndarray, dict[str, tuple[tuple[str, ...], np.ndarray]], dict[str, Any]]:
    """Compute times, steps, variables and settings of a trajectory, as training records them.

    weights: one set for each step, or a list of such for each network; by edge, or by the names of a framework.
    """
    if not hasattr(network, "architecture"):
        raise ProblemError(f"network must be a ReLUNetwork on the examples; it was {shortened(network)}")
    times = np.asarray(steps)
    if times.ndim != 1 or len(times) < 2 or times.dtype.kind not in "iu":
        raise RangeError(f"steps must be at least two whole numbers; they were {steps!r}")
    if (np.diff(times) <= 0).any():
        place = int(np.argmax(np.diff(times) <= 0))
        raise RangeError(f"steps must increase; {times[place + 1]} comes after {times[place]}")
    if times[0] != 0:
        raise RangeError(
            f"the weights before training, at step 0, are required; the first are of step {times[0]}: save them once "
            "before the loop"
        )
    require_kind("weights", weights, Sequence, WeightError)
    sets = [weights] if weights and isinstance(weights[0], Mapping) else weights
    for one in sets:
        require_kind("the weights of each network", one, Sequence, WeightError)
    if not sets or any(len(one) != len(times) for one in sets):
        found = ", ".join(str(len(one)) for one in sets) or "none"
        raise WeightError(f"one set of weights is required for each of the {len(times)} steps; there are {found}")
    seen: list[list[dict[Edge, np.ndarray]]] = []
    for mine in sets:
        seen.append([])
        for step, one in zip(times, mine, strict=True):
            try:
                if not isinstance(one, Mapping):
                    raise WeightError(f"weights must be arrays by name or by edge; {type(one).__name__} came")
                by_edge = weights_by_edge(one, network.architecture, network.biases)
                network.loss(by_edge)  # says which edge does not fit or is not finite
            except NeuralRaceError as error:
                raise WeightError(f"checkpoint of step {step}: {error}") from None
            seen[-1].append({edge: by_edge[edge] for edge in network.architecture.edges})
    paces = [estimate_learning_rate(network, times.tolist(), mine) for mine in seen]
    measured = float(np.median([pace.learning_rate for pace in paces]))
    rate = measured if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    if rate <= 0:
        raise WeightError(
            "weights that moved down the gradient of the squared error are required; these moved against it: check "
            "that examples, targets and the order of the inputs are those of the training"
        )
    losses = np.array([[network.loss(one) for one in mine] for mine in seen])
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"loss": (("seed", "time"), losses)}
    for edge, (source, target) in network.architecture.edges.items():
        name, units = edge_name(edge), (f"{target}_unit", f"{source}_unit")
        over_time = np.array([[one[edge] for one in mine] for mine in seen])
        variables[f"weights[{name}]"] = (("seed", "time", *units), over_time)
        variables[f"initial_weights[{name}]"] = (("seed", *units), over_time[:, 0])
        variables[f"final_weights[{name}]"] = (("seed", *units), over_time[:, -1])
    received = [[network.preactivations(one) for one in mine] for mine in seen]
    for node in received[0][0]:
        gates = np.array([[one[node] > 0 for one in mine] for mine in received])
        variables[f"gate_patterns[{node}]"] = (("seed", "time", "example", f"{node}_unit"), gates)
    settings = {
        "learning_rate": rate,
        "steps": int(times[-1]),
        "seeds": len(seen),
        "key": None,
        "loss": "squared",
        "rule": {"rule": "checkpoints", "cosine": min(pace.cosine for pace in paces), "measured_rate": measured},
        "batch_size": None,
        "coupling": "joint",
        "initial": {"name": "given"},
    }
    return rate * times, times.astype(int), variables, settings
