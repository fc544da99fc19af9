"""What can be recorded of a run: each record is one declaration in RECORDS.

A record says over which things it goes (edges, nodes, paths), what is seen of each at one moment for one seed, the
names of the axes, what happens to the arrays on the host, and how they are widened where wide linear nodes were
trained at the width that they can use.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine.network import BlockRows, Stacks
from neuralrace._engine.subspace import Bases, lift
from neuralrace.architecture import PATH_LIMIT, Architecture, Path, edge_name
from neuralrace.axes import Edge
from neuralrace.errors import ProblemError, require_known
from neuralrace.problem import Problem
from neuralrace.training.learner import GatedLearner, Learner
from neuralrace.training.routed import RoutedLearner, RoutedNetwork

THREADS = 2  # LAPACK runs beside the training of the next chunk


class Sight:
    """One seed at one moment; what nobody looks at is not computed."""

    def __init__(self, learner: Learner, parameters: Stacks) -> None:
        self._learner, self._parameters = learner, parameters

    @cached_property
    def weights(self) -> dict[Edge, jax.Array]:
        """The weights by edge."""
        return self._learner.unpack(self._parameters)

    def activity(self, node: str) -> jax.Array:
        """The activity of a node for every example, (N, size)."""
        return self._node(self._rows[0], node)

    def received(self, node: str) -> jax.Array:
        """What a node with an activation received for every example, (N, size)."""
        return self._node(self._rows[1], node)

    @cached_property
    def pair_errors(self) -> jax.Array:
        """The part of test images that each pair of domains gets wrong, (M, M)."""
        assert isinstance(self._learner, RoutedLearner)
        return self._learner.pair_errors(self._parameters)

    def mean_error(self, trained: bool) -> jax.Array:
        """The mean of these errors over the pairs that are trained, or over those that are not; NaN if none is."""
        assert isinstance(self._learner, RoutedLearner)
        asked = self._learner.pairs == trained
        return jnp.sum(jnp.where(asked, self.pair_errors, 0.0)) / jnp.sum(asked)

    @cached_property
    def _rows(self) -> tuple[BlockRows, BlockRows]:
        assert isinstance(self._learner, GatedLearner)
        return self._learner.see(self._parameters)

    def _node(self, rows: BlockRows, node: str) -> jax.Array:
        assert isinstance(self._learner, GatedLearner)
        assert self._learner.everything is not None
        return self._learner.everything.per_example(rows, node)


@dataclass(frozen=True)
class Record:
    """A declaration of what can be recorded.

    over: problem -> the things it goes over. look: what is seen of one of them. axes: the names of the axes after seed
    and time. finish: what is done with the recorded arrays, (records, seeds, ...), on the host. widen: lifts the
    arrays (seeds, records, ...) of projected nodes; None: the same at any width. examples: whether it looks at every
    example. costly: it is then only made where it is recorded, and not at every look at the loss. of: the networks
    that have it.
    """

    name: str
    over: Callable[[Any], Iterable[Any]]
    look: Callable[[Sight, Any], jax.Array]
    axes: Callable[[Any, Any], tuple[str, ...]]
    finish: Callable[[np.ndarray], np.ndarray] | None = None
    widen: Callable[[Architecture, Bases, Any, np.ndarray], np.ndarray] | None = None
    examples: bool = False
    costly: bool = False
    of: tuple[type, ...] = (Problem,)


def singular_values(matrices: np.ndarray) -> np.ndarray:
    """The singular values of a batch of matrices, largest first, by LAPACK; NaN where a matrix is not finite."""
    with ThreadPoolExecutor(THREADS) as pool:
        return np.concatenate(list(pool.map(_singular_values, np.array_split(matrices, THREADS))))


def _singular_values(matrices: np.ndarray) -> np.ndarray:
    finite = np.isfinite(matrices).all(axis=(-2, -1))
    if finite.all():
        return np.linalg.svd(matrices, compute_uv=False)
    values = np.linalg.svd(np.where(finite[..., None, None], matrices, 0.0), compute_uv=False)
    return np.where(finite[..., None], values, np.nan)


def _edges(problem: Problem) -> Iterable[Edge]:
    return problem.architecture.edges


def _paths(problem: Problem) -> Iterable[Path]:
    return problem.architecture.paths(PATH_LIMIT)


def _gating(problem: Problem) -> Iterable[str]:
    if not problem.activations:
        raise ProblemError(
            "a network of linear nodes has fixed gates: see problem.gates; gate_patterns is for activations"
        )
    return [node for node in problem.architecture.hidden if node in problem.activations]


def matrix_axes(problem: Problem | RoutedNetwork, edge: Edge) -> tuple[str, ...]:
    """The axes of an edge's matrix: units of its two ends."""
    source, target = problem.architecture.edges[edge]
    return f"{target}_unit", f"{source}_unit"


def _units(problem: Problem, node: str) -> tuple[str, ...]:
    return "example", f"{node}_unit"


def _modes(problem: Problem, ends: Edge | Path) -> tuple[str, ...]:
    nodes = problem.architecture.nodes
    source, target = (ends.source, ends.target) if isinstance(ends, Path) else problem.architecture.edges[ends]
    return (f"mode_of_{min(nodes[source], nodes[target])}",)


