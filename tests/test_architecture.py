import itertools
import re

import networkx
import pytest
from hypothesis import given

import neuralrace as nr
import oracle
from neuralrace.errors import ProblemError, RangeError, UnknownNameError
from random_problems import random_problem


@pytest.fixture
def diamond():
    """Two inputs, a skip edge, two hidden nodes in parallel, two outputs."""
    return nr.Architecture(
        {"x": 3, "z": 2, "a": 4, "b": 5, "y": 2, "w": 1},
        [("x", "a"), ("x", "b"), ("z", "b"), ("a", "y"), ("b", "y"), ("x", "y"), ("b", "w")],
    )


def test_roles_sizes_and_order(diamond):
    assert (diamond.inputs, diamond.hidden, diamond.outputs) == (("x", "z"), ("a", "b"), ("y", "w"))
    assert diamond.shape(("x", "a")) == (4, 3)
    assert diamond.incoming["b"] == (("x", "b"), ("z", "b"))
    assert diamond.outgoing["b"] == (("b", "y"), ("b", "w"))
    place = {node: i for i, node in enumerate(diamond.order)}
    assert all(place[source] < place[target] for source, target in diamond.edges.values())
    assert diamond.level == {"x": 0, "z": 0, "a": 1, "b": 1, "y": 2, "w": 2}


def test_paths_are_those_that_can_be_listed_by_hand(diamond):
    listed = {(path.source, path.target, path.edges) for path in diamond.paths()}
    assert listed == {
        ("x", "y", (("x", "a"), ("a", "y"))),
        ("x", "y", (("x", "b"), ("b", "y"))),
        ("x", "w", (("x", "b"), ("b", "w"))),
        ("x", "y", (("x", "y"),)),
        ("z", "y", (("z", "b"), ("b", "y"))),
        ("z", "w", (("z", "b"), ("b", "w"))),
    }
    assert str(diamond.paths()[0]) == "x->a . a->y"


@given(oracle.seeds)
def test_count_equals_enumeration(seed):
    architecture = random_problem(seed).architecture
    paths = architecture.paths()
    assert architecture.count_paths() == len(paths) == len(set(paths))
    for path in paths:
        assert path.source in architecture.inputs
        assert path.target in architecture.outputs
        ends = [architecture.edges[edge] for edge in path.edges]
        assert all(one[1] == two[0] for one, two in itertools.pairwise(ends))


def test_counting_never_enumerates():
    """Sixty layers of two nodes have 2^60 paths; listing them would never end."""
    nodes = {"x": 1, "y": 1} | {f"{side}{i}": 1 for i in range(60) for side in "ab"}
    edges = [("x", "a0"), ("x", "b0"), ("a59", "y"), ("b59", "y")]
    edges += [(f"{s}{i}", f"{t}{i + 1}") for i in range(59) for s in "ab" for t in "ab"]
    architecture = nr.Architecture(nodes, edges)
    assert architecture.count_paths() == 2**60
    with pytest.raises(RangeError, match=rf"at most 100,000 paths .* has {2**60:,}: raise the limit with paths\("):
        architecture.paths()


# bad input


def test_a_cycle_names_its_nodes_in_the_direction_of_the_edges():
    edges = [("x", "a"), ("a", "b"), ("b", "c"), ("c", "a"), ("c", "y")]
    with pytest.raises(ProblemError, match="must have no cycle") as raised:
        nr.Architecture(dict.fromkeys("xabcy", 1), edges)
    cycle = re.search(r"it has ([a-z](?: -> [a-z])+)", str(raised.value)).group(1).split(" -> ")
    assert set(cycle) == {"a", "b", "c"}
    assert cycle[0] == cycle[-1]
    assert all(pair in edges for pair in itertools.pairwise(cycle))


@pytest.mark.parametrize(
    ("nodes", "edges", "error", "words"),
    [
        ("xy", [("x", "y")], ProblemError, "nodes must map at least one name to a size"),
        (
            {"x": 1, "y": 0},
            [("x", "y")],
            RangeError,
            "node 'y' must be a whole number, at least 1; it was 0",
        ),
        ({"x": 1, "a/b": 1}, [("x", "a/b")], ProblemError, "free of '/' .*'a/b': rename it"),
        ({"x": 1, "y": 1}, [], ProblemError, r"edges must be \(source, target\) pairs"),
        ({"x": 1, "y": 1}, ["xy"], ProblemError, r"must be a \(source, target\) pair; one was 'xy'"),
        ({"x": 1, "y": 1}, {3: ("x", "y")}, ProblemError, "names must be non-empty strings"),
        ({"x": 1, "y": 1, "lost": 2}, [("x", "y")], ProblemError, "node 'lost' has none, so nothing reaches it"),
        ({"x": 1, "hidden": 1}, [("x", "hiden")], UnknownNameError, r"'hiden', which is .*; did you mean 'hidden'\?"),
        ({"x": 1, "y": 1}, [("x", "y")] * 2, ProblemError, r"\('x', 'y'\) is given twice: .*name them"),
    ],
)
def test_what_is_no_network_is_refused(nodes, edges, error, words):
    with pytest.raises(error, match=words):
        nr.Architecture(nodes, edges)


# looking at it

PARALLEL = nr.Architecture(
    {"x": 3, "h": 8, "y": 2}, {"a": ("x", "h"), "b": ("x", "h"), "out": ("h", "y"), "skip": ("x", "y")}
)


def test_the_graph_in_networkx():
    graph = PARALLEL.to_networkx()
    assert dict(graph.nodes(data="size")) == {"x": 3, "h": 8, "y": 2}
    assert set(graph.edges(keys=True)) == {("x", "h", "a"), ("x", "h", "b"), ("h", "y", "out"), ("x", "y", "skip")}
    assert graph.edges["h", "y", "out"]["shape"] == (2, 8)
    unnamed = nr.Architecture({"x": 1, "h": 1, "y": 1}, [("x", "h"), ("h", "y")]).to_networkx()
    assert sum(1 for _ in networkx.all_simple_paths(unnamed, "x", "y")) == 1
    assert sum(1 for _ in networkx.all_simple_edge_paths(graph, "x", "y")) == PARALLEL.count_paths() == 3


def test_the_drawing_has_every_node_with_its_size_and_every_name():
    axis = PARALLEL.draw()
    words = {text.get_text() for text in axis.texts}
    assert words >= {"x\n3", "h\n8", "y\n2", "a", "b", "out", "skip"}
    assert PARALLEL.draw(axis) is axis
