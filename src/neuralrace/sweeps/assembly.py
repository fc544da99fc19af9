"""One labelled dataset of all points: every variable with the swept settings as its first axes.

What has other labels at other points (a time that depends on the step size) becomes a variable itself, `time_values`. A
variable that is longer at one point than at another ends in NaN there, and so does all of a point that failed.
"""

import json
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from neuralrace.cluster import INSTALL
from neuralrace.datafiles import load_dataset, save_dataset
from neuralrace.errors import FileFormatError
from neuralrace.sweeps.folder import Folder
from neuralrace.sweeps.points import Point, Sweep

DONE, FAILED = "done", "failed"
# of variables and axes that are made here
NAMES = ("status", "claim", "claim_holds", "quantity", "quantity_claim", "quantity_name", "measured", "end")

Points = Iterable[tuple[Point, xarray.Dataset]]
LARGE = 256 << 20  # bytes from which the dataset is zarr, written point by point, and never in memory as a whole


@dataclass
class Layout:
    """Which variables there are, over which axes, how long and of which kind; found in one pass over the points."""

    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, np.dtype] = field(default_factory=dict)
    labels: dict[str, Any] = field(default_factory=dict)  # axis -> labels; None: they differ
    ragged: set[str] = field(default_factory=set)  # axes whose length differs

    def add(self, data: xarray.Dataset) -> None:
        """Make room for one more point."""
        for axis, size in data.sizes.items():
            name = str(axis)
            if self.sizes.setdefault(name, size) != size:
                self.ragged.add(name)
                self.sizes[name] = max(self.sizes[name], size)
            here: Any = data[name].values if name in data.coords else None
            if not np.array_equal(self.labels.setdefault(name, here), here):
                self.labels[name] = None
        for name, values in _variables(data).items():
            self.dims.setdefault(name, tuple(map(str, values.dims)))
            if self.dims[name] != values.dims:
                raise FileFormatError(
                    f"variable {name!r} must have the same axes everywhere; it has {self.dims[name]} and {values.dims}"
                )
            self.kinds[name] = np.promote_types(self.kinds.get(name, values.dtype), values.dtype)

    def variables(self) -> dict[str, tuple[str, ...]]:
        """Variable -> its own axes; labels that are the same everywhere are no variables."""
        alike = {f"{axis}_values" for axis, labels in self.labels.items() if labels is not None}
        return {name: dims for name, dims in self.dims.items() if name not in alike}

    def kind(self, name: str, gaps: bool) -> np.dtype:
        """The kind of a variable's numbers; those with gaps must be able to be NaN."""
        kind = self.kinds[name]
        holes = gaps or bool(self.ragged & set(self.dims[name]))
        return np.dtype(np.float64) if holes and kind.kind in "iub" else kind


