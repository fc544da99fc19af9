"""Random problems: small gated networks of every kind, for property tests."""

from collections.abc import Sequence

import numpy as np

import neuralrace as nr


def random_problem(
    seed: int,
    *,
    sizes: tuple[int, int] = (1, 4),
    examples: int | None = None,
    configurations: int | None = None,
    gates: str = "mixed",
) -> nr.Problem:
    """Draw a small gated network on random weighted examples; the same seed and options give the same problem.

    The graph has up to three inputs and outputs, up to five hidden nodes, skip edges and sometimes parallel (named)
    edges. Node and edge gates take one value in each of a few configurations: "binary" 0 or 1, "mixed" any real value
    too. Some examples repeat inputs, are silent in one input, or have weight zero. At least one path carries an example
    of positive weight. sizes: least and most neurons of a node. What is None is drawn.
    """
    random = np.random.default_rng(seed)
    counts = [int(random.integers(least, most + 1)) for least, most in ((1, 3), (0, 5), (1, 3))]
    drawn = int(random.integers(1, 25)), int(random.integers(1, 6))
    number, kinds = examples or drawn[0], configurations or drawn[1]
    parallel = random.random() < 0.35

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
    nodes = {node: int(random.integers(sizes[0], sizes[1] + 1)) for node in (*first, *middle, *last)}
    if parallel:
        pairs += [pairs[i] for i in random.integers(len(pairs), size=random.integers(1, 3))]
    by_ends = not parallel and random.random() < 0.8
    architecture = nr.Architecture(nodes, pairs if by_ends else {f"e{i}": pair for i, pair in enumerate(pairs)})

    # the first example is in configuration 0, and every configuration occurs if there are examples enough
    configuration = np.concatenate([np.arange(kinds), random.integers(kinds, size=number)])[:number]
    drawn_gates = _gates(random, architecture, configuration, kinds, gates)
    return nr.Problem(architecture, _task(random, architecture, number), drawn_gates)


def _pick(random: np.random.Generator, options: Sequence[str]) -> str:
    return options[int(random.integers(len(options)))]


def _gates(
    random: np.random.Generator, architecture: nr.Architecture, configuration: np.ndarray, kinds: int, gates: str
) -> nr.Gates:
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
    return nr.Gates(
        {node: gate[configuration] for node, gate in of_nodes.items()},
        {edge: gate[configuration] for edge, gate in of_edges.items()},
    )


def _task(random: np.random.Generator, architecture: nr.Architecture, number: int) -> nr.Task:
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
    return nr.Task(shown, wanted, None if random.random() < 0.25 else weights)
