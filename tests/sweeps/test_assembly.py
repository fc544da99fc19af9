"""One labelled dataset of points that were written by hand."""

import json

import numpy as np
import pytest
import xarray

from neuralrace.datafiles import load_dataset, save_dataset
from neuralrace.sweeps import assembly
from neuralrace.sweeps.assembly import assemble
from neuralrace.sweeps.folder import open_folder
from neuralrace.sweeps.points import make_sweep
from neuralrace.sweeps.swept import Swept

SIZE = "size, more than one line of it (of the largest)"


def written(folder):
    """Four points: times that depend on the rate, units as many as `hidden`, a claim of one quantity; one failed."""
    sweep = make_sweep("saxe2022-fig3", {"learning_rate": [0.1, 0.2], "hidden": [8, 9]}, size="tiny")
    kept = open_folder(folder, sweep)
    for point in sweep.points[:-1]:
        rate, units = point.settings.learning_rate, point.settings.hidden
        data = xarray.Dataset(
            {
                "loss": ("time", rate * np.arange(4.0)),
                "count": ("unit", np.arange(units)),
                "kind": ("side", ["left", "right"]),
                "hidden": ((), 7.0),  # a name that is swept too
            },
            {"time": rate * np.arange(4), "side": ["l", "r"]},
        )
        claim = {"text": "It is so.", "holds": rate < 0.15, "quantities": [[SIZE, rate, 2 * rate]]}
        save_dataset(data.assign_attrs(claims=json.dumps([claim])), kept.file_of(point))
    return sweep, kept, {sweep.points[-1].key: "RangeError: too many"}


@pytest.mark.parametrize("large", [False, True], ids=["netcdf", "zarr"])
def test_every_variable_is_labelled_by_the_swept_settings(tmp_path, monkeypatch, large):
    if large:
        monkeypatch.setattr(assembly, "LARGE", 0)
    sweep, kept, failed = written(tmp_path)
    data, path = assemble(sweep, kept, failed)
    assert path.name == ("data.zarr" if large else "data.nc")
    assert data["loss"].dims == ("learning_rate", "hidden", "time")
    assert float(data["loss"].sel(learning_rate=0.2, hidden=8)[3]) == pytest.approx(0.6)
    assert data["time_values"].sel(learning_rate=0.2, hidden=8).values.tolist() == pytest.approx([0, 0.2, 0.4, 0.6])
    assert np.isnan(data["loss"].sel(learning_rate=0.2, hidden=9)).all()
    np.testing.assert_array_equal(data["count"].sel(learning_rate=0.1, hidden=8), [*range(8), np.nan])
    assert data["side"].values.tolist() == ["l", "r"]
    assert data["kind"].sel(learning_rate=0.1, hidden=8).values.tolist() == ["left", "right"]
    assert float(data["hidden_of_point"].sel(learning_rate=0.1, hidden=9)) == 7.0
    assert data["status"].values.tolist() == [["done", "done"], ["done", "failed"]]
    np.testing.assert_array_equal(data["claim_holds"][0], [[1, 1], [0, np.nan]])
    measured = data["measured"].sel(quantity=f"It is so. ({SIZE})", learning_rate=0.2, hidden=8)
    assert measured.values.tolist() == [0.2, 0.4]
    swept = Swept(sweep, data, path, json.loads(data.attrs["failed"]))
    assert swept.claims == [{"claim": "It is so.", "points": 3, "holds": 2}]
    assert swept.failed == {'{"learning_rate": 0.2, "hidden": 9}': "RangeError: too many"}
    (axis,) = swept.figure().axes
    assert [line.get_label() for line in axis.lines] == ["hidden 8", "hidden 9"]
    assert axis.lines[0].get_ydata().tolist() == [0.2, 0.4]
    assert (axis.get_title(), axis.get_ylabel()) == ("It is so.", SIZE.replace("(of the", "(of\nthe"))
    again, _ = assemble(sweep, kept, failed)  # over what is there
    assert again.equals(data)
    if not large:
        assert load_dataset(path).equals(data)
    assert {entry.name for entry in tmp_path.iterdir()} == {"sweep.json", "points", path.name}


def test_a_damaged_point_is_not_finished(tmp_path):
    sweep, kept, _ = written(tmp_path)
    first, last = sweep.points[0], sweep.points[-1]
    assert kept.finished(first)
    assert not kept.finished(last)
    whole = kept.file_of(first).read_bytes()
    kept.file_of(first).write_bytes(whole[: len(whole) // 2])
    assert not kept.finished(first)
