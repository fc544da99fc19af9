"""What became of each point and of its claims, labelled by the swept settings."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray

from neuralrace.sweeps.points import Point, Sweep

DONE, FAILED = "done", "failed"
# of variables and axes that are made here
NAMES = ("status", "claim", "claim_holds", "quantity", "quantity_claim", "quantity_name", "measured", "end")


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
