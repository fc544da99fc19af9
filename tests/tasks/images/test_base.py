"""Published formats are read as they are defined, and whatever is wrong with a file is said before it is used."""

import gzip
import struct

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import FileFormatError, TaskError, UnknownNameError
from neuralrace.tasks.images.base import read_cifar, read_idx

SIDE = 4


def idx(array):
    """The bytes of an IDX file, as its definition has them."""
    sizes = struct.pack(f">{array.ndim}I", *array.shape)
    return bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes()


@pytest.fixture
def mnist(tmp_path):
    """A folder like MNIST's with 12 and 5 small images, half of the files compressed; and the arrays."""
    random = np.random.default_rng(0)
    arrays = {}
    for part, count in (("train", 12), ("t10k", 5)):
        arrays[part] = random.integers(0, 256, (count, SIDE, SIDE)), np.arange(count) % 10
        for kind, array in zip(("images-idx3", "labels-idx1"), arrays[part], strict=True):
            name = f"{part}-{kind}-ubyte"
            if part == "train":
                (tmp_path / name).write_bytes(idx(array))
            else:
                (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
    return tmp_path, arrays


def test_idx_files_plain_and_compressed(mnist):
    folder, arrays = mnist
    task = nr.tasks.routed_images("mnist", 3, 2, inputs="plain", outputs="plain", folder=folder)
    for test, part in ((False, "train"), (True, "t10k")):
        images, labels = arrays[part]
        np.testing.assert_allclose(task.inputs_of(1, test=test), images.reshape(len(images), -1) / 255, rtol=1e-15)
        np.testing.assert_array_equal(task.targets_of(1, test=test), labels)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda content: content[:-3], "must hold 208 bytes, as its header says; it holds 205"),
        (lambda content: content + b"x", "it holds 209"),
        (lambda content: b"\0\0\x0d\3" + content[4:], "starts with 00 00 08 03; it starts with 00 00 0d 03"),
        (
            lambda content: content[:4] + b"\xff" * 12 + content[16:],
            "4294967295 x 4294967295 x 4294967295: that cannot",
        ),
        (lambda content: b"", "it starts with nothing"),
    ],
)
def test_a_wrong_file_is_refused(mnist, damage, says):
    folder, _ = mnist
    path = folder / "train-images-idx3-ubyte"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(FileFormatError, match=says):
        nr.tasks.routed_images("mnist", 3, 2, folder=folder)


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda plain: gzip.compress(plain + bytes(10_000_000)), "80 bytes after its header; it holds more"),
        (lambda plain: gzip.compress(plain[:-1]), "80 bytes after its header; it holds 79"),
        (lambda plain: gzip.compress(plain)[:-9], "not a readable IDX file"),
        (lambda plain: plain, "not a readable IDX file"),
    ],
)
def test_a_wrong_compressed_file_is_refused(mnist, damage, says):
    folder, arrays = mnist
    path = folder / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(idx(arrays["t10k"][0])))
    with pytest.raises(FileFormatError, match=says):
        read_idx(path, 3)


def test_counts_and_labels_must_fit(mnist):
    folder, _ = mnist
    labels = folder / "train-labels-idx1-ubyte"
    labels.write_bytes(idx(np.arange(11) % 10))
    with pytest.raises(TaskError, match="one label per training image; it has 12 images and 11 labels"):
        nr.tasks.routed_images("mnist", 3, 2, folder=folder)
    labels.write_bytes(idx(np.arange(12)))
    with pytest.raises(TaskError, match="labels of mnist must be from 0 to 9; a training label is 11"):
        nr.tasks.routed_images("mnist", 3, 2, folder=folder)


