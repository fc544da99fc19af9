"""A chain of linear layers in the names of another framework: which array is which, and what is to be transposed.

PyTorch and Equinox call a matrix `weight`, (outputs, inputs); Flax calls it `kernel`, (inputs, outputs). All call the
rest `bias`. What stands before these words names the layer.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.errors import WeightError, shortened

LEAF = re.compile(r"[./\[\]'\"]*(?P<leaf>weight|kernel|bias|w|b)[\]'\"]*$")
MOST_LAYERS = 7  # whose order is tried out where their names do not give it
BIAS = "bias"  # the input node that is always one


class Linear(NamedTuple):
    """One layer. matrix: (outputs, inputs). bias: (outputs,), None where it has none."""

    name: str
    matrix: np.ndarray
    bias: np.ndarray | None


def layers_of(arrays: Mapping[str, Any], inputs: int, outputs: int) -> tuple[Linear, ...]:
    """The layers in the order in which they follow each other, from so many inputs to so many outputs."""
    named: dict[str, dict[str, np.ndarray]] = {}
    for name, array in arrays.items():
        found, values = LEAF.search(str(name)), np.asarray(array)
        if found is None or values.ndim != (1 if found["leaf"] in ("bias", "b") else 2):
            raise WeightError(
                "weights must be those of a chain of linear layers: matrices called weight or kernel, and vectors "
                f"called bias; {name!r} of shape {values.shape} is neither: leave it out of the checkpoint"
            )
        named.setdefault(str(name)[: found.start()], {})[found["leaf"]] = values
    layers = [_linear(prefix, named[prefix]) for prefix in sorted(named, key=_natural)]
    without = [layer.name for layer in layers if layer.bias is None]
    if 0 < len(without) < len(layers):
        raise WeightError(
            f"biases in every layer or in none are understood; {', '.join(without)} has none, others have"
        )
    if _follow(layers, inputs, outputs):
        return tuple(layers)
    orders = itertools.permutations(layers) if len(layers) <= MOST_LAYERS else ()
    fitting = [order for order in orders if _follow(order, inputs, outputs)]
    if len(fitting) == 1:
        return fitting[0]
    shapes = ", ".join(f"{layer.name or 'unnamed'} {layer.matrix.shape[::-1]}" for layer in layers)
    raise WeightError(
        f"layers must follow each other from {inputs} inputs to {outputs} outputs; with (inputs, outputs) these are "
        f"{shapes or 'none'}"
    )


def weights_by_edge(arrays: Mapping[Any, Any], architecture: Architecture, biases: bool) -> dict[Edge, np.ndarray]:
    """The weights of a chain by edge: from edges themselves, or from the names of a framework."""
    if all(edge in architecture.edges for edge in arrays):
        return {edge: _numbers(edge, matrix) for edge, matrix in arrays.items()}
    own = {f"{source}->{target}": (source, target) for source, target in architecture.edges.values()}
    if all(name in own for name in arrays):
        return {own[name]: _numbers(name, matrix) for name, matrix in arrays.items()}
    chain = [node for node in architecture.order if node != BIAS or not biases]
    sizes = [architecture.nodes[node] for node in chain]
    layers = layers_of(arrays, sizes[0], sizes[-1])
    found = [sizes[0], *(len(layer.matrix) for layer in layers)]
    if found != sizes:
        wanted, came = (" -> ".join(map(str, listed)) for listed in (sizes, found))
        raise WeightError(f"the network has layers of {wanted}; the weights are of layers of {came}")
    if (layers[0].bias is not None) != biases:
        has = "has biases and the weights have none" if biases else "has no biases and the weights have"
        raise WeightError(f"the network {has}: make it with biases={not biases}")
    weights: dict[Edge, np.ndarray] = {}
    for (source, target), layer in zip(itertools.pairwise(chain), layers, strict=True):
        weights[source, target] = _numbers(layer.name, layer.matrix)
        if layer.bias is not None:
            weights[BIAS, target] = _numbers(layer.name, layer.bias)[:, None]
    return weights


def _linear(prefix: str, parts: Mapping[str, np.ndarray]) -> Linear:
    matrices = [leaf for leaf in ("weight", "w", "kernel") if leaf in parts]
    if len(matrices) != 1:
        raise WeightError(f"a layer must have one matrix; {prefix or 'the unnamed one'} has {', '.join(parts)}")
    matrix = parts[matrices[0]].T if matrices[0] == "kernel" else parts[matrices[0]]
    bias = parts.get("bias", parts.get("b"))
    if bias is not None and len(bias) != len(matrix):
        raise WeightError(
            f"the bias of layer {prefix or 'unnamed'} must have one number for each output, {len(matrix)}; it has "
            f"{len(bias)}"
        )
    return Linear(prefix, matrix, bias)


def _follow(layers: Sequence[Linear], inputs: int, outputs: int) -> bool:
    """What each is given is what the one before it gives."""
    given = [inputs, *(len(layer.matrix) for layer in layers)]
    return bool(layers) and given == [*(layer.matrix.shape[1] for layer in layers), outputs]


def _natural(name: str) -> list[tuple[int, str]]:
    """Numbers by their size: layer 10 after layer 9."""
    return [(int(part), "") if part.isdigit() else (0, part) for part in re.split(r"(\d+)", name)]


def _numbers(name: Any, values: Any) -> np.ndarray:
    """In double precision; types that numpy learns from others, as half precision of JAX, serve as well."""
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise WeightError(f"the weights of {name!r} must be numbers; they were {shortened(values)}") from None
