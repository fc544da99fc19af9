"""Drawing few neurons that stand for many: by 2-homogeneity a neuron scaled by sqrt(w) counts w times."""

import jax
import numpy as np

from neuralrace.activations import LeakyReLU
from neuralrace.axes import Edge
from neuralrace.initial import Gaussian
from neuralrace.problem import Problem
from neuralrace.theory.certificate import Assumption
from neuralrace.theory.method import Request
from neuralrace.theory.representatives.spans import Spans


def drawn_neurons(spans: Spans, law: Gaussian, count: int, width: int, key: jax.Array) -> dict[Edge, np.ndarray]:
    """`count` neurons from the law in the coordinates of the spans, each for width / count of them.

    Fewer than there are get what many have and single draws lack by chance: opposites, and the second moments of the
    law, exactly. A cone of neurons, such as those that some examples open, then has with its opposite what both have by
    the law; on the mixed task a thousand are as near to a wide layer as four thousand plain draws.
    """
    network = spans.network(count)
    weights = law(network, key)
    neurons = spans.neurons(weights)
    if count < width:
        half = neurons[: -(-count // 2)]
        scales, shape = law.scales(network), network.architecture.shape
        law_of_all = spans.neurons({edge: np.full(shape(edge), scale) for edge, scale in scales.items()})
        neurons = whitened(np.vstack([half, -half])[:count], law_of_all[0])
    return spans.weights(neurons * np.sqrt(width / count), weights)


def whitened(neurons: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Neurons with second moments scales^2 exactly, turned as little as that takes."""
    varied = scales > 0
    unit = neurons[:, varied] / scales[varied]
    if len(unit) < 2 * unit.shape[1]:  # too few to have all moments
        return neurons
    values, vectors = np.linalg.eigh(unit.T @ unit / len(unit))
    found = np.zeros_like(neurons)
    found[:, varied] = unit @ (vectors / np.sqrt(values)) @ vectors.T * scales[varied]
    return found


def initial_output(problem: Problem, law: Gaussian) -> float:
    """The root mean square of what the hidden layers first add to the outputs, relative to the targets."""
    scales, task, nodes = law.scales(problem), problem.task, problem.architecture.nodes
    sent = {node: (rows**2).sum(axis=1) for node, rows in task.inputs.items()}  # squared lengths, for each example
    output = 0.0
    for node in (one for one in problem.architecture.order if one not in sent):
        ends = [(edge, problem.architecture.edges[edge][0]) for edge in problem.architecture.incoming[node]]
        if node in problem.architecture.outputs:
            written = sum(scales[e] ** 2 * sent[source] for e, source in ends if source not in task.inputs)
            output += nodes[node] * float(task.weights @ (np.zeros(len(task)) + written))
            continue
        kind = problem.activations.get(node)
        slope = kind.slope if isinstance(kind, LeakyReLU) else 1.0
        received = sum(scales[edge] ** 2 * sent[source] for edge, source in ends)
        sent[node] = nodes[node] * 0.5 * (1 + slope**2) * received
    target = sum(float(task.weights @ (rows**2).sum(axis=1)) for rows in task.targets.values())
    return float(np.sqrt(output / target)) if target > 0 else (0.0 if output == 0 else float("inf"))


def independent(request: Request) -> Assumption:
    """That the law can be expanded: neurons drawn one by one."""
    if isinstance(request.initial, Gaussian):
        return Assumption("independent normal neurons", 0.0, 0.0, repr(request.initial))
    kind = repr(request.initial) if callable(request.initial) else "weights were given"
    return Assumption("independent normal neurons", 1.0, 0.0, kind)
