"""The forward pass of routing networks (P1 sections 4 and 5), for training and for theory.

M encoders lead into a chain of hidden layers that all domains share, and M decoders out of it. All encoders are one
product and all decoders another. The hidden activity of an input domain is computed once for all of its outputs, and
every decoder is applied to it. The untrained pairs are then weighted by zero: this costs less than gathering K decoders
per encoder, and keeps the trained pairs an argument of the compiled program, so that they can be mapped over.
"""

import itertools
from collections.abc import Mapping

import jax
import jax.numpy as jnp

from neuralrace._engine.network import Matrices, Stacks, stack_matrices
from neuralrace.activations import Activation
from neuralrace.architecture import Architecture
from neuralrace.axes import Edge, Weights

BIAS = "bias"  # the node of size one whose weights are biases, as in every problem
# (M, width, inputs), (depth - 2, width, width), (M, outputs, width), and the biases of the same layers as columns
KINDS = ("encoders", "hidden", "decoders")
STACKS = (*KINDS, *(f"{kind} bias" for kind in KINDS))


def routed_architecture(
    domains: int, inputs: int, width: int, outputs: int, depth: int = 3, biases: bool = False
) -> Architecture:
    """Return the graph; the bias of encoder i is the edge "bias->h1 of xi", other edges are named by their ends."""
    sources, sinks = [f"x{i}" for i in range(domains)], [f"y{j}" for j in range(domains)]
    chain = [f"h{layer}" for layer in range(1, depth)]
    ends = [*((x, "h1") for x in sources), *itertools.pairwise(chain), *((chain[-1], y) for y in sinks)]
    edges = {f"{source}->{target}": (source, target) for source, target in ends}
    nodes = dict.fromkeys(sources, inputs) | dict.fromkeys(chain, width)
    if biases:
        nodes[BIAS] = 1
        edges |= {f"{BIAS}->h1 of {x}": (BIAS, "h1") for x in sources}
        edges |= {f"{BIAS}->{node}": (BIAS, node) for node in (*chain[1:], *sinks)}
    return Architecture(nodes | dict.fromkeys(sinks, outputs), edges)


def stack_routed(architecture: Architecture, weights: Weights) -> Stacks:
    """Arrange weights by edge as stacks; leading axes are kept, and a stack without matrices is left out."""
    domains, layers = len(architecture.outputs), [weights[edge] for edge in architecture.edges]
    halves = [layers]
    if BIAS in architecture.nodes:
        halves = [layers[: len(layers) // 2], layers[len(layers) // 2 :]]
    parts = [part for half in halves for part in (half[:domains], half[domains:-domains], half[-domains:])]
    return {name: stack_matrices(part) for name, part in zip(STACKS, parts, strict=False) if part}


def unstack_routed(architecture: Architecture, stacks: Mapping[str, Matrices]) -> dict[Edge, Matrices]:
    """Return weights by edge again; leading axes are kept."""
    found = [(stacks[name], place) for name in STACKS if name in stacks for place in range(stacks[name].shape[-3])]
    return {edge: part[..., place, :, :] for edge, (part, place) in zip(architecture.edges, found, strict=True)}


def routed_outputs(stacks: Stacks, rows: jax.Array, activation: Activation | None = None) -> jax.Array:
    """Return the outputs of every pair of domains, (N, input domains, output domains, outputs).

    rows: (N, inputs), shown to every encoder, or (N, M, inputs) with a row for each.
    """

    def active(received: jax.Array, bias: jax.Array | float) -> jax.Array:
        return received + bias if activation is None else activation(received + bias)

    def bias(kind: str, place: int | slice = slice(None)) -> jax.Array | float:
        return stacks[f"{kind} bias"][place, :, 0] if f"{kind} bias" in stacks else 0.0

    product = "nd,mhd->nmh" if rows.ndim == 2 else "nmd,mhd->nmh"
    activity = active(jnp.einsum(product, rows, stacks["encoders"]), bias("encoders"))
    for place, matrix in enumerate(stacks.get("hidden", ())):
        activity = active(activity @ matrix.T, bias("hidden", place))
    return jnp.einsum("nmh,kch->nmkc", activity, stacks["decoders"]) + bias("decoders")
