"""Archives of arrays: what numpy wrote comes back, and sizes are checked before anything is unpacked."""

import numpy as np
import pytest

import bad_files
from neuralrace.archives import read_archive
from neuralrace.errors import FileFormatError

ARRAYS = {
    "matrix": np.arange(6.0).reshape(2, 3),
    "turned": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "number": np.array(7.5),
    "words": np.array(["a", "größe"]),
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


def test_an_archive_that_unpacks_to_more_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "large.npz", zeros=np.zeros(10_000))
    with pytest.raises(FileFormatError, match=r"at most 1\.95 KiB; it unpacks to 78\.2 KiB"):
        read_archive(tmp_path / "large.npz", 2000)


BAD = ("trash", "array", "member", "cut", "damaged", "encrypted", "bomb", "objects", "claims", "headless", "malformed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return bad_files.make(tmp_path_factory.mktemp("bad"))


@pytest.mark.parametrize("name", BAD)
def test_an_archive_that_is_damaged_or_claims_too_much_is_refused(name, folder):
    with pytest.raises(FileFormatError, match=rf"{name}\.npz") as caught:
        read_archive(folder / f"{name}.npz", 1 << 28)
    assert "\n" not in str(caught.value)
