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
    assert str(diamond.paths()[0]) == "x->a . a->y"
    axis = diamond.draw()
    assert {text.get_text() for text in axis.texts} >= {"x\n3", "z\n2", "a\n4", "b\n5", "y\n2", "w\n1"}
    assert diamond.draw(axis) is axis


@given(oracle.seeds)
def test_paths_and_their_count_are_those_of_networkx(seed):
    architecture = random_problem(seed).architecture
    graph, listed = architecture.to_networkx(), set()
    assert dict(graph.nodes(data="size")) == dict(architecture.nodes)
    for source, target in itertools.product(architecture.inputs, architecture.outputs):
        for steps in networkx.all_simple_edge_paths(graph, source, target):
            listed.add(
                (source, target, tuple(key if key in architecture.edges else (one, two) for one, two, key in steps))
            )
    paths = architecture.paths()
    assert {(path.source, path.target, path.edges) for path in paths} == listed
    assert architecture.count_paths() == len(paths) == len(listed)


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
        ({"x": 1, "y": 0}, [("x", "y")], RangeError, "node 'y' must be a whole number, at least 1; it was 0"),
        ({"x": 1, "a/b": 1}, [("x", "a/b")], ProblemError, "free of '/' .*'a/b': rename it"),
        ({"x": 1, "y": 1}, [], ProblemError, r"edges must be \(source, target\) pairs"),
        ({"x": 1, "y": 1}, ["xy"], ProblemError, r"must be a \(source, target\) pair; one was 'xy'"),
        ({"x": 1, "y": 1}, {3: ("x", "y")}, ProblemError, "names must be non-empty strings"),
        ({"x": 1, "y": 1, "lost": 2}, [("x", "y")], ProblemError, "node 'lost' has none, so nothing reaches it"),
        ({"x": 1, "hidden": 1}, [("x", "hiden")], UnknownNameError, r"unknown node 'hiden'; did you mean 'hidden'\?"),
        ({"x": 1, "y": 1}, [("x", "y")] * 2, ProblemError, r"\('x', 'y'\) is given twice: .*name them"),
    ],
)
def test_what_is_no_network_is_refused(nodes, edges, error, words):
    with pytest.raises(error, match=words):
        nr.Architecture(nodes, edges)
