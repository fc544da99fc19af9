"""The record of a learning curve, from training or from theory: named axes, settings and versions, one file."""

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray

from neuralrace.architecture import edge_name
from neuralrace.axes import Edge
from neuralrace.datafiles import load_dataset, save_dataset
from neuralrace.errors import RangeError, UnknownNameError, nearest, require_kind, require_place, shortened
from neuralrace.from_checkpoints import recorded
from neuralrace.task import Task
from neuralrace.trajectory_schema import EXAMPLES, FORMAT, STATUS, check_trajectory

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from neuralrace.problem import Problem

__all__ = ["FORMAT", "STATUS", "Trajectory", "make_trajectory", "plot_loss", "status_of", "with_examples"]

SETTLED = 1e-3  # see status_of
EXPLODED = 1e6  # a loss so many times the first one is divergence
FEWEST_LOOKS = 50  # at the loss in a run, to tell whether it has settled
RECORDED_VERSIONS = ("neuralrace", "jax", "numpy", "optax", "diffrax")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What was recorded over time for each seed, as an xarray dataset.

    Variables: loss (seed, time), status (seed) and whatever else was asked for. Coordinates: time
    (learning_rate * step, so gradient flow has tau = 1) and step. Attributes hold the problem's description,
    the settings, the seed and the versions. Gate patterns come with what they are patterns over, the examples, and
    with the first weights.
    """

    data: xarray.Dataset

    def __post_init__(self) -> None:
        require_kind("data", self.data, xarray.Dataset, RangeError)

    def __repr__(self) -> str:
        ends = f"{self.time[0]:g} to {self.time[-1]:g}" if len(self.time) else "none"
        recorded = ", ".join(dict.fromkeys(str(name).partition("[")[0] for name in self.data.data_vars))
        return f"Trajectory({len(self.loss)} seeds, {len(self.time)} times from {ends}: {recorded})"

    def _repr_html_(self) -> str:
        return str(self.data._repr_html_())

    @property
    def time(self) -> np.ndarray:
        """(T,), in units of gradient flow."""
        return np.asarray(self.data["time"].values)

    @property
    def loss(self) -> np.ndarray:
        """(seeds, T)."""
        return np.asarray(self.data["loss"].values)

    @property
    def status(self) -> np.ndarray:
        """Per seed: converged, running or diverged."""
        return np.array(STATUS)[self.data["status"].values]

    @property
    def settings(self) -> dict[str, Any]:
        """What the run was made with: problem, settings, key and versions."""
        return {name: json.loads(self.data.attrs[name]) for name in ("problem", "settings", "versions")}

    @property
    def edges(self) -> tuple[Edge, ...]:
        """The edges of the network, in order."""
        listed = json.loads(self.data.attrs["edges"])
        return tuple(edge if isinstance(edge, str) else (edge[0], edge[1]) for edge in listed)

    @property
    def task(self) -> Task:
        """The examples that the network was trained on, where the run holds them (with its gate patterns)."""
        if "examples" not in self.data.attrs:
            raise UnknownNameError("the run does not hold its examples: train with record='gate_patterns'")
        nodes = json.loads(self.data.attrs["examples"])
        inputs, targets = ({node: self.values(f"{kind}[{node}]") for node in nodes[kind]} for kind in EXAMPLES)
        return Task(inputs, targets, self.values("example_weights"))

    def weights(self, seed: int = 0, record: int | None = None) -> dict[Edge, np.ndarray]:
        """The weights of one seed: at the end, or at one of the recorded moments if weights were recorded."""
        return self._weights("final_weights" if record is None else "weights", seed, record)

    def first_weights(self, seed: int = 0) -> dict[Edge, np.ndarray]:
        """The weights that one seed started from, held with gate patterns or recorded at step 0."""
        held = {str(name).partition("[")[0] for name in self.data}
        if "first_weights" in held:
            return self._weights("first_weights", seed, None)
        if "weights" not in held or self.data["step"].values[0] != 0:
            wanted = "train with record='weights', from step 0 on"
            raise UnknownNameError(f"the run does not hold its first weights: {wanted}")
        return self.weights(seed, record=0)

    def _weights(self, kind: str, seed: int, record: int | None) -> dict[Edge, np.ndarray]:
        found: dict[Edge, np.ndarray] = {}
        for edge in self.edges:
            array = self.values(f"{kind}[{edge_name(edge)}]")
            require_place("seed", seed, len(array))
            if record is not None:
                require_place("record", record, array.shape[1])
            found[edge] = array[seed] if record is None else array[seed, record]
        return found

    def values(self, name: str) -> np.ndarray:
        """A recorded variable as a plain array, or say what was recorded."""
        if not isinstance(name, str) or name not in self.data:
            raise UnknownNameError(
                f"{name!r} was not recorded; {nearest(name, self.data.data_vars)} (ask for it with record=...)"
            )
        return np.asarray(self.data[name].values)

    def to_frame(self, name: str = "loss") -> "pandas.DataFrame":
        """A recorded variable as a tidy table: one row for each seed, time and whatever else it is indexed by."""
        self.values(name)  # says what was recorded, if this was not
        return self.data[name].to_dataframe().reset_index()

    def plot(self, axis: "Axes | None" = None) -> "Axes":
        """Draw the loss over time, the mean over the seeds and the range of them, on an axis that is given or new."""
        return plot_loss(self.time, self.loss, f"{len(self.loss)} trained", axis)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one netCDF file with a checksum; it appears under its name only when it is complete."""
        return save_dataset(self.data, path)

    @classmethod
    def from_checkpoints(
        cls, network: "Problem", steps: Sequence[int], weights: Sequence[Any], *, learning_rate: float | None = None
    ) -> "Trajectory":
        """Make the record of a training of your own, in any framework, from its weights at some steps.

        network: a ReLUNetwork on the examples that were learned. steps: increasing, the first is 0. weights: one set
        for each step, or a list of such for each network; arrays by edge, or by the names that PyTorch, Flax or Equinox
        give to linear layers. learning_rate: of the mean over examples of half the squared error summed over outputs;
        measured from the weights if not given, so that the scale of another loss does not matter.
        """
        time, moments, variables, settings = recorded(network, steps, weights, learning_rate)
        running = np.full(len(variables["loss"][1]), STATUS.index("running"))
        edges = tuple(network.architecture.edges)
        described = network.describe()
        run = make_trajectory(time, moments, variables, running, edges=edges, problem=described, settings=settings)
        return with_examples(run, network.task)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Trajectory":
        """Read a file that `save` wrote; nothing in it is executed, and what is damaged or does not fit is an error."""
        data = load_dataset(path)
        check_trajectory(Path(path), data)
        return cls(data)