def assemble(sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> tuple[xarray.Dataset, Path]:
    """All points as one dataset, and where it is kept: data.nc, or data.zarr if it is large."""
    layout, tally, held, taken = Layout(), Tally(sweep), [], 0
    for point, data in _finished(sweep, folder, failed):
        layout.add(data)
        tally.add(point, data)
        taken += data.nbytes
        if taken <= LARGE:  # reading takes longer than anything else here
            held.append((point, data))
    again = held if taken <= LARGE else _finished(sweep, folder, failed)
    labels = {axis: (axis, values) for axis, values in layout.labels.items() if values is not None}
    told = tally.told(failed).assign_coords(labels)
    variables, gaps = layout.variables(), bool(failed)
    shapes = {n: (*sweep.shape, *(layout.sizes[d] for d in dims)) for n, dims in variables.items()}
    kinds = {n: layout.kind(n, gaps) for n in variables}
    if sum(int(np.prod(shape)) * kinds[n].itemsize for n, shape in shapes.items()) > LARGE:
        return _as_zarr(sweep, folder, layout, told, again)
    arrays = {n: _blank(shape, kinds[n]) for n, shape in shapes.items()}
    _fill(arrays, again)
    whole = told.assign({n: ((*sweep.axes, *variables[n]), array) for n, array in arrays.items()})
    return whole, save_dataset(whole, folder.path / "data.nc")


def _as_zarr(
    sweep: Sweep, folder: Folder, layout: Layout, told: xarray.Dataset, points: Points
) -> tuple[xarray.Dataset, Path]:
    """Written beside its name and then renamed, so that a folder under its name is complete."""
    path, part = folder.path / "data.zarr", folder.path / ".data.part.zarr"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text has no settled form in zarr yet
        complete = path.exists() and xarray.open_zarr(path, consolidated=False).attrs["failed"] == told.attrs["failed"]
        if not complete:
            told.to_zarr(part, mode="w", consolidated=False)
            _fill(_zarr_arrays(part, sweep, layout, bool(told.attrs["failed"])), points)
            if path.exists():  # of an earlier end of this sweep, at which other points had failed
                shutil.rmtree(path)
            part.rename(path)
        return xarray.open_zarr(path, consolidated=False), path


def _zarr_arrays(part: Path, sweep: Sweep, layout: Layout, gaps: bool) -> dict[str, Any]:
    """Room for every variable, a chunk for each point."""
    try:
        import zarr
    except ImportError:
        raise FileFormatError(f"a sweep this large is kept as zarr, which is not installed: {INSTALL}") from None
    group, arrays = zarr.open_group(part, mode="r+"), {}
    for name, dims in layout.variables().items():
        kind, own = layout.kind(name, gaps), tuple(layout.sizes[dim] for dim in dims)
        arrays[name] = group.create_array(
            name,
            shape=(*sweep.shape, *own),
            chunks=(*(1 for _ in sweep.shape), *(max(size, 1) for size in own)),
            dtype=kind,
            fill_value=np.nan if kind.kind == "f" else None,
            dimension_names=(*sweep.axes, *dims),
        )
    return arrays


def _fill(arrays: Mapping[str, Any], points: Points) -> None:
    for point, data in points:
        for name, values in _variables(data).items():
            if name in arrays:
                arrays[name][(*point.place, *map(slice, values.shape))] = values.values


def _finished(sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> Iterator[tuple[Point, xarray.Dataset]]:
    """Every finished point with its data; names that the sweep uses itself are told apart."""
    taken = {*sweep.axes, *NAMES}
    for point in sweep.points:
        if point.key not in failed:
            data = load_dataset(folder.file_of(point))
            names = {str(name) for name in (*data.variables, *data.dims)}
            yield point, data.rename({name: f"{name}_of_point" for name in sorted(names & taken)})


def _variables(data: xarray.Dataset) -> dict[str, xarray.Variable]:
    """The variables of a point; labels of an axis come as `time_values`."""
    return {f"{name}_values" if name in data.dims else str(name): data[name].variable for name in data.variables}


def _blank(shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    return np.full(shape, np.nan, kind) if kind.kind == "f" else np.zeros(shape, kind)


class Tally:
    """Counts claims point by point."""

    def __init__(self, sweep: Sweep) -> None:
        self._sweep = sweep
        self._holds: dict[str, np.ndarray] = {}
        self._measured: dict[tuple[str, str], np.ndarray] = {}  # claim, quantity -> (lowest and highest, points)

    def add(self, point: Point, data: xarray.Dataset) -> None:
        """Take in the claims of one more point."""
        shape = self._sweep.shape
        for claim in json.loads(data.attrs["claims"]):
            self._holds.setdefault(claim["text"], np.full(shape, np.nan))[point.place] = claim["holds"]
            for what, *ends in claim["quantities"]:
                both = self._measured.setdefault((claim["text"], what), np.full((2, *shape), np.nan))
                for row, end in zip(both, ends, strict=True):
                    row[point.place] = end

    def told(self, failed: Mapping[str, str]) -> xarray.Dataset:
        """Everything so far; failed: key -> why."""
        sweep, axes = self._sweep, tuple(self._sweep.axes)
        status, reasons = np.full(sweep.shape, DONE, dtype="U6"), {}
        for point in sweep.points:
            if point.key in failed:
                status[point.place] = FAILED
                values = {name: values[i] for (name, values), i in zip(sweep.axes.items(), point.place, strict=True)}
                reasons[json.dumps(values)] = failed[point.key]
        data = xarray.Dataset({"status": (axes, status)}, {name: _labels(v) for name, v in sweep.axes.items()})
        if self._holds:
            data["claim_holds"] = (("claim", *axes), np.stack(list(self._holds.values())))
            data = data.assign_coords(claim=np.array(list(self._holds)))
        if self._measured:
            data["measured"] = (("quantity", "end", *axes), np.stack(list(self._measured.values())))
            claims, names = zip(*self._measured, strict=True)
            data = data.assign_coords(
                quantity=np.array([f"{claim} ({name})" for claim, name in self._measured]),
                quantity_claim=("quantity", np.array(claims)),
                quantity_name=("quantity", np.array(names)),
                end=np.array(["lowest", "highest"]),
            )
        return data.assign_attrs(sweep=json.dumps(sweep.identity), failed=json.dumps(reasons) if reasons else "")


def _labels(values: Sequence[Any]) -> np.ndarray:
    return np.array([",".join(map(str, v)) if isinstance(v, tuple) else v for v in values])
