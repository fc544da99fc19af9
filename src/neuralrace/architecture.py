"""The graph of a network: nodes with sizes, edges that carry weight matrices, paths from input to output."""

import graphlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from neuralrace.arrays import finite_array
from neuralrace.axes import Edge, Weights
from neuralrace.errors import ProblemError, RangeError, WeightError, require_count, require_known
from neuralrace.weights import Free, Parametrization, Transposed, as_parametrization

if TYPE_CHECKING:
    import networkx
    from matplotlib.axes import Axes

PATH_LIMIT = 100_000
FREE, NOTHING = Free(), np.zeros(0)


@dataclass(frozen=True)
class Path:
    """A sequence of edges that joins an input node to an output node."""

    edges: tuple[Edge, ...]
    source: str  # s(p)
    target: str  # t(p)

    def __str__(self) -> str:
        return " . ".join(edge_name(edge) for edge in self.edges)

    def product(self, weights: Mapping[Edge, Any]) -> Any:
        """W_p, the ordered product of the weights along the path."""
        return reduce(lambda before, edge: weights[edge] @ before, self.edges[1:], weights[self.edges[0]])


def edge_name(edge: Edge) -> str:
    """Write an edge for a person: its name, or source->target."""
    return edge if isinstance(edge, str) else f"{edge[0]}->{edge[1]}"


