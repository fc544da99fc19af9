"""Files are whole or not there, and nothing but files is replaced."""

import contextlib
import os
import stat
import subprocess
import sys

import pytest

from neuralrace import datafiles
from neuralrace.datafiles import make_folder, write_text
from neuralrace.errors import FileFormatError


def test_a_named_pipe_is_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, tmp_path / "link"):
        if path.name == "link":
            path.symlink_to(pipe)
        with pytest.raises(FileFormatError, match="it is a device, a pipe or a socket"):
            write_text(path, "text")
    assert stat.S_ISFIFO(pipe.lstat().st_mode)


def test_a_link_is_followed_and_stays(tmp_path):
    (tmp_path / "there").mkdir()
    real, link = tmp_path / "there" / "real.txt", tmp_path / "link.txt"
    link.symlink_to(real)
    for text in ("new", "again"):  # to a name that is not there yet, and to a file
        assert write_text(link, text) == link
        assert link.is_symlink()
        assert real.read_text() == text


def test_the_permissions_of_a_file_are_kept(tmp_path):
    path = write_text(tmp_path / "private.txt", "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    path.chmod(0o600)
    write_text(path, "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_a_killed_run_left_is_cleaned_and_what_a_living_one_writes_is_not(tmp_path):
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    dead = tmp_path / f".data.{datafiles.HOST}-{int(gone.stdout)}.partabc.nc"
    alive = tmp_path / f".data.{datafiles.HOST}-{os.getpid()}.partabc.nc"
    elsewhere = tmp_path / f".data.another-machine-{int(gone.stdout)}.partabc.nc"
    mine = tmp_path / ".notes.partial"
    for clean in (lambda: make_folder(tmp_path), lambda: write_text(tmp_path / "text", "")):
        for path in (dead, alive, elsewhere, mine):
            path.touch()
        clean()
        assert not dead.exists()
        assert alive.exists()
        assert elsewhere.exists()
        assert mine.exists()


def test_a_folder_is_tried_before_any_work(tmp_path, monkeypatch):
    with pytest.raises(FileFormatError, match="it was empty"):
        make_folder("")
    (tmp_path / "file").touch()
    with pytest.raises(FileFormatError, match="out must be a folder that can be written"):
        make_folder(tmp_path / "file" / "below")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileFormatError, match="is a dangling symlink"):
        make_folder(tmp_path / "link")

    def full(**options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tempfile.TemporaryFile", full)
    with pytest.raises(FileFormatError, match=r"folder is not \(No space left on device\)"):
        make_folder(tmp_path / "folder")


WRITER = """
import sys
from neuralrace.datafiles import make_folder, write_text
folder = make_folder(sys.argv[1])
for number in range(150):
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
