"""The gates of a network: for each example, how far a node or an edge is open."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralrace.architecture import Architecture, edge_name
from neuralrace.arrays import frozen_array
from neuralrace.axes import Edge
from neuralrace.errors import GateError, nearest


@dataclass(frozen=True, eq=False)
class Gates:
    """Gate values per example, of any real value; 0 is closed, 1 is open; nodes and edges not named are open.

    nodes: name -> g_v, (N,), or (N, size) for a gate of every neuron. edges: edge -> g_e, (N,). neurons: those of the
    nodes with a gate for every neuron.
    """

    nodes: Mapping[str, np.ndarray]
    edges: Mapping[Edge, np.ndarray]
    neurons: Mapping[str, np.ndarray]

    def __init__(self, nodes: Mapping[str, Any] | None = None, edges: Mapping[Edge, Any] | None = None) -> None:
        for kind, given, ranks in (("node", nodes, (1, 2)), ("edge", edges, (1,))):
            if given is not None and not isinstance(given, Mapping):
                raise GateError(f"{kind}s must map names to gate values; it was {type(given).__name__}")
            checked = {
                name: frozen_array(f"the gate of {kind} {name!r}", value, ranks, GateError)
                for name, value in (given or {}).items()
            }
            object.__setattr__(self, f"{kind}s", checked)
        object.__setattr__(self, "neurons", {name: gate for name, gate in self.nodes.items() if gate.ndim == 2})

    def __repr__(self) -> str:
        named = ", ".join([*self.nodes, *map(edge_name, self.edges)])
        count = len(next(iter((*self.nodes.values(), *self.edges.values())), ()))
        return f"Gates({named}; {count} examples)" if named else "Gates(all open)"

    def take(self, examples: np.ndarray) -> "Gates":
        """The gates of some of the examples."""
        return Gates(
            {name: gate[examples] for name, gate in self.nodes.items()},
            {edge: gate[examples] for edge, gate in self.edges.items()},
        )

    def check_fit(self, architecture: Architecture, examples: int) -> None:
        """Refuse gates that do not fit a graph and a number of examples."""
        for kind, given, known in (
            ("node", self.nodes, architecture.nodes),
            ("edge", self.edges, architecture.edges),
        ):
            for name, values in given.items():
                if name not in known:
                    raise GateError(f"gates name unknown {kind} {name!r}; {nearest(name, known)}")
                if len(values) != examples:
                    raise GateError(
                        f"the gate of {kind} {name!r} must have one value per example, {examples}; it has {len(values)}"
                    )
        for node, values in self.neurons.items():
            if node in architecture.inputs or values.shape[1] != architecture.nodes[node]:
                raise GateError(
                    f"gates of single neurons must be (examples, neurons), at a node that is no input; those of "
                    f"{node!r} have shape {values.shape}, and it has {architecture.nodes[node]} neurons"
                )
