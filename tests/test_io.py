"""Files are whole or not there, nothing but files is replaced, and archives are checked before they are unpacked."""

import contextlib
import os
import stat
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray

import bad_files
from neuralrace import memory
from neuralrace.errors import FileFormatError, ResourceError
from neuralrace.io import PART, load_dataset, make_folder, read_archive, save_dataset, write_text


def test_only_regular_files_are_replaced(tmp_path):
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    for path, kind in ((pipe, "a device, a pipe or a socket"), (link, "a device, a pipe"), (tmp_path, "a folder")):
        with pytest.raises(FileFormatError, match=f"it is {kind}"):
            write_text(path, "text")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)
    with pytest.raises(FileFormatError, match=r"nowhere does not exist; make it first"):
        write_text(tmp_path / "nowhere" / "text", "text")


def test_a_link_is_followed_and_stays_and_permissions_are_kept(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    link.symlink_to(real)
    for text, mode in (("new", 0o644), ("again", 0o600)):  # to a name that is not there yet, and to a file
        assert write_text(link, text) == link
        assert link.is_symlink()
        assert real.read_text() == text
        real.chmod(0o600)
        assert stat.S_IMODE(write_text(real, text).stat().st_mode) == 0o600, mode
    assert stat.S_IMODE(write_text(tmp_path / "new.txt", "").stat().st_mode) == 0o644


def test_temporary_files_of_a_killed_process_are_removed_an_hour_later(tmp_path):
    old, young, mine = tmp_path / f".data{PART}1.nc", tmp_path / f".data{PART}2.nc", tmp_path / ".notes.part"
    for path in (old, young, mine):
        path.touch()
    for path in (old, mine):
        os.utime(path, (time.time() - 4000,) * 2)
    write_text(tmp_path / "text", "")
    assert [path.exists() for path in (old, young, mine)] == [False, True, True]


def test_a_folder_is_tried_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(FileFormatError, match="it was empty"):
        make_folder("")
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for place in ("file/below", "link"):
        with pytest.raises(FileFormatError, match="out must be a folder that can be written"):
            make_folder(tmp_path / place)

    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(FileFormatError, match=r"folder is not \(No space left on device\)"):
        make_folder(tmp_path / "folder")


WRITER = """
import sys
from neuralrace.io import make_folder, write_text
folder = make_folder(sys.argv[1])
for number in range(40):
    write_text(folder / "shared.txt", sys.argv[2] * 20_000)
"""


def test_two_processes_in_one_folder_stay_correct(tmp_path):
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        with contextlib.suppress(FileNotFoundError):
            seen.add((tmp_path / "shared.txt").read_text())
    assert [writer.wait() for writer in writers] == [0, 0]
    assert seen <= {"a" * 20_000, "b" * 20_000}  # never a mixture, never a part
    assert seen
    assert [path.name for path in tmp_path.iterdir()] == ["shared.txt"]


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_full_disk_leaves_what_was_there(tmp_path):
    command = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk is not allowed here")
    try:
        small = xarray.Dataset({"a": ("t", np.arange(3.0))})
        path = save_dataset(small, tmp_path / "data.nc")
        large = xarray.Dataset({"a": ("t", np.random.default_rng(0).random(400_000))})
        for name in ("data.nc", "more.nc"):
            with pytest.raises(FileFormatError, match=rf"cannot write .*{name} .*: free some space, or choose another"):
                save_dataset(large, tmp_path / name)
        with pytest.raises(FileFormatError, match=r"cannot write .*text \(No space left on device\): free some space"):
            write_text(tmp_path / "text", "x" * 2_000_000)
        assert os.listdir(tmp_path) == ["data.nc"]
        assert load_dataset(path).identical(small)
    finally:
        subprocess.run(["umount", "-l", str(tmp_path)], check=True)


# archives

ARRAYS = {
    "matrix": np.arange(6.0).reshape(2, 3),
    "turned": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "number": np.array(7.5),
    "words": np.array(["a", "größe"]),
    "nothing": np.zeros((0, 3)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_what_numpy_wrote_comes_back(save, tmp_path, monkeypatch):
    save(tmp_path / "all.npz", **ARRAYS)
    found = read_archive(tmp_path / "all.npz")
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
    save(tmp_path / "large.npz", zeros=np.zeros(200_000))
    monkeypatch.setattr(memory, "free_memory", lambda: 10**6)
    with pytest.raises(ResourceError, match=r"large.npz would take 1.6 MB of memory and 1.0 MB are free: take fewer"):
        read_archive(tmp_path / "large.npz")


BAD = ("trash", "member", "cut", "damaged", "objects", "claims", "malformed")


def test_an_archive_that_is_damaged_or_claims_too_much_is_refused(tmp_path):
    bad_files.make(tmp_path)
    for name in BAD:
        with pytest.raises(FileFormatError, match=rf"{name}\.npz") as caught:
            read_archive(tmp_path / f"{name}.npz")
        assert "\n" not in str(caught.value)