@dataclass(frozen=True, eq=False)
class Architecture:
    """A directed acyclic graph; its input nodes only send, its output nodes only receive.

    nodes: name -> number of neurons |v|. edges: a sequence of (source, target) pairs, or a mapping from a name to
    such a pair, which is needed where two edges join the same nodes. weights: edge -> its parametrization, see
    `weights`; an edge that is not named has a free matrix.
    """

    nodes: Mapping[str, int]
    edges: Mapping[Edge, tuple[str, str]] = field(default_factory=dict)
    weights: Mapping[Edge, Parametrization] = field(default_factory=dict)

    def __init__(
        self,
        nodes: Mapping[str, int],
        edges: Sequence[tuple[str, str]] | Mapping[str, tuple[str, str]],
        weights: Mapping[Edge, Parametrization] | None = None,
    ) -> None:
        if not isinstance(nodes, Mapping) or not nodes:
            raise ProblemError(f"nodes must map at least one name to a size; it was {nodes!r}")
        if not isinstance(edges, (Mapping, Sequence)) or not edges:
            raise ProblemError(f"edges must be (source, target) pairs, or map names to such; it was {edges!r}")
        pairs: Any = edges.items() if isinstance(edges, Mapping) else ((None, ends) for ends in edges)
        checked: dict[Edge, tuple[str, str]] = {}
        for name, ends in pairs:
            if not isinstance(ends, (tuple, list)) or len(ends) != 2:
                raise ProblemError(f"an edge must be a (source, target) pair; one was {ends!r}")
            edge: Edge = (ends[0], ends[1]) if name is None else name
            for end in ends:
                if not isinstance(end, str) or end not in nodes:
                    require_known(end, list(nodes), f"edge {edge!r} names unknown node {end!r}")
            if edge in checked:
                raise ProblemError(
                    f"edge {edge!r} is given twice: to join two nodes by parallel edges name them, "
                    f"edges={{'first': {ends!r}, 'second': {ends!r}}}"
                )
            checked[edge] = (ends[0], ends[1])
        for name in (*nodes, *(edges if isinstance(edges, Mapping) else ())):
            if not isinstance(name, str) or not name or "/" in name or (name in nodes and "->" in name):
                raise ProblemError(
                    f"names must be non-empty strings, free of '/' and those of nodes of '->', which records use; one "
                    f"was {name!r}: rename it"
                )
        sizes = {name: require_count(f"the size of node {name!r}", size) for name, size in nodes.items()}
        object.__setattr__(self, "nodes", sizes)
        object.__setattr__(self, "edges", checked)
        if not isinstance(weights, Mapping | None):
            raise ProblemError(
                f"weights must map edges to parametrizations, such as weights.shared('name'); {weights!r}"
            )
        for edge in weights or {}:
            require_known(edge, checked, f"weights name unknown edge {edge!r}")
        made = {edge: as_parametrization(given) for edge, given in (weights or {}).items()}
        object.__setattr__(self, "weights", made)
        _ = self.order  # a cycle shows here
        for node in self.nodes:
            if not self.incoming[node] and not self.outgoing[node]:
                raise ProblemError(
                    f"every node needs an edge; node {node!r} has none, so nothing reaches it: join it or remove it"
                )
        _ = self.parameters  # weights that do not fit show here

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Architecture) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @cached_property
    def _key(self) -> tuple[object, ...]:
        return (frozenset(self.nodes.items()), tuple(self.edges.items()), frozenset(self.weights.items()))

    def __repr__(self) -> str:
        nodes = ", ".join(f"{node}: {size}" for node, size in self.nodes.items())
        shown = ", ".join(map(edge_name, list(self.edges)[:12]))
        more = f", ... {len(self.edges)} in all" if len(self.edges) > 12 else ""
        return f"Architecture({nodes}; {shown}{more})"

    def resized(self, sizes: Mapping[str, int]) -> "Architecture":
        """The same graph with other numbers of neurons at its nodes."""
        return Architecture({**self.nodes, **sizes}, self.listed_edges, self.weights)

    @property
    def listed_edges(self) -> Mapping[str, tuple[str, str]] | list[tuple[str, str]]:
        """The edges in their original form: by name, or as pairs."""
        named = {edge: ends for edge, ends in self.edges.items() if isinstance(edge, str)}
        return named or list(self.edges.values())

    def source(self, edge: Edge) -> str:
        """s(e), the node that an edge leaves."""
        return self.edges[edge][0]

    def target(self, edge: Edge) -> str:
        """t(e), the node that an edge enters."""
        return self.edges[edge][1]

    def shape(self, edge: Edge) -> tuple[int, int]:
        """The shape of an edge's weight matrix: (target size, source size)."""
        require_known(edge, self.edges, f"there is no edge {edge!r}")
        source, target = self.edges[edge]
        return self.nodes[target], self.nodes[source]

    @cached_property
    def weight_count(self) -> int:
        """The number of parameters of all edges."""
        return sum(math.prod(shape) for shape in self.parameters.values())

    @cached_property
    def parameters(self) -> Mapping[str | Edge, tuple[int, ...]]:
        """Edge, or name of shared weights -> the shape of its parameter, in the order of the edges."""
        shapes: dict[str | Edge, tuple[int, ...]] = {}
        owners: dict[str | Edge, tuple[Edge, Parametrization]] = {}
        for edge, (key, kind, rows, columns, _) in self.maps.items():
            try:
                shape = kind.shape(rows, columns)
            except ProblemError as error:
                raise ProblemError(f"the weights of edge {edge!r}: {error}") from None
            other, its = owners.setdefault(key, (edge, kind))
            if its != kind or shapes.get(key, shape) != shape:
                raise ProblemError(
                    f"edges that share weights must have one parametrization and one shape; {key!r} is {its} of shape "
                    f"{shapes.get(key)} on {other!r}, and {kind} of shape {shape} on {edge!r}: use another name"
                )
            if 0 not in shape:  # frozen
                shapes[key] = shape
        if not shapes:
            raise ProblemError("at least one edge must have weights that are trained; here all are frozen: free one")
        return shapes

    @cached_property
    def fans(self) -> Mapping[str | Edge, tuple[int, int]]:
        """Edge, or name of shared weights -> fan in and fan out of a weight."""
        return {key: kind.fans(rows, columns) for key, kind, rows, columns, _ in self.maps.values()}

    @cached_property
    def maps(self) -> Mapping[Edge, "tuple[str | Edge, Parametrization, int, int, bool]"]:
        """Edge -> its parameter, parametrization, rows and columns, and whether the result is transposed."""
        found: dict[Edge, tuple[str | Edge, Parametrization, int, int, bool]] = {}
        for edge in self.edges:
            chain = [edge]
            while isinstance(kind := self.weights.get(chain[-1], FREE), Transposed):
                require_known(kind.edge, self.edges, f"edge {edge!r} is the transpose of unknown edge {kind.edge!r}")
                if kind.edge in chain:
                    raise ProblemError(
                        f"edge {edge!r} is a transpose of itself ({', '.join(map(edge_name, chain))}): leave one of "
                        "these edges free"
                    )
                chain.append(kind.edge)
            shape, turned = self.shape(chain[-1]), len(chain) % 2 == 0
            if (shape[::-1] if turned else shape) != self.shape(edge):
                raise ProblemError(
                    f"edge {edge!r} has a matrix of shape {self.shape(edge)}, which does not fit the transpose of "
                    f"{chain[1]!r}: make the sizes of their nodes equal"
                )
            found[edge] = (kind.name or chain[-1], kind, *shape, turned)
        return found

    @cached_property
    def united(self) -> tuple[tuple[str, ...], ...]:
        """The groups of nodes whose neurons shared or transposed matrices identify with each other."""
        import networkx

        graph, ends = networkx.Graph(), dict[tuple[Any, bool], str]()
        graph.add_nodes_from(self.nodes)
        for edge, (key, *_, turned) in self.maps.items():
            source, target = self.edges[edge][::-1] if turned else self.edges[edge]
            graph.add_edge(target, ends.setdefault((key, True), target))
            graph.add_edge(source, ends.setdefault((key, False), source))
        order = {node: place for place, node in enumerate(self.order)}
        return tuple(tuple(sorted(group, key=order.__getitem__)) for group in networkx.connected_components(graph))

    def key(self, edge: Edge) -> str | Edge:
        """The parameter of an edge."""
        return self.maps[edge][0]

    def matrices(self, weights: Mapping[Any, Any]) -> dict[Edge, Any]:
        """The matrix of every edge from the parameters; leading axes are kept."""
        if not self.weights:
            return {edge: weights[edge] for edge in self.edges}
        made: dict[Edge, Any] = {}
        for edge, (key, kind, rows, columns, turned) in self.maps.items():
            matrix = kind.matrix(weights.get(key, NOTHING), rows, columns)
            made[edge] = matrix.swapaxes(-1, -2) if turned else matrix
        return made

    def axes(self, key: str | Edge) -> tuple[str, ...]:
        """The names of the axes of a parameter: (target, source) of a free matrix of one edge."""
        if key in self.edges and key not in self.weights:
            source, target = self.edges[key]
            return f"{target}_unit", f"{source}_unit"
        return tuple(f"{edge_name(key)}_{place}" for place in range(len(self.parameters[key])))

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The nodes in topological order."""
        before: dict[str, set[str]] = {node: set() for node in self.nodes}
        for source, target in self.edges.values():
            before[target].add(source)
        try:
            return tuple(graphlib.TopologicalSorter(before).static_order())
        except graphlib.CycleError as error:
            cycle = " -> ".join(error.args[1])
            raise ProblemError(f"the graph must have no cycle; it has {cycle}: remove one of these edges") from None

    @cached_property
    def incoming(self) -> Mapping[str, tuple[Edge, ...]]:
        """Node -> the edges that enter it."""
        return self._edges_at(1)

    @cached_property
    def outgoing(self) -> Mapping[str, tuple[Edge, ...]]:
        """Node -> the edges that leave it."""
        return self._edges_at(0)

    def _edges_at(self, end: int) -> Mapping[str, tuple[Edge, ...]]:
        found: dict[str, list[Edge]] = {node: [] for node in self.nodes}
        for edge, ends in self.edges.items():
            found[ends[end]].append(edge)
        return {node: tuple(edges) for node, edges in found.items()}

    @cached_property
    def inputs(self) -> tuple[str, ...]:
        """In(Gamma): the nodes that no edge enters."""
        return tuple(node for node in self.nodes if not self.incoming[node])

    @cached_property
    def outputs(self) -> tuple[str, ...]:
        """Out(Gamma): the nodes that no edge leaves."""
        return tuple(node for node in self.nodes if not self.outgoing[node])

    @cached_property
    def hidden(self) -> tuple[str, ...]:
        """The nodes between input and output."""
        return tuple(node for node in self.nodes if self.incoming[node] and self.outgoing[node])

    @cached_property
    def level(self) -> Mapping[str, int]:
        """Node -> the number of edges on the longest path to it."""
        level: dict[str, int] = {}
        for node in self.order:
            level[node] = max((level[self.source(e)] + 1 for e in self.incoming[node]), default=0)
        return level

    def to_networkx(self) -> "networkx.MultiDiGraph":
        """The graph for networkx: nodes with their size and level, edges with their name as key where they have one."""
        import networkx

        graph = networkx.MultiDiGraph()
        for node, size in self.nodes.items():
            graph.add_node(node, size=size, level=self.level[node])
        for edge, (source, target) in self.edges.items():
            graph.add_edge(source, target, key=edge if isinstance(edge, str) else None, shape=self.shape(edge))
        return graph

    def draw(self, axis: "Axes | None" = None) -> "Axes":
        """Draw the graph from left to right by level, with sizes and the names of edges and shared weights."""
        import networkx
        from matplotlib.figure import Figure

        graph, columns = self.to_networkx(), dict[int, list[str]]()
        for node in self.order:  # an input stands beside what it enters
            column = min(self.level[self.target(e)] for e in self.outgoing[node]) - 1 if node in self.inputs else None
            columns.setdefault(self.level[node] if column is None else column, []).append(node)
        if axis is None:
            axis = Figure((max(6.4, 1.3 * len(columns)), 4.8), layout="constrained").subplots()
        place = networkx.multipartite_layout(graph, subset_key=columns)
        most = max(graph.number_of_edges(*ends) for ends in self.edges.values())
        bends = [f"arc3,rad={0.15 * bend}" for bend in range(most)]  # parallel edges beside each other
        labels = {node: f"{node}\n{size}" for node, size in self.nodes.items()}
        width = max(30, 6 * max(map(len, self.nodes)))  # in points, so that the longest name fits
        look = {"node_color": "white", "edgecolors": "black", "node_size": width**2, "font_size": 9}
        networkx.draw_networkx(graph, place, ax=axis, labels=labels, connectionstyle=bends, **look)
        names = {
            (s, t, edge if isinstance(edge, str) else 0): label
            for edge, (s, t) in self.edges.items()
            if (label := self._label(edge))
        }
        networkx.draw_networkx_edge_labels(graph, place, names, ax=axis, connectionstyle=bends, font_size=8)
        axis.set_axis_off()
        return axis

    def _label(self, edge: Edge) -> str:
        """What a drawing says of an edge: its name, and that of its weights or their kind."""
        kind = self.weights.get(edge)
        words = [edge] if isinstance(edge, str) else []
        if isinstance(kind, Transposed):
            words.append(f"transposed {self.weights.get(kind.edge, FREE).name or edge_name(kind.edge)}")
        elif kind is not None:
            words.append(kind.name or kind.kind.replace("_", " "))
        return ": ".join(words)

    def count_paths(self) -> int:
        """Count the paths from input to output by dynamic programming, without enumerating them."""
        ways: dict[str, int] = {}
        for node in self.order:
            ways[node] = sum(ways[self.source(e)] for e in self.incoming[node]) if self.incoming[node] else 1
        return sum(ways[node] for node in self.outputs)

    def paths(self, limit: int = PATH_LIMIT) -> tuple[Path, ...]:
        """Enumerate the paths in the order of the edges; more than `limit` are an error that states their number."""
        count = self.count_paths()
        if count > limit:
            raise RangeError(
                f"at most {limit:,} paths were allowed and this architecture has {count:,}: raise the limit with "
                f"paths(limit={count})"
            )

        def extend(node: str, edges: tuple[Edge, ...], source: str) -> Iterator[Path]:
            if not self.outgoing[node]:
                yield Path(edges, source, node)
            for edge in self.outgoing[node]:
                yield from extend(self.target(edge), (*edges, edge), source)

        return tuple(path for node in self.inputs for path in extend(node, (), node))


def check_weights(architecture: Architecture, weights: Weights) -> dict[Edge, np.ndarray]:
    """Return the parameters as float64 arrays in the order of the edges, or raise an error that names a faulty one."""
    if not isinstance(weights, Mapping):
        raise WeightError(f"weights must map every edge to its matrix; it was {type(weights).__name__}")
    for edge in weights:
        require_known(edge, architecture.parameters, f"weights name unknown edge {edge!r}")
    checked: dict[Edge, np.ndarray] = {}
    for edge, shape in architecture.parameters.items():
        if edge not in weights:
            raise WeightError(f"weights must have a matrix for edge {edge!r}; it is missing")
        matrix = finite_array(f"the weights of edge {edge!r}", weights[edge], WeightError, ("row", "column"))
        if matrix.shape != shape:
            kind = "shape (target, source) =" if edge in architecture.edges and len(shape) == 2 else "shape"
            raise WeightError(f"the weights of edge {edge!r} must have {kind} {shape}; they have {matrix.shape}")
        checked[edge] = matrix
    return checked
