"""Networks trained in another framework: checkpoint files, names of layers, and the record of a run.

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

from neuralrace.architecture import Architecture, edge_name
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
from neuralrace.movement import ALONG, estimate_pace, find_direction, loss_at
from neuralrace.problem import BIAS, Problem

LEAF = re.compile(r"[./\[\]'\"]*(?P<leaf>weight|kernel|bias|w|b|running_mean|running_var|num_batches_tracked)[\]'\"]*$")
EPS = 1e-5  # of batch normalization in PyTorch, unless told; it is not stored
PICKLES = (".pt", ".pth", ".ckpt", ".bin", ".pkl")

Checkpoints = tuple[tuple[int, ...], tuple[dict[str, np.ndarray], ...]]  # ascending steps, and the arrays of each
Layer = tuple[str, np.ndarray, np.ndarray | None]  # name, (outputs, inputs), and (outputs,) where it has biases


def read_folder(folder: str | os.PathLike[str]) -> tuple[tuple[Checkpoints, ...], tuple[str, ...]]:
    """Read all checkpoints of a folder: of one network, or of several, each in a folder of its own.

    Return also the names of what was skipped.
    """
    found: dict[Path, dict[int, Path]] = {}
    top, skipped = Path(folder), []
    for path in sorted([*top.glob("*"), *top.glob("*/*"), *([top] if top.is_file() else [])]):
        if path.suffix.lower() in (".npz", ".safetensors") and path != top:
            other = found.setdefault(path.parent, {}).setdefault(step_of(path), path)
            if other != path:
                raise FileFormatError(f"every step must occur once; {other.name} and {path.name} have the same step")
        elif not path.is_dir() or path.parent != top:
            skipped.append(path)
    if found:
        found_in = [folder for folder in top.glob("*") if folder.is_dir() and folder not in found]
        names = tuple(str(path.relative_to(top)) for path in sorted({*skipped, *found_in}))
        sets = ((tuple(sorted(own)), tuple(read_weights(own[step]) for step in sorted(own))) for own in found.values())
        return tuple(sets), names
    pickled = next((path for path in skipped if path.suffix.lower() in PICKLES), None)
    if pickled is not None:
        raise FileFormatError(
            f"checkpoints must be .npz or .safetensors files; {pickled.name} is a pickle, which is not opened, because "
            "that can run code. Convert each with PyTorch, in three lines: import numpy, torch; weights = "
            f"torch.load({pickled.name!r}, map_location='cpu', weights_only=True); "
            f"numpy.savez({pickled.stem + '.npz'!r}, **weights) (of a checkpoint with more than weights, take its "
            "['state_dict'])"
        )
    raise FileFormatError(
        f"{folder} must be a folder with checkpoints as .npz or .safetensors files, or with folders of them, one "
        "for each network; it holds none"
    )


def step_of(path: Path) -> int:
    """Read the step of a checkpoint off its name: its only number, or the one that follows the word step."""
    parts = re.split(r"[-_ =]|(?<!\d)\.|\.(?!\d)", path.stem)
    read = [re.fullmatch(r"([A-Za-z]*)([0-9]+)", part) for part in parts]
    before = ["", *parts]
    numbers = [(found[1] or word, int(found[2])) for found, word in zip(read, before, strict=False) if found]
    of_steps = [number for word, number in numbers if word.lower() in ("step", "steps")]
    odd = any(re.search(r"\d", part) for part, found in zip(parts, read, strict=True) if not found)
    if odd or "" in parts or len(of_steps or numbers) != 1:
        raise FileFormatError(
            f"a checkpoint must have its step in its name, as one whole number, such as step_100{path.suffix}; "
            f"{path.name} has {'none' if not re.search(chr(92) + 'd', path.stem) else 'another form'}: rename it"
        )
    return (of_steps or [number for _, number in numbers])[0]


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


def layers_of(arrays: Mapping[str, Any], inputs: int, outputs: int) -> tuple[list[Layer], tuple[str, ...]]:
    """Order layers as they follow each other from the inputs to the outputs: by name, or where that fails by shape.

    Batch normalization is folded into the linear layers. Return also notes on that, and on biases that were added.
    """
    named: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        match, values = LEAF.search(str(name)), np.asarray(array)
        leaf = "" if match is None else match["leaf"]
        part = {"kernel": "weight", "w": "weight", "b": "bias"}.get(leaf, leaf)
        layer = str(name) if match is None else str(name)[: match.start()]
        named.setdefault(layer, {})[part] = values.T if leaf == "kernel" else values

    def numbers_by_size(name: str) -> list[str | int]:  # layer 10 after layer 9
        return [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]

    layers: list[Layer] = []
    norms: dict[str, dict[str, np.ndarray]] = {}
    for name in sorted(named, key=numbers_by_size):
        parts = named[name]
        sizes = {part: values.ndim for part, values in parts.items() if part != "num_batches_tracked"}
        if "running_var" in sizes and "running_mean" in sizes and set(sizes.values()) == {1}:
            norms[name] = parts
        elif sizes.get("weight") == 2 and set(parts) <= {"weight", "bias"} and sizes.get("bias", 1) == 1:
            layers.append((name, parts["weight"], parts.get("bias")))
        else:
            kind = {1: "LayerNorm", 3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}.get(sizes.get("weight", 0), "")
            listed = ", ".join(f"{part or 'it'} of shape {values.shape}" for part, values in parts.items())
            raise WeightError(
                "weights must be those of a chain of linear layers (matrices called weight or kernel, vectors called "
                f"bias), with batch normalization between them at most; {name!r} has {listed}"
                f"{kind and f', as a {kind} has'}: a network with other layers cannot be explained, and what is no "
                "layer, such as the state of an optimizer, must be left out of the checkpoint"
            )

    def follow(order: Sequence[Layer]) -> bool:
        sizes = [inputs, *(len(matrix) for _, matrix, _ in order)]
        return bool(order) and sizes == [*(matrix.shape[1] for _, matrix, _ in order), outputs]

    if not follow(layers):
        fitting = [list(o) for o in itertools.permutations(layers) if follow(o)] if len(layers) < 8 else []
        if len(fitting) != 1:
            shapes = ", ".join(f"{name or 'unnamed'} {matrix.shape[::-1]}" for name, matrix, _ in layers)
            raise WeightError(
                f"layers must follow each other from {inputs} inputs to {outputs} outputs; with (inputs, outputs) "
                f"these are {shapes or 'none'}"
            )
        layers = fitting[0]
    bare, notes = [name for name, _, bias in layers if bias is None], []
    if norms or 0 < len(bare) < len(layers):
        layers = [(name, matrix, np.zeros(len(matrix)) if bias is None else bias) for name, matrix, bias in layers]
        if bare:
            notes.append(f"layers without a bias beside others with one were given zeros: {', '.join(bare)}")
    if norms:
        folded = _fold(layers, norms)
        notes.append(
            f"batch normalization, as it acts in evaluation, was folded into the linear layers: {'; '.join(folded)}. "
            f"eps was taken as {EPS:g}, as in PyTorch unless told: it is not stored"
        )
    return layers, tuple(notes)


def _fold(layers: list[Layer], norms: Mapping[str, Mapping[str, np.ndarray]]) -> list[str]:
    """Fold batch normalization into linear layers, in place; return where each was.

    In a Sequential the numbers tell: directly after a linear layer, or later, after its activation. With names it is
    taken to act before the activation, in the order of the names, on the first layer of its size without one.
    """
    told, free = [], list(range(len(layers)))
    for name, parts in norms.items():
        mean = parts["running_mean"]
        scale = parts.get("weight", np.ones_like(mean)) / np.sqrt(parts["running_var"] + EPS)
        shift = parts.get("bias", np.zeros_like(mean)) - scale * mean
        parent, number = re.fullmatch(r"(.*?)(\d*)", name, re.DOTALL).groups()  # type: ignore[union-attr]
        own = [re.fullmatch(re.escape(parent) + r"(\d+)", layer[0]) for layer in layers]
        if number and parent[-1:] in ("", ".", "/", "]", "[") and all(own):
            earlier = [place for place, found in enumerate(own) if found and int(found[1]) < int(number)]
            place = earlier[-1] if earlier else -1
            later = place >= 0 and int(number) > int(own[place][1]) + 1  # type: ignore[index]
        else:
            fitting = [place for place in free if len(layers[place][1]) == len(mean)]
            place, later = (fitting[0] if fitting else -1), False
            free = [one for one in free if one != place]
        into = place + 1 if later or place < 0 else place
        layer, matrix, bias = layers[min(into, len(layers) - 1)]
        assert bias is not None
        if into == len(layers) or matrix.shape[into != place] != len(mean):
            raise WeightError(f"batch normalization {name!r}, of {len(mean)} values, fits no layer that it may act on")
        if into == place:
            layers[into] = layer, scale[:, None] * matrix, scale * bias + shift
            told.append(f"{name} after {layer}, before its activation")
        else:
            layers[into] = layer, matrix * scale, bias + matrix @ shift
            told.append(f"{name} before {layer}")
    return told


def weights_by_edge(
    arrays: Mapping[Any, Any], architecture: Architecture, biases: bool
) -> tuple[dict[Edge, np.ndarray], tuple[str, ...]]:
    """Read the weights of a chain by edge: from edges themselves, or from the names of a framework.

    Return also the notes of `layers_of`.
    """
    numbers: dict[Any, np.ndarray] = {}
    for name, values in arrays.items():
        try:  # types registered by other packages, such as bfloat16, are accepted too
            numbers[name] = np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            raise WeightError(f"the weights of {name!r} must be numbers; they were {shortened(values)}") from None
    own = {edge_name(edge): edge for edge in architecture.parameters} | {edge: edge for edge in architecture.parameters}
    if all(name in own for name in numbers):
        return {edge: numbers[name] for name, edge in own.items() if name in numbers}, ()
    chain = [node for node in architecture.order if node != BIAS or not biases]
    sizes = [architecture.nodes[node] for node in chain]
    layers, notes = layers_of(numbers, sizes[0], sizes[-1])
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
    return weights, notes


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
    notes: tuple[str, ...] = ()
    losses = np.zeros((len(sets), len(times)))
    for seed, mine in enumerate(sets):
        for place, one in enumerate(mine):
            try:
                require_kind("weights by name or by edge", one, Mapping, WeightError)
                by_edge, notes = weights_by_edge(one, network.architecture, network.biases)
                seen[seed].append(by_edge)
                losses[seed, place] = network.loss(seen[seed][-1])  # says which edge does not fit or is not finite
            except NeuralRaceError as error:
                raise WeightError(f"checkpoint of step {times[place]}: {error}") from None
    given = None if learning_rate is None else require_number("learning_rate", learning_rate, above=0)
    pace, loss = estimate_pace(network, times.tolist(), seen), "squared"
    rule: dict[str, Any] = {"rule": "checkpoints", "cosine": pace.cosine, "small_steps": pace.small_steps}
    rate = given or (pace.learning_rate if pace.cosine >= ALONG else None)
    if pace.cosine < ALONG:
        loss, activation, sentence = find_direction(network, times.tolist(), seen, pace)
        rule |= {"direction": sentence, "activation": activation}
        losses = np.array([[loss_at(network, one, loss) for one in mine] for mine in seen])
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
    settings = {
        **{"learning_rate": rate, "steps": int(times[-1]), "seeds": len(seen), "key": None, "loss": loss},
        **{"rule": rule, "batch_size": None, "coupling": "joint", "initial": {"name": "given"}, "notes": notes},
    }
    return (1.0 if rate is None else rate) * times, times.astype(int), variables, settings
