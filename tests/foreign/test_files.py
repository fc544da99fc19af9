"""Checkpoints in folders: steps from names, both kinds of files, accidents in one line."""

import numpy as np
import pytest
from safetensors.numpy import save_file

from neuralrace.errors import FileFormatError
from neuralrace.foreign import read_folder, read_weights

ARRAYS = {"0.weight": np.eye(2, dtype=np.float32)}


def test_steps_are_the_last_numbers_of_names(tmp_path):
    for step in (100, 0, 20):
        np.savez(tmp_path / f"run7_step{step}.npz", **ARRAYS)
    (tmp_path / "notes.txt").write_text("not a checkpoint")
    (found,) = read_folder(tmp_path)
    assert found.steps == (0, 20, 100)
    np.testing.assert_array_equal(found.arrays[2]["0.weight"], np.eye(2))


def test_networks_have_folders_of_their_own(tmp_path):
    for seed in "ab":
        (tmp_path / seed).mkdir()
        save_file(ARRAYS, tmp_path / seed / "0.safetensors")
    assert [one.steps for one in read_folder(tmp_path)] == [(0,), (0,)]


def test_what_is_wrong_is_said(tmp_path):
    with pytest.raises(FileFormatError, match="there is no folder"):
        read_folder(tmp_path / "nowhere")
    with pytest.raises(FileFormatError, match="it holds none"):
        read_folder(tmp_path)
    np.savez(tmp_path / "last.npz", **ARRAYS)
    with pytest.raises(FileFormatError, match="must have its step in its name"):
        read_folder(tmp_path)
    (tmp_path / "last.npz").rename(tmp_path / "a5.npz")
    np.savez(tmp_path / "b5.npz", **ARRAYS)
    with pytest.raises(FileFormatError, match=r"a5.npz and b5.npz are both of step 5"):
        read_folder(tmp_path)
    with pytest.raises(FileFormatError, match=r"\.npz or \.safetensors"):
        read_weights(__file__)
    for name in ("bad1.safetensors", "bad1.npz"):
        (tmp_path / name).write_bytes(b"\x80\x04\x95 no weights")
        with pytest.raises(FileFormatError, match="bad1") as caught:
            read_weights(tmp_path / name)
        assert "\n" not in str(caught.value)
    np.savez(tmp_path / "words1.npz", a=np.array(["x"]))
    with pytest.raises(FileFormatError, match="must hold numbers"):
        read_weights(tmp_path / "words1.npz")
