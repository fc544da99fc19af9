"""One labelled dataset of all points: every variable with the swept settings as its first axes.

What has other labels at other points (a time that depends on the step size) becomes a variable itself, `time_values`. A
variable that is longer at one point than at another ends in NaN there, and so does all of a point that failed.
"""

import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xarray

from neuralrace.datafiles import load_dataset, save_dataset
from neuralrace.errors import FileFormatError
from neuralrace.sweeps.folder import Folder
from neuralrace.sweeps.points import Point, Sweep

LARGE = 256 << 20  # bytes from which the dataset is zarr, written point by point, and never in memory as a whole
DONE, FAILED = "done", "failed"


@dataclass
class Layout:
    """Which variables there are, over which axes, how long and of which kind; found in one pass over the points."""

    dims: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, np.dtype] = field(default_factory=dict)
    labels: dict[str, np.ndarray | None] = field(default_factory=dict)  # axis -> labels; None: they differ
    ragged: set[str] = field(default_factory=set)  # axes whose length differs

    def add(self, data: xarray.Dataset) -> None:
        """Make room for one more point."""
        for axis, size in data.sizes.items():
            name = str(axis)
            if self.sizes.setdefault(name, size) != size:
                self.ragged.add(name)
                self.sizes[name] = max(self.sizes[name], size)
            here = data[name].values if name in data.coords else None
            if name not in self.labels:
                self.labels[name] = here
            elif not _equal(self.labels[name], here):
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
        return {name: dims for name, dims in self.dims.items() if not self._is_label(name)}

    def kind(self, name: str, gaps: bool) -> np.dtype:
        """The kind of a variable's numbers; those with gaps must be able to be NaN."""
        kind = self.kinds[name]
        holes = gaps or bool(self.ragged & set(self.dims[name]))
        return np.dtype(np.float64) if holes and kind.kind in "iub" else kind

    def _is_label(self, name: str) -> bool:
        axis = name.removesuffix("_values")
        return name.endswith("_values") and self.labels.get(axis) is not None


