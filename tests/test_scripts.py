"""The scripts, run on small made-up data."""

import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr

SPEC = importlib.util.spec_from_file_location("cifar_features", Path(__file__).parents[1] / "scripts/cifar_features.py")
script = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(script)
RECORDS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two classes, dark images and light ones: something that a small network learns in a few steps."""
    folder = tmp_path_factory.mktemp("cifar")
    draws = np.random.default_rng(0)
    for name in ("data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"):
        labels = np.arange(RECORDS, dtype=np.uint8) % 2
        pixels = draws.integers(0, 128, (RECORDS, 3072), dtype=np.uint8) + 127 * labels[:, None]
        (folder / f"{name}.bin").write_bytes(np.hstack([labels[:, None], pixels]).astype(np.uint8).tobytes())
    return folder


def test_the_features_of_rotated_images_are_a_data_set(folder, tmp_path):
    tiny = ["--blocks", "1", "--channels", "2", "--batch", str(RECORDS), "--epochs", "6"]
    rotated = ["--domains", "3", "--range", "270", "--rotated", str(5 * RECORDS), "3"]
    assert script.main([str(folder), "--out", str(tmp_path), *tiny, *rotated]) == 0
    about = json.loads((tmp_path / "about.json").read_text())
    # chance is a half; a readout of the features separates light from dark
    assert about["accuracy"] > 0.9
    assert about["linear_readout"] > 0.9
    images = np.load(tmp_path / "images.npy", mmap_mode="r")
    assert images.shape == (3, 5 * RECORDS, 2 * 2 * 4 * 4)  # twice the channels of the first stage, 4 x 4 patches
    assert images.dtype == np.float16
    task = nr.tasks.routed_images("features", 3, 2, folder=tmp_path)
    assert np.abs(task.inputs_of(1, test=True) - task.inputs_of(0, test=True)).max() > 0.01
    np.testing.assert_array_equal(task.test_labels, np.arange(3) % 2)


def test_mistakes_are_printed_in_one_line(folder, tmp_path, capsys):
    assert script.main([str(folder / "none"), "--out", str(tmp_path)]) == 2
    assert "data_batch_1.bin must hold records of 3073 bytes" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