def test_a_folder_without_the_files_says_what_it_holds(tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(FileFormatError, match=r"train-images-idx3-ubyte or .*\.gz; it holds notes.txt"):
        nr.tasks.routed_images("mnist", folder=tmp_path)
    with pytest.raises(FileFormatError, match="there is no folder"):
        nr.tasks.routed_images("mnist", folder=tmp_path / "none")
    with pytest.raises(UnknownNameError, match="did you mean 'mnist'"):
        nr.tasks.routed_images("minst")


def test_cifar_records(tmp_path):
    random = np.random.default_rng(0)
    rows = random.integers(0, 256, (2, 3073)).astype(np.uint8)
    rows[:, 0] = 3, 7
    for name in (*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"):
        (tmp_path / f"{name}.bin").write_bytes(rows.tobytes())
    task = nr.tasks.routed_images("cifar10", 2, 1, inputs="rotated", degrees=180, folder=tmp_path)
    assert len(task) == 10
    assert task.targets_of(0).tolist() == [3, 7] * 5
    image = rows[1, 1:].reshape(3, 32, 32)
    turned = np.stack([np.rot90(plane) for plane in image])  # 180 degrees over two domains: a quarter turn
    np.testing.assert_allclose(task.inputs_of(1, test=True)[1], turned.ravel() / 255, rtol=1e-15)
    (tmp_path / "data_batch_2.bin").write_bytes(rows[:1].tobytes())
    with pytest.raises(FileFormatError, match="as many images each; they hold 2, 1, 2, 2, 2: one was cut short"):
        nr.tasks.routed_images("cifar10", 2, 1, folder=tmp_path)
    (tmp_path / "test_batch.bin").write_bytes(rows.tobytes()[:-1])
    with pytest.raises(FileFormatError, match="records of 3073 bytes, a label and an image; it holds 6145 bytes"):
        read_cifar(tmp_path / "test_batch.bin")


def test_without_a_network_the_way_out_is_told(monkeypatch):
    def fetch(*_, **__):
        raise OSError("no route to host")

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    with pytest.raises(TaskError, match=r"could not be fetched from OpenML \(OSError: no route to host\).*folder="):
        nr.tasks.routed_images("mnist")


def test_what_openml_gives_is_split_as_published(monkeypatch):
    rows = np.random.default_rng(0).integers(0, 256, (10_003, 784)).astype(float)
    labels = (np.arange(10_003) % 10).astype(str)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *_, **__: (rows, labels))
    task = nr.tasks.routed_images("fashion", 2, 1)
    assert len(task) == 3
    np.testing.assert_allclose(task.inputs_of(0, test=True), rows[3:] / 255, rtol=1e-15)
    assert task.targets_of(0).tolist() == [0, 1, 2]


def test_arrays_of_a_file(tmp_path):
    """Images of each domain, ready made, as features of rotated images are."""
    random = np.random.default_rng(0)
    arrays = {"images": random.normal(size=(2, 6, 5)), "labels": np.arange(6) % 3}
    arrays |= {"test_images": random.normal(size=(2, 4, 5)), "test_labels": np.arange(4) % 3}
    np.savez(tmp_path / "features.npz", **arrays)
    task = nr.tasks.routed_images("arrays", 2, 1, folder=tmp_path / "features.npz")
    np.testing.assert_array_equal(task.inputs_of(1), arrays["images"][1])
    assert task.settings["inputs"] == "given"
    with pytest.raises(TaskError, match="has the images of 2 domains; 3 were asked for"):
        nr.tasks.routed_images(arrays, 3, 1)
    np.savez(tmp_path / "half.npz", images=arrays["images"])
    with pytest.raises(FileFormatError, match="labels, test_images, test_labels is missing"):
        nr.tasks.routed_images("arrays", 2, 1, folder=tmp_path / "half.npz")
    np.savez(tmp_path / "objects.npz", **arrays | {"labels": np.array([object()] * 6)})
    with pytest.raises(FileFormatError, match="of plain arrays: labels holds Python objects"):
        nr.tasks.routed_images("arrays", 2, 1, folder=tmp_path / "objects.npz")
