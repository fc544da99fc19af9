"""A disk that is full: the file is named, what to do is said, what was there stays, nothing is left behind."""

import os
import subprocess
import sys

import numpy as np
import pytest
import xarray

from neuralrace.datafiles import load_dataset, make_folder, save_dataset, write_text
from neuralrace.errors import FileFormatError


@pytest.fixture
def small_disk(tmp_path):
    """A megabyte in memory, where mounting is allowed."""
    place = tmp_path / "disk"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("mounting a small disk is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk(small_disk):
    small = xarray.Dataset({"a": ("t", np.arange(3.0))})
    path = save_dataset(small, small_disk / "data.nc")
    large = xarray.Dataset({"a": ("t", np.random.default_rng(0).random(400_000))})
    for name in ("data.nc", "more.nc"):
        with pytest.raises(FileFormatError, match=rf"cannot write .*{name} .*: free some space, or choose another"):
            save_dataset(large, small_disk / name)
    with pytest.raises(FileFormatError, match=r"cannot write .*text \(No space left on device\): free some space"):
        write_text(small_disk / "text", "x" * 2_000_000)
    assert os.listdir(small_disk) == ["data.nc"]
    assert load_dataset(path).identical(small)
    assert make_folder(small_disk / "results").is_dir()
