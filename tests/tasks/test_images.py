"""Domains of images and the trained pairs; files are read as published, and damaged ones refused before use."""

import gzip
import struct

import numpy as np
import pytest
import scipy.ndimage

import neuralrace as nr
from neuralrace.errors import FileFormatError, TaskError, UnknownNameError
from neuralrace.tasks.images import rotations


def test_digits_are_the_default():
    task = nr.tasks.routed_images()
    assert repr(task).startswith("RoutedImages(digits: 1437 training and 360 test images of 64 numbers")
    assert task.inputs_of(3).max() == 1
    assert (task.pairs.sum(axis=0) == 4).all()
    assert (task.pairs.sum(axis=1) == 4).all()
    held = {row.tobytes() for row in task.test_images}
    assert sum(row.tobytes() in held for row in task.images) < 5  # hardly any digit is there twice


def test_rotations_take_the_nearest_pixel_and_forget_those_from_outside():
    image = np.arange(1.0, 26).reshape(5, 5)
    padded = np.append(image.ravel(), 0.0)
    maps = rotations((5, 5), 8, 360)
    for domain in range(0, 8, 2):
        np.testing.assert_array_equal(padded[maps[domain]].reshape(5, 5), np.rot90(image, domain // 2))
    corners = padded[maps[1]].reshape(5, 5)[[0, 0, 4, 4], [0, 4, 0, 4]]  # by 45 degrees they come from outside
    np.testing.assert_array_equal(corners, 0)
    image = np.arange(1.0, 32 * 32 + 1).reshape(32, 32)
    turned = np.append(image.ravel(), 0.0)[rotations((32, 32), 10, 270)[1]].reshape(32, 32)
    oracle = scipy.ndimage.rotate(image, 27, reshape=False, order=0)
    known = oracle > 0  # scipy stops at the centers of the outermost pixels, half a pixel earlier
    assert known.mean() > 0.7
    np.testing.assert_array_equal(turned[known], oracle[known])


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"inputs": "rotatd"}, UnknownNameError, "inputs must be one of permuted, rotated, given"),
        ({"pairs": np.ones((3, 3), bool)}, TaskError, r"booleans \(10, 10\), .* they are bool \(3, 3\)"),
        ({"data": np.zeros((4, 3))}, TaskError, "a mapping with images, labels, test_images"),
        ({"folder": "images"}, TaskError, "read from no folder"),
        ({"data": "mnist"}, FileFormatError, "data='mnist' needs folder"),
    ],
)
def test_bad_settings_are_refused(settings, error, says):
    with pytest.raises(error, match=says):
        nr.tasks.routed_images(**settings)


def test_bad_arrays_are_refused():
    arrays = {"images": np.ones((4, 5)), "labels": np.arange(4), "test_images": np.ones((2, 5))}
    with pytest.raises(TaskError, match="test_labels is missing"):
        nr.tasks.routed_images(arrays)
    arrays["test_labels"] = np.arange(2)
    for changes, says in (
        ({"images": np.full((4, 5), np.nan)}, "must be finite numbers"),
        ({"labels": np.arange(4) - 1}, "one whole number from 0 as label"),
        ({"labels": np.arange(3)}, r"it has images \(4, 5\) and labels int64 \(3,\)"),
        ({"test_images": np.ones((2, 6))}, "of one size"),
    ):
        with pytest.raises(TaskError, match=says):
            nr.tasks.routed_images(arrays | changes)
    with pytest.raises(TaskError, match=r"needs images of shape \(N, rows, columns\); .* are \(4, 5\)"):
        nr.tasks.routed_images(arrays, 3, 1, "rotated")


# files

SIDE = 4


@pytest.fixture
def mnist(tmp_path):
    """A folder like MNIST's with 12 and 5 small images, half of the files compressed; and the arrays."""
    random, arrays = np.random.default_rng(0), {}
    for part, count in (("train", 12), ("t10k", 5)):
        arrays[part] = random.integers(0, 256, (count, SIDE, SIDE)), np.arange(count) % 10
        for kind, array in zip(("images-idx3", "labels-idx1"), arrays[part], strict=True):
            content, path = idx(array), tmp_path / f"{part}-{kind}-ubyte"
            path.write_bytes(content) if part == "train" else path.with_suffix(".gz").write_bytes(
                gzip.compress(content)
            )
    return tmp_path, arrays


def idx(array):
    """The bytes of an IDX file, as its definition has them."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


def test_idx_files_plain_and_compressed(mnist):
    folder, arrays = mnist
    task = nr.tasks.routed_images("mnist", 3, 2, folder=folder)
    for test, part in ((False, "train"), (True, "t10k")):
        images, labels = arrays[part]
        np.testing.assert_allclose(task.inputs_of(1, test=test), images.reshape(len(images), -1) / 255, rtol=1e-15)
        np.testing.assert_array_equal(task.test_labels if test else task.labels, labels)
    (folder / "train-labels-idx1-ubyte").unlink()
    with pytest.raises(FileFormatError, match=r"must hold train-labels-idx1-ubyte or .*\.gz; it does not"):
        nr.tasks.routed_images("mnist", folder=folder)


@pytest.mark.parametrize(
    ("name", "damage", "says"),
    [
        ("train", lambda plain: plain[:-3], "cannot reshape array of size 189"),
        ("train", lambda plain: b"\0\0\x0d\3" + plain[4:], "must start with 00 00 08 .* starts with 00 00 0d 03"),
        ("train", lambda plain: plain[:4] + b"\xff" * 12 + plain[16:], ""),
        ("train", lambda plain: b"", "must start with 00 00 08"),
        ("t10k", lambda plain: gzip.compress(plain)[:-9], ""),
    ],
)
def test_a_damaged_file_is_refused(mnist, name, damage, says):
    folder, arrays = mnist
    path = folder / f"{name}-images-idx3-ubyte{'.gz' if name == 't10k' else ''}"
    path.write_bytes(damage(idx(arrays[name][0])))
    with pytest.raises(FileFormatError, match=f"{path.name} is not a readable file of arrays .*{says}"):
        nr.tasks.routed_images("mnist", 3, 2, folder=folder)


def test_arrays_of_files(tmp_path):
    """Images of each domain, as features of rotated images are, from a folder of .npy files."""
    random = np.random.default_rng(0)
    arrays = {"images": random.normal(size=(2, 6, 5)), "labels": np.arange(6) % 3}
    arrays |= {"test_images": random.normal(size=(2, 4, 5)), "test_labels": np.arange(4) % 3}
    for name, array in arrays.items():
        np.save(tmp_path / f"{name}.npy", array)
    task = nr.tasks.routed_images("features", 2, 1, folder=tmp_path)
    np.testing.assert_array_equal(task.inputs_of(1), arrays["images"][1])
    assert task.settings["inputs"] == "given"
    with pytest.raises(TaskError, match="has the images of 2 domains; 3 are required"):
        nr.tasks.routed_images(arrays, 3, 1)
    np.save(tmp_path / "labels.npy", np.array([object()] * 6))
    with pytest.raises(FileFormatError, match="Object arrays cannot be loaded"):
        nr.tasks.routed_images("features", 2, 1, folder=tmp_path)
    (tmp_path / "images.npy").write_bytes(b"not an array")
    with pytest.raises(FileFormatError, match=r"images\.npy is not a readable file of arrays"):
        nr.tasks.routed_images("features", 2, 1, folder=tmp_path)