def plot_loss(
    time: np.ndarray, losses: np.ndarray, label: str, axis: "Axes | None" = None, *, theory: bool = False
) -> "Axes":
    """Draw losses (seeds, T) as their mean and range; theory, as everywhere, in black dashes."""
    from matplotlib.figure import Figure

    axis = Figure(layout="constrained").subplots() if axis is None else axis
    if not hasattr(axis, "fill_between"):
        raise RangeError(f"axis must be a matplotlib axis to draw on, or None for a new one; it was {shortened(axis)}")
    (line,) = axis.plot(time, losses.mean(axis=0), label=label)
    if theory:
        line.set(color="black", linestyle=(0, (4, 2)))
    axis.fill_between(time, losses.min(axis=0), losses.max(axis=0), color=line.get_color(), alpha=0.2, linewidth=0)
    axis.set_xlabel("time t (learning rate x step)")
    axis.set_ylabel("loss")
    axis.legend(frameon=False)
    return axis


def make_trajectory(
    time: np.ndarray,
    step: np.ndarray,
    variables: Mapping[str, tuple[tuple[str, ...], np.ndarray]],
    status: np.ndarray,
    *,
    edges: tuple[Edge, ...],
    problem: Mapping[str, object],
    settings: Mapping[str, object],
) -> Trajectory:
    """Put recorded arrays and their description together."""
    data = xarray.Dataset(
        {**variables, "status": (("seed",), status.astype(np.int8))},
        coords={"time": ("time", time), "step": ("time", step), "seed": np.arange(len(status))},
        attrs={
            "neuralrace_format": FORMAT,
            "edges": json.dumps(list(edges)),
            "problem": json.dumps(problem),
            "settings": json.dumps(settings, default=str),
            "versions": _versions(),
        },
    )
    return Trajectory(data)


def status_of(loss: np.ndarray, stop_at: float | None = None) -> np.ndarray:
    """Diverged: not finite, or EXPLODED times the first loss. Converged: fell, and is still at the end.

    loss: (seeds, regular looks), so that what is recorded makes no difference. Still means that over the last tenth
    of the run the loss changed by less than SETTLED of all that it fell; a long plateau looks the same. A seed that
    came down to the loss it was to stop at has converged too.
    """
    status = np.full(len(loss), STATUS.index("running"))
    first = np.maximum(loss[:, 0], np.finfo(float).eps)  # a perfect start leaves rounding, which may grow a little
    with np.errstate(invalid="ignore"):
        fallen = loss[:, 0] - loss[:, -1]
        late = loss[:, -max(loss.shape[1] // 10, 2) :]
        still = (late.max(axis=1) - late.min(axis=1) < SETTLED * fallen) & (fallen > SETTLED * loss[:, 0])
        exploded = ~np.isfinite(loss).all(axis=1) | (loss.max(axis=1) > EXPLODED * first)
        arrived = np.zeros(len(loss), dtype=bool) if stop_at is None else loss[:, -1] <= stop_at
    status[still & (loss.shape[1] >= FEWEST_LOOKS) | arrived] = STATUS.index("converged")
    status[exploded] = STATUS.index("diverged")
    return status


@cache
def _versions() -> str:
    return json.dumps({name: importlib.metadata.version(name) for name in RECORDED_VERSIONS})


def with_examples(run: Trajectory, task: Task) -> Trajectory:
    """The same record with the examples in it, for `Trajectory.task` to read back."""
    variables: dict[str, tuple[tuple[str, ...], np.ndarray]] = {"example_weights": (("example",), task.weights)}
    for kind, by_node in zip(EXAMPLES, (task.inputs, task.targets), strict=True):
        variables |= {f"{kind}[{node}]": (("example", f"{node}_column"), rows) for node, rows in by_node.items()}
    order = {"example_inputs": list(task.inputs), "example_targets": list(task.targets)}
    return Trajectory(run.data.assign(variables).assign_attrs(examples=json.dumps(order)))
