"""Random problems: small gated networks of every kind, for property tests."""

import numpy as np

from neuralrace.architecture import Architecture
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
    """Draw a small gated network on random weighted examples; the same seed and options give the same problem.

    The graph has up to three inputs and outputs, up to five hidden nodes, skip edges and sometimes parallel
    (named) edges. Node and edge gates take one value in each of a few configurations: "binary" 0 or 1,
    "mixed" any real value too, "open" none at all. Some examples repeat inputs, are silent in one input, or
    have weight zero. At least one path carries an example of positive weight. What is None is drawn. sizes:
    least and most neurons of a node.
    """
    require_known(gates, GATES, f"there is no kind of gates {gates!r}")
    random = np.random.default_rng(require_count("seed", seed, least=0))

    def count(name: str, given: int | None, least: int, most: int) -> int:
        drawn = int(random.integers(least, most + 1))
        return drawn if given is None else require_count(name, given, least=least)

    wide = (("inputs", inputs, 1, 3), ("hidden", hidden, 0, 5), ("outputs", outputs, 1, 3))
    counts = [count(*kind) for kind in wide]
    number, kinds = count("examples", examples, 1, 24), count("configurations", configurations, 1, 5)
    several = bool(random.random() < 0.35) if parallel is None else parallel
    least, most = require_count("sizes[0]", sizes[0]), require_count("sizes[1]", sizes[1])
    if least > most:
        raise RangeError(f"sizes must be (least, most) with least at most most; it was {sizes!r}")

    # the graph: edges point forward; every node but an input is entered, every node but an output is left
    first, middle, last = ([f"{kind}{i}" for i in range(n)] for kind, n in zip("xhy", counts, strict=True))
    density = random.uniform(0.05, 0.7)
    pairs: list[tuple[str, str]] = []
    for place, target in enumerate([*middle, *last]):
        sources = [*first, *middle[:place]]
        chosen = {_pick(random, sources)} | {source for source in sources if random.random() < density}
        pairs += [(source, target) for source in sources if source in chosen]
    left = {source for source, _ in pairs}
    for source in (*first, *middle):
        if source not in left:
            later = middle[middle.index(source) + 1 :] if source in middle else middle
            pairs.append((source, _pick(random, [*later, *last])))
    nodes = {node: int(random.integers(least, most + 1)) for node in (*first, *middle, *last)}
    if several:
        pairs += [pairs[i] for i in random.integers(len(pairs), size=random.integers(1, 3))]
    by_ends = not several and random.random() < 0.8
    architecture = Architecture(nodes, pairs if by_ends else {f"e{i}": pair for i, pair in enumerate(pairs)})

    # the first example is in configuration 0, and every configuration occurs if there are examples enough
    configuration = np.concatenate([np.arange(kinds), random.integers(kinds, size=number)])[:number]
    drawn = Gates() if gates == "open" else _gates(random, architecture, configuration, kinds, gates)
    return Problem(architecture, _task(random, architecture, number), drawn)


def _pick(random: np.random.Generator, options: "list[str] | tuple[str, ...]") -> str:
    return options[int(random.integers(len(options)))]


def _gates(
    random: np.random.Generator, architecture: Architecture, configuration: np.ndarray, kinds: int, gates: str
) -> Gates:
    """Draw gates for some nodes and edges, one value per configuration; one path is open in configuration 0."""

    def values() -> np.ndarray:
        binary = random.integers(2, size=kinds).astype(np.float64)
        real = random.normal(size=kinds)
        which = 0 if gates == "binary" else random.integers(3)
        return (binary, real, binary * real)[which]

    often = random.uniform(0.1, 0.9)
    of_nodes = {node: values() for node in architecture.nodes if random.random() < often}
    of_edges = {edge: values() for edge in architecture.edges if random.random() < often}
    node = _pick(random, architecture.inputs)
    on_path = [of_nodes.get(node)]
    while leaving := architecture.outgoing[node]:
        edge = leaving[int(random.integers(len(leaving)))]
        node = architecture.target(edge)
        on_path += [of_edges.get(edge), of_nodes.get(node)]
    for gate in on_path:
        if gate is not None and gate[0] == 0:
            gate[0] = 1.0
    return Gates(
        {node: gate[configuration] for node, gate in of_nodes.items()},
        {edge: gate[configuration] for edge, gate in of_edges.items()},
    )


def _task(random: np.random.Generator, architecture: Architecture, number: int) -> Task:
    """Draw normal inputs and targets; the first example is never silent and never without weight."""
    shown = {node: random.normal(size=(number, architecture.nodes[node])) for node in architecture.inputs}
    if random.random() < 0.4:
        again = random.integers(number, size=number)
        for node, rows in shown.items():
            shown[node] = rows[np.where(random.random(number) < 0.5, again, np.arange(number))]
    if random.random() < 0.3:
        silent = random.random(number) < 0.4
        silent[0] = False
        shown[_pick(random, architecture.inputs)][silent] = 0.0
    wanted = {node: random.normal(size=(number, architecture.nodes[node])) for node in architecture.outputs}
    weights = random.uniform(0.1, 2.0, size=number)
    if random.random() < 0.2:
        weights[1:][random.random(number - 1) < 0.3] = 0.0
    return Task(shown, wanted, None if random.random() < 0.25 else weights)
