"""Domains of images: what they are, which pairs are trained, and that nothing is made before it is asked for."""

import itertools
import tracemalloc

import numpy as np
import pytest
import scipy.ndimage

import neuralrace as nr
from neuralrace.errors import FileFormatError, RangeError, TaskError, UnknownNameError
from neuralrace.tasks.images.routed import rotations


def test_digits_are_the_default():
    task = nr.tasks.routed_images()
    assert repr(task) == (
        "RoutedImages(digits: 1437 training and 360 test images of 64 numbers, 10 x 10 domains, inputs permuted, "
        "outputs permuted, 40 of 100 pairs trained)"
    )
    assert task.inputs_of(3).max() == 1
    assert (task.pairs.sum(axis=0) == 4).all()
    assert (task.pairs.sum(axis=1) == 4).all()
    np.testing.assert_array_equal(task.untrained, ~task.pairs)
    held = {row.tobytes() for row in task.base.test_images}
    assert sum(row.tobytes() in held for row in task.base.images) < 5  # hardly any digit is there twice


def test_permuted_domains_hold_the_same_pixels_and_the_first_orders_of_labels():
    task = nr.tasks.routed_images(domains=4, trained=2)
    plain = nr.tasks.routed_images(domains=4, trained=2, inputs="plain", outputs="plain")
    orders = list(itertools.islice(itertools.permutations(range(10)), 4))
    for domain in range(4):
        np.testing.assert_array_equal(np.sort(task.inputs_of(domain)), np.sort(plain.inputs_of(domain)))
        np.testing.assert_array_equal(task.targets_of(domain), np.array(orders[domain])[plain.targets_of(0)])
    assert not np.array_equal(task.inputs_of(1), task.inputs_of(2))
    assert task.shown is None  # a gauge: training sees plain images


def test_rotations_turn_and_forget_what_leaves_the_image():
    image = np.arange(1.0, 26).reshape(5, 5)
    padded = np.append(image.ravel(), 0.0)
    maps = rotations((1, 5, 5), 8, 360)
    for domain in range(0, 8, 2):
        np.testing.assert_array_equal(padded[maps[domain]].reshape(5, 5), np.rot90(image, domain // 2))
    turned = padded[maps[1]].reshape(5, 5)  # by 45 degrees the corners come from outside
    assert [turned[0, 0], turned[0, 4], turned[4, 0], turned[4, 4]] == [0, 0, 0, 0]
    assert turned[2, 2] == image[2, 2]
    assert turned[0, 2] == image[1, 3]  # two pixels from the middle towards the upper right, rounded


def test_a_rotation_takes_the_nearest_pixel():
    image = np.arange(1.0, 32 * 32 + 1).reshape(32, 32)
    turned = np.append(image.ravel(), 0.0)[rotations((1, 32, 32), 10, 270)[1]].reshape(32, 32)
    oracle = scipy.ndimage.rotate(image, 27, reshape=False, order=0)
    known = oracle > 0  # scipy stops at the centers of the outermost pixels, half a pixel earlier
    assert known.mean() > 0.7
    np.testing.assert_array_equal(turned[known], oracle[known])


def test_domains_are_made_when_they_are_asked_for():
    """A hundred domains of 2,000 images with 784 pixels would be 1.2 GB of numbers."""
    arrays = {"images": np.zeros((2000, 28, 28), np.uint8), "labels": np.arange(2000) % 10}
    arrays |= {"test_images": np.zeros((10, 28, 28), np.uint8), "test_labels": np.arange(10)}
    tracemalloc.start()
    for inputs in ("permuted", "rotated"):
        nr.tasks.routed_images(arrays, 100, 40, inputs)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20e6  # two index maps, and what it takes to make them


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"domains": 1, "trained": 1}, RangeError, "domains must be a whole number, at least 2; it was 1"),
        ({"domains": 3}, RangeError, "trained must be at most the number of domains, 3; it was 4"),
        ({"trained": 0}, RangeError, "trained must be a whole number, at least 1; it was 0"),
        ({"inputs": "rotatd"}, UnknownNameError, "did you mean 'rotated'"),
        ({"outputs": "rotated"}, UnknownNameError, "outputs must be one of permuted, plain"),
        ({"pairs": "circular"}, UnknownNameError, "circular"),
        ({"pairs": np.zeros((10, 10), bool)}, TaskError, "at least one pair must be trained"),
        ({"pairs": np.ones((3, 3), bool)}, TaskError, r"booleans \(10, 10\); they are bool \(3, 3\)"),
        (
            {"data": np.zeros((4, 3))},
            TaskError,
            "a mapping with images, labels, test_images",
        ),
        ({"folder": "images"}, TaskError, "read from no folder"),
        ({"data": "mnist", "folder": 3}, FileFormatError, "folder must be the name of a folder; it was 3"),
        ({"degrees": 0}, RangeError, "degrees must be a finite number, above 0"),
    ],
)
def test_what_cannot_be_is_refused(settings, error, says):
    with pytest.raises(error, match=says):
        nr.tasks.routed_images(**settings)


def test_arrays_that_do_not_fit_are_refused():
    arrays = {"images": np.ones((4, 5)), "labels": np.arange(4), "test_images": np.ones((2, 5))}
    with pytest.raises(TaskError, match="test_labels is missing"):
        nr.tasks.routed_images(arrays)
    arrays["test_labels"] = np.arange(2)
    with pytest.raises(TaskError, match=r"rotation needs images.*the given arrays are \(5,\)"):
        nr.tasks.routed_images(arrays, 3, 1, "rotated")
    with pytest.raises(TaskError, match="must be finite"):
        nr.tasks.routed_images(arrays | {"images": np.full((4, 5), np.nan)})
    with pytest.raises(TaskError, match="one whole number per image"):
        nr.tasks.routed_images(arrays | {"labels": np.linspace(0, 1, 4)})
    with pytest.raises(RangeError, match=r"2 classes have 2 permutations; 3 domains were asked for"):
        nr.tasks.routed_images(arrays | {"labels": np.arange(4) % 2}, 3, 1)