def assemble(sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> tuple[xarray.Dataset, Path]:
    """All points as one dataset, and where it is kept: data.nc, or data.zarr if it is large."""
    layout = Layout()
    for _, data in _finished(sweep, folder, failed):
        layout.add(data)
    told = _told(sweep, folder, failed)
    variables, gaps = layout.variables(), bool(failed)
    shapes = {n: (*sweep.shape, *(layout.sizes[d] for d in dims)) for n, dims in variables.items()}
    taken = sum(int(np.prod(shape)) * layout.kind(n, gaps).itemsize for n, shape in shapes.items())
    if taken > LARGE:
        return _as_zarr(sweep, folder, failed, layout, told)
    arrays = {n: _blank(shape, layout.kind(n, gaps)) for n, shape in shapes.items()}
    _fill(arrays, sweep, folder, failed)
    data = told.assign({name: ((*sweep.axes, *variables[name]), array) for name, array in arrays.items()})
    data = data.assign_coords(_labels(layout))
    return data, save_dataset(data, folder.path / "data.nc")


def _as_zarr(
    sweep: Sweep, folder: Folder, failed: Mapping[str, str], layout: Layout, told: xarray.Dataset
) -> tuple[xarray.Dataset, Path]:
    """Written beside its name, a chunk for each point, and then renamed: a folder under its name is complete."""
    path, part = folder.path / "data.zarr", folder.path / f".data.{os.getpid()}.part.zarr"
    try:
        import zarr
    except ImportError:
        raise FileFormatError(
            "a sweep this large is kept as zarr, which is missing: pip install 'neuralrace[sweeps]'"
        ) from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # text has no settled form in zarr yet
        if not path.exists() or failed or xarray.open_zarr(path, consolidated=False).attrs.get("failed"):
            base = told.assign_coords(_labels(layout))
            base.to_zarr(part, mode="w", consolidated=False)
            group = zarr.open_group(part, mode="r+")
            arrays = {}
            for name, dims in layout.variables().items():
                kind, own = layout.kind(name, bool(failed)), tuple(layout.sizes[dim] for dim in dims)
                arrays[name] = group.create_array(
                    name,
                    shape=(*sweep.shape, *own),
                    chunks=(*(1 for _ in sweep.shape), *(max(size, 1) for size in own)),
                    dtype=kind,
                    fill_value=np.nan if kind.kind == "f" else None,
                    dimension_names=(*sweep.axes, *dims),
                )
            _fill(arrays, sweep, folder, failed)
            if path.exists():  # of an earlier end of this sweep, when points had failed
                shutil.rmtree(path)
            part.rename(path)
        return xarray.open_zarr(path, consolidated=False), path


def _fill(arrays: Mapping[str, Any], sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> None:
    for point, data in _finished(sweep, folder, failed):
        for name, values in _variables(data).items():
            if name in arrays:
                arrays[name][(*point.place, *map(slice, values.shape))] = values.values


def _told(sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> xarray.Dataset:
    """What became of each point and of its claims, with the swept values as labels."""
    status = np.full(sweep.shape, DONE, dtype="U6")
    holds: dict[str, np.ndarray] = {}
    measured: dict[str, np.ndarray] = {}
    for point in sweep.points:
        if point.key in failed:
            status[point.place] = FAILED
    for point, data in _finished(sweep, folder, failed):
        for claim in json.loads(data.attrs["claims"]):
            blank = np.full(sweep.shape, np.nan)
            holds.setdefault(claim["text"], blank.copy())[point.place] = claim["holds"]
            for what, low, high in claim["quantities"]:
                both = measured.setdefault(f"{claim['text']} ({what})", np.full((2, *sweep.shape), np.nan))
                both[(slice(None), *point.place)] = low, high
    axes = tuple(sweep.axes)
    data = xarray.Dataset({"status": (axes, status)}, {name: _as_labels(v) for name, v in sweep.axes.items()})
    if holds:
        data["claim_holds"] = (("claim", *axes), np.stack(list(holds.values())))
        data = data.assign_coords(claim=np.array(list(holds)))
    if measured:
        data["measured"] = (("quantity", "end", *axes), np.stack(list(measured.values())))
        data = data.assign_coords(quantity=np.array(list(measured)), end=np.array(["lowest", "highest"]))
    reasons = {json.dumps(_values_at(sweep, p)): failed[p.key] for p in sweep.points if p.key in failed}
    return data.assign_attrs(sweep=json.dumps(sweep.identity), failed=json.dumps(reasons) if reasons else "")


def _values_at(sweep: Sweep, point: Point) -> dict[str, Any]:
    return {name: values[i] for (name, values), i in zip(sweep.axes.items(), point.place, strict=True)}


def _finished(sweep: Sweep, folder: Folder, failed: Mapping[str, str]) -> Iterator[tuple[Point, xarray.Dataset]]:
    """Every finished point with its data; names that the sweep uses itself are told apart."""
    taken = {*sweep.axes, "status", "claim", "claim_holds", "quantity", "measured", "end"}
    for point in sweep.points:
        if point.key not in failed:
            data = load_dataset(folder.file_of(point))
            names = {str(name) for name in (*data.variables, *data.dims)}
            yield point, data.rename({name: f"{name}_of_point" for name in sorted(names & taken)})


def _variables(data: xarray.Dataset) -> dict[str, xarray.Variable]:
    """The variables of a point; labels of an axis come as `time_values`."""
    return {f"{name}_values" if name in data.dims else str(name): data[name].variable for name in data.variables}


def _labels(layout: Layout) -> dict[str, tuple[str, np.ndarray]]:
    return {axis: (axis, labels) for axis, labels in layout.labels.items() if labels is not None}


def _as_labels(values: Sequence[Any]) -> np.ndarray:
    return np.array([",".join(map(str, v)) if isinstance(v, tuple) else v for v in values])


def _equal(one: np.ndarray | None, two: np.ndarray | None) -> bool:
    return one is not None and two is not None and one.shape == two.shape and bool((one == two).all())


def _blank(shape: tuple[int, ...], kind: np.dtype) -> np.ndarray:
    return np.full(shape, np.nan, kind) if kind.kind == "f" else np.zeros(shape, kind)
