import numpy as np
import pytest

from neuralrace import tasks
from neuralrace.errors import RangeError
from neuralrace.tasks.named.contextual import property_block
from neuralrace.tasks.named.items import hierarchy_block

NAMES = ("common + all-but-one", "common + single", "common + all-but-one + single")


def test_ring_is_the_published_matrix():
    ring = property_block("ring", 8)
    assert ring.shape == (15, 8)
    np.testing.assert_array_equal(ring[0], np.ones(8))
    np.testing.assert_array_equal(ring[1], [0, 0.33, 0.66, 1, 1, 0.66, 0.33, 0])
    np.testing.assert_array_equal(ring[2], [0.33, 0.66, 1, 1, 0.66, 0.33, 0, 0])
    np.testing.assert_array_equal(ring[3], [0.66, 1, 1, 0.66, 0.33, 0, 0, 0.33])
    np.testing.assert_array_equal(ring[8], [0, 0, 0.33, 0.66, 1, 1, 0.66, 0.33])
    np.testing.assert_array_equal(ring[9:], ring[1:7])


def test_cross_is_the_published_matrix():
    cross, hierarchy = property_block("cross", 8), hierarchy_block(8)
    pairs = ["10100000", "01010000", "00001010", "00000101"]
    np.testing.assert_array_equal(cross[3:7], [[int(c) for c in row] for row in pairs])
    kept = [0, 1, 2, *range(7, 15)]
    np.testing.assert_array_equal(cross[kept], hierarchy[kept])


@pytest.mark.parametrize("contexts", [2, 5])
def test_inputs_are_a_one_hot_item_and_a_one_hot_context(contexts):
    named = tasks.contextual(contexts)
    rows = named.task.inputs["x"]
    assert rows.shape == (8 * contexts, 8 + contexts)
    np.testing.assert_array_equal(rows[:, :8].argmax(axis=1), named.groups["item"])
    np.testing.assert_array_equal(rows[:, 8:].argmax(axis=1), named.groups["context"])
    assert len(np.unique(rows, axis=0)) == len(rows)
    np.testing.assert_array_equal(rows[:, :8].sum(axis=1), 1)
    np.testing.assert_array_equal(rows[:, 8:].sum(axis=1), 1)


@pytest.mark.parametrize("structure", ["hierarchy", "mixed"])
@pytest.mark.parametrize("contexts", [3, 4])
def test_blocks_of_targets_show_in_their_contexts(contexts, structure):
    named = tasks.contextual(contexts, structure)
    blocks = {"hierarchy": ["hierarchy"] * contexts, "mixed": ["hierarchy", "ring", "cross"] * 2}
    targets = named.task.targets["y"]
    assert targets.shape == (8 * contexts, 15 * (contexts + 1))
    for context in range(contexts):
        here = targets[named.groups["context"] == context].T.reshape(contexts + 1, 15, 8)
        np.testing.assert_array_equal(here[0], hierarchy_block(8))
        for block in range(contexts):
            expected = property_block(blocks[structure][block], 8) if block == context else np.zeros((15, 8))
            np.testing.assert_array_equal(here[block + 1], expected)


@pytest.mark.parametrize("suffix", ["", ", items only"])
@pytest.mark.parametrize("contexts", [3, 5])
def test_modules_are_as_many_as_in_p2(contexts, suffix):
    named = tasks.contextual(contexts)
    counts = [len(named.problem(name + suffix).architecture.hidden) for name in NAMES]
    assert counts == [1 + contexts, 1 + contexts, 1 + 2 * contexts]
    paths = [named.problem(name + suffix).architecture.count_paths() for name in NAMES]
    assert paths == counts  # one path per module


@pytest.mark.parametrize("contexts", [3, 4, 5])
def test_items_only_pathways_see_the_items_alone(contexts):
    named = tasks.contextual(contexts)
    problem = named.problem("common + all-but-one, items only", hidden=5)
    sources = {target: source for source, target in problem.architecture.edges if target != "y"}
    assert sources.pop("common") == "x"
    assert set(sources.values()) == {"item"}
    stats = problem.statistics()
    first, second = [path for path in problem.architecture.paths() if path.source == "item"][:2]
    # P2 appendices F and G: one half, two thirds, three quarters
    overlap = (contexts - 2) / (contexts - 1)
    own = stats.input(first, first)
    np.testing.assert_allclose(own, np.eye(8) * (contexts - 1) / (8 * contexts), rtol=1e-14)
    np.testing.assert_allclose(stats.input(first, second), overlap * own, rtol=1e-14, atol=1e-17)


def test_items_only_is_the_network_whose_context_weights_are_zero():
    named = tasks.contextual(3, "mixed")
    joint, apart = (named.problem(f"common + all-but-one{s}", hidden=4) for s in ("", ", items only"))
    random = np.random.default_rng(0)
    weights = {edge: random.normal(size=apart.architecture.shape(edge)) for edge in apart.architecture.edges}
    padded = {}
    for (source, target), matrix in weights.items():
        wide = np.hstack([matrix, np.zeros((4, 3))]) if source == "item" else matrix
        padded["x" if source == "item" else source, target] = wide
    np.testing.assert_allclose(joint.forward(padded)["y"], apart.forward(weights)["y"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"contexts": 1}, "contexts must be a whole number, at least 2; it was 1"),
        ({"items": 6}, "items must be a power of two.*it was 6"),
        ({"items": 4096}, "items must be at most 2,048; it was 4,096"),
        ({"items": 16, "structure": "mixed"}, "structure 'mixed' is defined for 8 items; items was 16"),
    ],
)
def test_settings_out_of_range(settings, words):
    with pytest.raises(RangeError, match=words):
        tasks.contextual(**settings)
