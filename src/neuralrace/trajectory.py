"""A learning curve with its records, from training or from theory: named axes, the problem, settings and versions."""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from neuralrace.architecture import Architecture, edge_name
from neuralrace.axes import Edge, Weights
from neuralrace.errors import (
    FileFormatError,
    NeuralRaceError,
    RangeError,
    UnknownNameError,
    nearest,
    require_kind,
    require_known,
    require_place,
)
from neuralrace.gates import Gates
from neuralrace.interop import checkpoint_records
from neuralrace.io import load_dataset, save_dataset, versions
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.weights import as_parametrization

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from neuralrace.analysis.learned import Stop

FORMAT = 4
STATUS = ("running", "converged", "diverged")
EVALUATED = "evaluated_"  # before the kind, in names of variables: evaluated_loss[test]
FEWEST_EVALUATIONS = 50  # the fewest evaluations of the loss from which a run can count as converged


@dataclass(frozen=True, eq=False, repr=False)
class Trajectory:
    """The records of each seed over time, as an xarray dataset, and the problem that was learned.

    Variables of `data`: loss (seed, time), status (seed), initial and final weights, and the records. Coordinates: time
    (learning_rate * step, so gradient flow has tau = 1) and step. problem: None for a forecast from statistics alone.
    """

    data: xarray.Dataset
    problem: Problem | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        require_kind("data", self.data, xarray.Dataset, RangeError)

    def __repr__(self) -> str:
        ends = f"{self.time[0]:g} to {self.time[-1]:g}" if len(self.time) else "none"
        names = ", ".join(dict.fromkeys(str(name).partition("[")[0] for name in self.data.data_vars))
        return f"{type(self).__name__}({len(self.losses)} seeds, {len(self.time)} times from {ends}: {names})"

    @property
    def time(self) -> np.ndarray:
        """(T,), in units of gradient flow."""
        return np.asarray(self.data["time"].values)

    @property
    def losses(self) -> np.ndarray:
        """(seeds, T)."""
        return np.asarray(self.data["loss"].values)

    @property
    def loss(self) -> np.ndarray:
        """(seeds, T); a forecast's is the mean over its draws, (T,)."""
        return self.losses

    @property
    def status(self) -> np.ndarray:
        """Per seed: converged, running or diverged."""
        return np.array(STATUS)[self.data["status"].values]

    @cached_property
    def settings(self) -> dict[str, Any]:
        """How the curve was made, in plain values: learning rate, steps, seeds, key, loss, rule, initial weights."""
        return dict(json.loads(self.data.attrs["settings"]))

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the network, or the names of their shared weights, in order."""
        if self.problem is None:
            raise UnknownNameError("the curve does not hold its problem, which names the edges of its weights")
        return tuple(self.problem.architecture.parameters)

    def weights(self, seed: int = 0, record: int | None = None) -> dict[Edge, np.ndarray]:
        """The weights of one seed: at the end, or at one of the recorded steps if weights were recorded."""
        if record is None:
            return self._weights("final_weights", seed)
        over_time = self._weights("weights", seed)
        require_place("record", record, len(self.time))
        return {edge: matrices[record] for edge, matrices in over_time.items()}

    def initial_weights(self, seed: int = 0) -> dict[Edge, np.ndarray]:
        """The weights that one seed started from."""
        return self._weights("initial_weights", seed)

    @property
    def evaluated(self) -> dict[str, xarray.Dataset]:
        """Name of other examples (`evaluate=`) -> loss, (seed, time), and accuracy where targets are classes."""
        found: dict[str, dict[str, xarray.DataArray]] = {}
        for variable in map(str, self.data.data_vars):
            kind, _, name = variable.partition("[")
            if kind.startswith(EVALUATED):
                found.setdefault(name.removesuffix("]"), {})[kind.removeprefix(EVALUATED)] = self.data[variable]
        return {name: xarray.Dataset(parts) for name, parts in found.items()}

    def best_stop(self, name: str) -> "Stop":
        """Find the time and step at which the mean loss on other examples (`evaluate=`) is least."""
        from neuralrace.analysis.learned import best_stop

        require_known(name, self.evaluated, f"nothing was evaluated as {name!r}: give evaluate={{{name!r}: task}}")
        return best_stop(self, name)

    def learned(self, by: Any = "class", fraction: float = 0.5) -> "pandas.DataFrame":
        """Find when each class, output or group of examples has lost a fraction of its initial loss.

        by: "class", "output", or a label for each example. Returns a row for each with the median time over seeds, or
        draws of a forecast, its step, and the earliest and latest time: inf where the loss never falls so far, NaN
        where there was nothing to learn. A run must have recorded outputs or weights, record="outputs".
        """
        from neuralrace.analysis.learned import learned

        return learned(self, by, fraction)

    def step_at(self, time: float) -> int | None:
        """The step of a time; None where it is infinite or the learning rate is not known."""
        rate = self.settings.get("learning_rate")
        return round(time / rate) if rate and np.isfinite(time) else None

    @property
    def followed(self) -> Problem | None:
        """The problem whose weights the trajectory has."""
        return self.problem

    def weights_over_time(self, seed: int) -> tuple[Weights, Iterable[Weights] | None]:
        """The initial weights of a seed, and those at every record; None if they were not recorded."""
        names = {edge: f"weights[{edge_name(edge)}]" for edge in self.edges}
        start = self.initial_weights(seed)
        if not all(name in self.data for name in names.values()):
            return start, None
        return start, ({e: self.values(n)[seed, i] for e, n in names.items()} for i in range(len(self.time)))

    def _weights(self, kind: str, seed: int) -> dict[Edge, np.ndarray]:
        require_place("seed", seed, len(self.losses))
        return {edge: self.values(f"{kind}[{edge_name(edge)}]")[seed] for edge in self.edges}

    def values(self, name: str) -> np.ndarray:
        """A recorded variable as a plain array."""
        if not isinstance(name, str) or name not in self.data:
            raise UnknownNameError(
                f"{name!r} was not recorded; {nearest(name, self.data.data_vars)} (request it with record=...)"
            )
        return np.asarray(self.data[name].values)

    def to_frame(self, name: str = "loss") -> "pandas.DataFrame":
        """A recorded variable as a tidy table: one row for each seed, time and other index."""
        self.values(name)  # raises if it was not recorded
        return self.data[name].to_dataframe().reset_index()

    def plot(self, axis: "Axes | None" = None) -> "Axes":
        """Draw the loss on a given or a new axis: the mean over seeds and their range, or theory in dashes.

        Losses on other examples (`evaluate=`) are dotted, with a point where they are least.
        """
        from matplotlib.figure import Figure

        from neuralrace.plotting import TIME, theory_line, training_band

        axis = Figure(layout="constrained").subplots() if axis is None else axis
        if method := self.settings.get("method"):
            theory_line(axis, self.time, self.losses.mean(axis=0), f"theory, {method}")
        else:
            kind = "relu" if self.problem is not None and self.problem.activations else "gated"
            training_band(axis, self.time, self.losses, kind, f"{len(self.losses)} trained")
        for name, found in self.evaluated.items():
            color = axis.get_lines()[-1].get_color()
            axis.plot(self.time, found["loss"].mean("seed"), ":", color=color, label=f"on {name!r}")
            if np.isfinite(found["loss"]).any():
                stop = self.best_stop(name)
                axis.plot([stop.time], [stop.loss], "o", color=color, markersize=4)
        axis.set(xlabel=TIME, ylabel="loss")
        axis.legend(frameon=False)
        return axis

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one netCDF file with checksums and the problem; it appears under its name only when it is complete."""
        arrays, described = problem_data(self.problem) if isinstance(self.problem, Problem) else ({}, {})
        return save_dataset(self.data.assign(arrays).assign_attrs(problem=json.dumps(described)), path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectory":
        """Read a file that `save` wrote, with its problem; nothing in it is executed.

        The class of an activation of your own must have been imported before.
        """
        data = load_dataset(path)
        if (found := data.attrs.get("neuralrace_format")) != FORMAT:
            raise FileFormatError(f"{path} must be a trajectory of format {FORMAT}; it says {found!r}")
        try:
            data, problem = _take_problem(data)
        except (KeyError, TypeError, ValueError, NeuralRaceError) as error:
            raise FileFormatError(f"{path} does not hold a whole problem: {error}") from None
        return Trajectory(data, problem=problem)

    @classmethod
    def from_checkpoints(
        cls, network: Problem, steps: Sequence[int], weights: Sequence[Any], *, learning_rate: float | None = None
    ) -> "Trajectory":
        """Make a trajectory from your own training, in any framework, given its weights at some steps.

        network: a ReLUNetwork on the examples that were learned. steps: increasing, the first is 0. weights: one set
        for each step, or a list of such for each network; arrays by edge, or by the names that PyTorch, Flax or Equinox
        give to linear layers. learning_rate: of the mean over examples of half the squared error summed over outputs;
        measured from the weights if not given, so that the scale of another loss does not matter.
        """
        time, moments, variables, settings = checkpoint_records(network, steps, weights, learning_rate)
        running = np.full(len(variables["loss"][1]), STATUS.index("running"))
        return Trajectory(make_dataset(time, moments, variables, running, settings), problem=network)


def make_dataset(
    time: np.ndarray,
    step: np.ndarray,
    variables: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    status: np.ndarray,
    settings: Mapping[str, object],
) -> xarray.Dataset:
    """Name the axes of recorded arrays and note how they were made."""
    return xarray.Dataset(
        {**variables, "status": (("seed",), status.astype(np.int8))},
        coords={"time": ("time", time), "step": ("time", step), "seed": np.arange(len(status))},
        attrs={"neuralrace_format": FORMAT, "settings": json.dumps(settings, default=str)}
        | {"versions": json.dumps(versions())},
    )


def status_of(loss: np.ndarray) -> np.ndarray:
    """Diverged: not finite, or a million times the initial loss. Converged: fell, and is constant at the end.

    loss: (seeds, regular evaluations), so that the choice of records makes no difference. Constant means that over the
    last tenth of the run the loss changed by less than a thousandth of its whole fall; a long plateau looks the same.
    """
    status = np.full(len(loss), STATUS.index("running"))
    first = np.maximum(loss[:, 0], np.finfo(float).eps)  # a perfect start leaves rounding, which may grow a little
    with np.errstate(invalid="ignore"):
        fallen = loss[:, 0] - loss[:, -1]
        late = loss[:, -max(loss.shape[1] // 10, 2) :]
        still = (late.max(axis=1) - late.min(axis=1) < 1e-3 * fallen) & (fallen > 1e-3 * loss[:, 0])
        exploded = ~np.isfinite(loss).all(axis=1) | (loss.max(axis=1) > 1e6 * first)
    status[still & (loss.shape[1] >= FEWEST_EVALUATIONS)] = STATUS.index("converged")
    status[exploded] = STATUS.index("diverged")
    return status


def problem_data(problem: Problem) -> tuple[dict[str, tuple[tuple[str, ...], np.ndarray]], dict[str, Any]]:
    """Split a problem into arrays with named axes and a description in plain values."""
    task, architecture = problem.task, problem.architecture
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"example_weights": (("example",), task.weights)}
    for kind, rows in (("inputs", task.inputs), ("targets", task.targets)):
        variables |= {f"{kind}[{node}]": (("example", f"{node}_column"), array) for node, array in rows.items()}
    for node, gate in problem.gates.nodes.items():
        variables[f"node_gates[{node}]"] = (("example", f"{node}_unit")[: gate.ndim], gate)
    for edge, gate in problem.gates.edges.items():
        variables[f"edge_gates[{edge_name(edge)}]"] = (("example",), gate)
    activations = {node: one.as_data() for node, one in problem.activations.items()}
    described: dict[str, Any] = {
        "nodes": dict(architecture.nodes),
        "edges": architecture.listed_edges,
        "activations": activations,
    }
    described["weights"] = [[edge, kind.as_data()] for edge, kind in architecture.weights.items()]
    described |= {"inputs": [*task.inputs], "targets": [*task.targets], "names": dict(task.names)}
    return variables, described | {"biases": problem.biases}


def _take_problem(data: xarray.Dataset) -> tuple[xarray.Dataset, Problem | None]:
    """Split a stored dataset into its records and its problem."""
    described = json.loads(data.attrs.pop("problem"))
    kinds = "example_weights", "inputs", "targets", "node_gates", "edge_gates"
    stored: dict[str, dict[str, np.ndarray]] = {kind: {} for kind in kinds}
    for name in [str(name) for name in data.data_vars]:
        kind, _, part = name.partition("[")
        if kind in stored:
            stored[kind][part.removesuffix("]")] = data[name].values
            data = data.drop_vars(name)
    if not described:
        return data, None
    inputs, targets = ({node: stored[kind][node] for node in described[kind]} for kind in ("inputs", "targets"))
    task = Task(inputs, targets, stored["example_weights"][""], names=described.get("names"))
    weights = {e if isinstance(e, str) else tuple(e): as_parametrization(k) for e, k in described.get("weights", ())}
    architecture = Architecture(described["nodes"], described["edges"], weights)
    gated = stored["edge_gates"]
    edge_gates = {edge: gated[edge_name(edge)] for edge in architecture.edges if edge_name(edge) in gated}
    gates = Gates(stored["node_gates"], edge_gates)
    return data, Problem(architecture, task, gates, described["activations"], described["biases"])


def compare(forecast: Trajectory, run: Trajectory) -> "Figure":
    """Draw a forecast and a run at the same times in one figure; its title gives their distance."""
    from matplotlib.figure import Figure

    from neuralrace.analysis import agreement

    apart, figure = agreement(forecast, run), Figure(figsize=(5.2, 3.8), layout="constrained")
    axis = forecast.plot(run.plot(figure.subplots()))
    axis.set(title=f"normalized L1 {apart.normalized_l1:.2g}, log10 gap {apart.log10_gap:.2g}")
    axis.set_ylim(bottom=0)
    return figure
