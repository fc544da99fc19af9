"""Arrays on disk are cut into batches that are read when it is their turn."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.batches import cut
from neuralrace.batches.batch import RowsOnDisk
from neuralrace.errors import NeuralRaceError

ARCHITECTURE = nr.Architecture({"x": 3, "h": 2, "y": 1}, [("x", "h"), ("h", "y")])
ROWS = np.random.default_rng(0).normal(size=(100, 3))


def memory_mapped(folder):
    np.save(folder / "rows.npy", ROWS)
    return np.load(folder / "rows.npy", mmap_mode="r")


def in_zarr(folder):
    import zarr

    array = zarr.create_array(folder / "rows.zarr", shape=ROWS.shape, chunks=(30, 3), dtype="f8")
    array[:] = ROWS
    return array


def in_dask(folder):
    import dask.array

    return dask.array.from_array(ROWS, chunks=(40, 3))


@pytest.mark.parametrize("kept", [memory_mapped, in_zarr, in_dask])
def test_arrays_of_every_kind_give_the_moments_of_their_rows(tmp_path, kept):
    array = kept(tmp_path)
    found = nr.batches.problem(ARCHITECTURE, cut({"x": array}, {"y": ROWS[:, :1]}, rows=33))
    assert len(found.task) <= 4
    np.testing.assert_allclose(found.statistics().moments[0].inputs, ROWS.T @ ROWS / 100, atol=1e-14)


def test_rows_are_read_when_they_are_needed():
    class Disk:
        shape = (100, 3)

        def __len__(self):
            return 100

        def __getitem__(self, rows):
            read.append(rows)
            return ROWS[rows]

    read = []
    batches = cut({"x": Disk()}, {"y": ROWS[:, :1]}, rows=60)
    first = next(batches)
    assert (isinstance(first.inputs["x"], RowsOnDisk), read) == (True, [])
    assert np.asarray(first.inputs["x"]).shape == (60, 3)
    assert read == [slice(0, 60)]


def test_arrays_that_do_not_fit_together():
    with pytest.raises(NeuralRaceError, match=r"targets\['y'\] has 99 and the first has 100"):
        cut({"x": ROWS}, {"y": ROWS[:99]})
    with pytest.raises(NeuralRaceError, match="weights has 3 and the first has 100"):
        cut({"x": ROWS}, {"y": ROWS}, weights=[1, 1, 1])
    with pytest.raises(NeuralRaceError, match="rows must be a whole number, at least 1; it was 0"):
        cut({"x": ROWS}, {"y": ROWS}, rows=0)