ANY = (Problem, RoutedNetwork)


def _lift_weights(graph: Architecture, bases: Bases, edge: Edge, matrices: np.ndarray) -> np.ndarray:
    return lift(matrices, bases.get(graph.target(edge)), bases.get(graph.source(edge)))


RECORDS = (
    Record(
        "outputs",
        lambda problem: problem.architecture.outputs,
        lambda sight, node: sight.activity(node),
        _units,
        examples=True,
    ),
    Record("weights", _edges, lambda sight, edge: sight.weights[edge], matrix_axes, widen=_lift_weights, of=ANY),
    Record("path_singular_values", _paths, lambda sight, path: path.product(sight.weights), _modes, singular_values),
    Record("weight_singular_values", _edges, lambda sight, edge: sight.weights[edge], _modes, singular_values, of=ANY),
    Record(
        "activity",
        lambda problem: problem.architecture.hidden,
        lambda sight, node: sight.activity(node),
        _units,
        widen=lambda graph, bases, node, rows: lift(rows, columns=bases.get(node)),
        examples=True,
    ),
    Record("gate_patterns", _gating, lambda sight, node: sight.received(node) > 0, _units, examples=True),
    Record(
        "pair_errors",
        lambda network: ("trained", "untrained"),
        lambda sight, kind: sight.mean_error(kind == "trained"),
        lambda network, kind: (),
        costly=True,
        of=(RoutedNetwork,),
    ),
)
BY_NAME = {record.name: record for record in RECORDS}
RECORDABLE = ("loss", *BY_NAME)


class Recorder(eqx.Module):
    """The records that were asked for, and the things that each goes over; all of it static."""

    chosen: tuple[tuple[Record, tuple[Any, ...]], ...] = eqx.field(static=True)

    def variables(self) -> dict[str, tuple[Record, Any]]:
        """The name of each variable, and the record and the thing that it is of."""
        return {variable(record, thing): (record, thing) for record, things in self.chosen for thing in things}

    def look(self, learner: Learner, parameters: Stacks) -> dict[str, jax.Array]:
        """Variable -> array, for one seed at one moment."""
        sight = Sight(learner, parameters)
        return {name: record.look(sight, thing) for name, (record, thing) in self.variables().items()}

    @property
    def costly(self) -> bool:
        """Whether any record is to be made only where it is kept."""
        return any(record.costly for record, _ in self.chosen)

    @property
    def examples(self) -> bool:
        """Whether any record looks at every example."""
        return any(record.examples for record, _ in self.chosen)

    def finish(self) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
        """Variable -> what is done with its arrays on the host."""
        found = {name: record.finish for name, (record, _) in self.variables().items()}
        return {name: finish for name, finish in found.items() if finish is not None}

    def axes(self, problem: Problem | RoutedNetwork) -> dict[str, tuple[str, ...]]:
        """Variable -> the names of its axes after seed and time."""
        return {name: record.axes(problem, thing) for name, (record, thing) in self.variables().items()}

    def widen(self, graph: Architecture, bases: Bases, records: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The records of a projected network as those of the original."""
        wide = dict(records)
        for name, (record, thing) in self.variables().items():
            if record.widen is not None:
                wide[name] = record.widen(graph, bases, thing, wide[name])
        return wide


def make_recorder(problem: Problem | RoutedNetwork, record: str | Record | Sequence[str | Record]) -> Recorder:
    """Put together what the caller asked for, by records or by single variables of them; the loss in any case."""
    given = record if isinstance(record, Iterable) and not isinstance(record, str) else (record,)
    own = {one.name: one for one in given if isinstance(one, Record)}
    known = BY_NAME | own
    names = tuple(one.name if isinstance(one, Record) else one for one in given)
    kinds = [name.partition("[")[0] if isinstance(name, str) else name for name in names]
    for name, kind in zip(names, kinds, strict=True):
        require_known(kind, ("loss", *known), f"record can hold {', '.join(RECORDABLE)}; it held {name!r}")
    asked = [known[name] for name in known if name in kinds]
    for one in asked:
        if not isinstance(problem, one.of):
            fitting = ", ".join(["loss", *(other.name for other in RECORDS if isinstance(problem, other.of))])
            raise ProblemError(f"a {type(problem).__name__} has no {one.name} to record; record can hold {fitting}")
    return Recorder(tuple((one, _things(problem, one, names)) for one in asked))


def _things(problem: Problem | RoutedNetwork, record: Record, names: Sequence[str]) -> tuple[Any, ...]:
    """All that a record goes over, or those whose variables were asked for."""
    things = tuple(record.over(problem))
    if record.name in names:
        return things
    variables = {variable(record, thing): thing for thing in things}
    wanted = [name for name in names if name.startswith(f"{record.name}[")]
    for name in wanted:
        require_known(name, variables, f"this network has no {name!r} to record")
    return tuple(variables[name] for name in dict.fromkeys(wanted))


def variable(record: Record, thing: Any) -> str:
    """The name of a recorded variable: the record and, in brackets, the node, edge or path."""
    return f"{record.name}[{thing if isinstance(thing, Path) else edge_name(thing)}]"
