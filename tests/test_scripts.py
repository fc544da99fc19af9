"""The scripts, run on small made-up data."""

import importlib.util
import json
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

SCRIPTS = Path(__file__).parents[1] / "scripts"
RECORDS = 8


def load(name):
    spec = importlib.util.spec_from_file_location(f"scripts_{name}", SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return load("cifar_features")


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


@pytest.fixture(scope="module")
def written(script, folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("out")
    tiny = ["--blocks", "1", "--channels", "2", "--batch", str(RECORDS), "--epochs", "6"]
    rotated = ["--domains", "3", "--range", "270", "--rotated", "4", "3"]
    assert script.main([str(folder), "--out", str(out), *tiny, *rotated]) == 0
    return out


def test_the_features_are_written_with_labels_and_accuracy(script, folder, written):
    with np.load(written / "features.npz") as file:
        assert file["train"].shape == (
            5 * RECORDS,
            2 * 2 * 4 * 4,
        )  # twice the channels of the first stage, 4 x 4 patches
        assert file["test"].shape == (RECORDS, 64)
        assert file["train"].dtype == np.float16
        np.testing.assert_array_equal(file["test_labels"], np.arange(RECORDS) % 2)
        about = json.loads(str(file["settings"]))
    # chance is a half; a readout of 64 features separates light from dark
    assert about["accuracy"] > 0.9
    assert about["linear_readout"] > 0.9
    assert np.load(written / "rotated_train.npy", mmap_mode="r").shape == (3, 4, 64)
    assert np.load(written / "rotated_test.npy", mmap_mode="r").shape == (3, 3, 64)


def test_a_domain_is_the_features_of_images_turned_by_hand(script, folder, written):
    network = script.Network.load(written / "network.npz")
    images, _ = script.read(folder)[1]
    (by_hand,) = network.encode(np.rot90(images[:3], axes=(1, 2)).copy())
    rotated = np.load(written / "rotated_test.npy")
    np.testing.assert_allclose(rotated[1], by_hand, rtol=2e-3, atol=1e-4)  # 270 * 1 / 3 degrees; half precision on disk
    assert np.abs(rotated[1] - rotated[0]).max() > 0.01


def test_the_cut_is_after_the_second_stage(script, folder, written):
    network = script.Network.load(written / "network.npz")
    images, _ = script.read(folder)[1]
    for stage, touched in (("2.", False), ("1.", True)):
        changed = {n: jax.tree.map(jnp.zeros_like, p) if n.startswith(stage) else p for n, p in network.weights.items()}
        other = script.Network(network.settings, changed, network.statistics)
        (first,), (second,) = network.encode(images), other.encode(images)
        assert (np.abs(first - second).max() > 0) == touched


def test_a_frozen_network_sees_each_image_alone(script, folder, written):
    network = script.Network.load(written / "network.npz")
    images, _ = script.read(folder)[1]
    (together,) = network.encode(images)
    (turned_about,) = network.encode(images[::-1].copy())
    np.testing.assert_array_equal(together, turned_about[::-1])


def test_mistakes_are_told_in_one_line(script, folder, tmp_path, capsys):
    assert script.main([str(tmp_path), "--out", str(tmp_path)]) == 2
    assert "must hold data_batch_1.bin" in capsys.readouterr().err
    assert script.main([str(folder), "--out", str(tmp_path), "--epochs", "0"]) == 2
    assert "epochs must be greater than zero" in capsys.readouterr().err
    given = [str(folder), "--out", str(tmp_path)]
    assert script.main([*given, "--rotated", "4", str(RECORDS + 1)]) == 2
    assert f"at most the images that there are, {RECORDS}" in capsys.readouterr().err
    (tmp_path / "network.npz").write_bytes(b"nothing")
    assert script.main([*given, "--network", str(tmp_path / "network.npz")]) == 2
    assert "must be a network.npz" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == [tmp_path / "network.npz"]
