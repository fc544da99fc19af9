"""Random problems: small gated networks of every kind, for property tests."""

from collections.abc import Sequence

import numpy as np

from neuralrace.architecture import Architecture
from neuralrace.axes import Edge
from neuralrace.errors import RangeError, require_count, require_known
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task

GATES = ("mixed", "binary", "open")


def random_problem(
    seed: int,
    *,
    inputs: int | None = None,
    hidden: int | None = None,
    outputs: int | None = None,
    sizes: tuple[int, int] = (1, 4),
    examples: int | None = None,
    configurations: int | None = None,
    gates: str = "mixed",
    parallel: bool | None = None,
) -> Problem:
    """A random gated network on random weighted examples; the same seed and options give the same problem.

    The graph has up to three inputs and outputs, up to five hidden nodes, skip edges and sometimes parallel
    (named) edges. Node and edge gates take one value in each of a few configurations: "binary" 0 or 1,
    "mixed" any real value too, "open" none at all. Some examples repeat inputs, are silent in one input, or
    have weight zero. At least one path carries an example of positive weight. What is None is drawn. sizes:
    least and most neurons of a node.
    """
    require_known(gates, GATES, f"there is no kind of gates {gates!r}")
    random = np.random.default_rng(require_count("seed", seed, least=0))
    kinds_of_nodes = (("inputs", inputs, 1, 3), ("hidden", hidden, 0, 5), ("outputs", outputs, 1, 3))
    counts = [_count(random, *kind) for kind in kinds_of_nodes]
    number = _count(random, "examples", examples, 1, 24)
    kinds = _count(random, "configurations", configurations, 1, 5)
    several = bool(random.random() < 0.35) if parallel is None else parallel
    architecture = _random_architecture(random, counts, _checked_sizes(sizes), several)
    # the first example is in configuration 0, and every configuration occurs if there are examples enough
    configuration = np.concatenate([np.arange(kinds), random.integers(kinds, size=number)])[:number]
    drawn = Gates() if gates == "open" else _random_gates(random, architecture, configuration, kinds, gates)
    return Problem(architecture, _random_task(random, architecture, number), drawn)


def _count(random: np.random.Generator, name: str, given: int | None, least: int, most: int) -> int:
    drawn = int(random.integers(least, most + 1))
    return drawn if given is None else require_count(name, given, least=least)


def _checked_sizes(sizes: tuple[int, int]) -> tuple[int, int]:
    least, most = require_count("sizes[0]", sizes[0]), require_count("sizes[1]", sizes[1])
    if least > most:
        raise RangeError(f"sizes must be (least, most) with least at most most; it was {sizes!r}")
    return least, most


def _random_architecture(
    random: np.random.Generator, counts: Sequence[int], sizes: tuple[int, int], parallel: bool
) -> Architecture:
    inputs, hidden, outputs = ([f"{kind}{i}" for i in range(n)] for kind, n in zip("xhy", counts, strict=True))
    pairs = _random_edges(random, inputs, hidden, outputs)
    nodes = {node: int(random.integers(sizes[0], sizes[1] + 1)) for node in (*inputs, *hidden, *outputs)}
    if parallel:
        pairs += [pairs[i] for i in random.integers(len(pairs), size=random.integers(1, 3))]
    elif random.random() < 0.8:
        return Architecture(nodes, pairs)
    return Architecture(nodes, {f"e{i}": pair for i, pair in enumerate(pairs)})


def _random_edges(
    random: np.random.Generator, inputs: list[str], hidden: list[str], outputs: list[str]
) -> list[tuple[str, str]]:
    """Edges that point forward; every node but an input is entered, every node but an output is left."""
    density = random.uniform(0.05, 0.7)
    pairs: list[tuple[str, str]] = []
    for place, target in enumerate(hidden):
        pairs += _entering(random, [*inputs, *hidden[:place]], target, density)
    for target in outputs:
        pairs += _entering(random, [*inputs, *hidden], target, density)
    left = {source for source, _ in pairs}
    for source in (*inputs, *hidden):
        if source not in left:
            later = hidden[hidden.index(source) + 1 :] if source in hidden else hidden
            pairs.append((source, _pick(random, [*later, *outputs])))
    return pairs


def _entering(random: np.random.Generator, sources: list[str], target: str, density: float) -> list[tuple[str, str]]:
    chosen = {_pick(random, sources)} | {source for source in sources if random.random() < density}
    return [(source, target) for source in sources if source in chosen]


def _pick(random: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(random.integers(len(options)))]


def _random_gates(
    random: np.random.Generator, architecture: Architecture, configuration: np.ndarray, kinds: int, gates: str
) -> Gates:
    """Gates for some nodes and edges, one value per configuration; one path is open in configuration 0."""
    often = random.uniform(0.1, 0.9)
    nodes = {node: _gate_values(random, kinds, gates) for node in architecture.nodes if random.random() < often}
    edges = {edge: _gate_values(random, kinds, gates) for edge in architecture.edges if random.random() < often}
    path_nodes, path_edges = _random_path(random, architecture)
    for values in (*(nodes.get(node) for node in path_nodes), *(edges.get(edge) for edge in path_edges)):
        if values is not None and values[0] == 0:
            values[0] = 1.0
    return Gates(
        {node: values[configuration] for node, values in nodes.items()},
        {edge: values[configuration] for edge, values in edges.items()},
    )


def _gate_values(random: np.random.Generator, kinds: int, gates: str) -> np.ndarray:
    binary = random.integers(2, size=kinds).astype(np.float64)
    real = random.normal(size=kinds)
    which = 0 if gates == "binary" else random.integers(3)
    return (binary, real, binary * real)[which]


def _random_path(random: np.random.Generator, architecture: Architecture) -> tuple[list[str], list[Edge]]:
    nodes, edges = [_pick(random, architecture.inputs)], list[Edge]()
    while leaving := architecture.outgoing[nodes[-1]]:
        edges.append(leaving[int(random.integers(len(leaving)))])
        nodes.append(architecture.target(edges[-1]))
    return nodes, edges


def _random_task(random: np.random.Generator, architecture: Architecture, number: int) -> Task:
    """Normal inputs and targets; the first example is never silent and never without weight."""
    shown = {node: random.normal(size=(number, architecture.nodes[node])) for node in architecture.inputs}
    if random.random() < 0.4:
        again = random.integers(number, size=number)
        shown = {
            node: rows[np.where(random.random(number) < 0.5, again, np.arange(number))] for node, rows in shown.items()
        }
    if random.random() < 0.3:
        silent = random.random(number) < 0.4
        silent[0] = False
        shown[_pick(random, architecture.inputs)][silent] = 0.0
    wanted = {node: random.normal(size=(number, architecture.nodes[node])) for node in architecture.outputs}
    weights = random.uniform(0.1, 2.0, size=number)
    if random.random() < 0.2:
        weights[1:][random.random(number - 1) < 0.3] = 0.0
    return Task(shown, wanted, None if random.random() < 0.25 else weights)
