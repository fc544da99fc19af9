"""Archives of arrays: what numpy wrote comes back, and limits are checked before anything is unpacked."""

import zipfile

import numpy as np
import pytest

import bad_files
from neuralrace import archives
from neuralrace.archives import read_archive
from neuralrace.errors import FileFormatError

ARRAYS = {
    "matrix": np.arange(6.0).reshape(2, 3),
    "turned": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "number": np.array(7.5),
    "words": np.array(["a", "größe"]),
    "bits": np.array([True, False]),
    "nothing": np.zeros((0, 3)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_wrote_comes_back(save, tmp_path):
    save(tmp_path / "all.npz", **ARRAYS)
    found = read_archive(tmp_path / "all.npz", 10_000)
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype


def test_sizes_are_checked_before_anything_is_unpacked(tmp_path, monkeypatch):
    path = tmp_path / "large.npz"
    np.savez_compressed(path, zeros=np.zeros(10_000))
    seen = []
    monkeypatch.setattr(archives, "_array", lambda *given: pytest.fail("it was unpacked"))
    with pytest.raises(FileFormatError, match=r"at most 1\.95 KiB; it unpacks to 78\.1 KiB"):
        read_archive(path, 2000, lambda name, header: seen.append((name, header.shape, header.size)))
    assert seen == [("zeros", (10_000,), 80_000)]


def test_an_archive_of_very_many_members_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST_MEMBERS", 2)
    bad_files.archive(tmp_path / "many.npz", [(f"{i}.npy", bad_files.stored(i)) for i in range(3)])
    with pytest.raises(FileFormatError, match="at most 2 arrays; it holds 3"):
        read_archive(tmp_path / "many.npz", 10_000)


def test_the_end_of_a_zip_alone_is_no_archive(tmp_path):
    with zipfile.ZipFile(tmp_path / "empty.npz", "w"):
        pass
    assert read_archive(tmp_path / "empty.npz", 10) == {}
