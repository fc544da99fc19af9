"""A routed network is the gated network that its definition says, permutations are a gauge, and axes are mapped."""

import jax
import numpy as np
import pytest
from scipy.special import logsumexp, softmax

import neuralrace as nr
from neuralrace._engine.network import as_numpy
from neuralrace.errors import ProblemError, UnknownNameError
from neuralrace.objectives import as_objective
from neuralrace.training import Condition, train_together
from neuralrace.training.routed import make_routed_learner
from neuralrace.training.rules import Momentum
from oracle import random_weights

M, HIDDEN, PIXELS, CLASSES, COUNT = 3, 5, 9, 4, 7


def small_arrays(seed=0, count=COUNT):
    random = np.random.default_rng(seed)
    images, tests = random.uniform(size=(count, PIXELS)), random.uniform(size=(5, PIXELS))
    labels = np.arange(count) % CLASSES
    return {"images": images, "labels": labels, "test_images": tests, "test_labels": np.arange(5) % CLASSES}


def small_task(trained=2, inputs="rotated", **arrays):
    pictures = {name: a.reshape(-1, 3, 3) if "images" in name else a for name, a in (small_arrays() | arrays).items()}
    return nr.tasks.routed_images(pictures, M, trained, inputs, pairs="circulant")


def gated_problem(network):
    """The same network as the definition has it: one example for each trained pair and image, gates on every edge."""
    task, architecture = network.task, network.architecture
    sources, sinks = np.nonzero(task.pairs)
    source, sink = np.repeat(sources, COUNT), np.repeat(sinks, COUNT)
    inputs = {f"x{i}": np.tile(task.inputs_of(i), (len(sources), 1)) for i in range(M)}
    plain = np.eye(CLASSES)[np.tile(task.labels, len(sources))]
    targets = {f"y{j}": np.where((sink == j)[:, None], plain, 0.0) for j in range(M)}
    gates = {f"x{i}->h1": source == i for i in range(M)} | {f"bias->h1 of x{i}": source == i for i in range(M)}
    gates |= {f"h2->y{j}": sink == j for j in range(M)} | {f"bias->y{j}": sink == j for j in range(M)}
    inputs["bias"] = np.ones((len(source), 1))
    return nr.Problem(architecture, nr.Task(inputs, targets), nr.Gates(edges=gates), network.activations, biases=True)


@pytest.mark.parametrize("activation", [None, nr.leaky_relu(0.01)])
def test_loss_and_gradient_are_those_of_the_gated_network(activation):
    network = nr.RoutedNetwork(small_task(), HIDDEN, activation)
    problem, weights = gated_problem(network), random_weights(network.architecture)
    with jax.enable_x64(True):
        learner = make_routed_learner(network, as_objective("squared"), batches=False)
        loss, gradient = jax.jit(lambda at: learner.loss_and_gradient(at))(learner.pack(weights))
        found = learner.unpack(as_numpy(gradient))
        assert float(loss) == pytest.approx(problem.loss(weights), rel=1e-12)
        for edge, wanted in problem.gradient(weights).items():
            np.testing.assert_allclose(found[edge], wanted, atol=1e-12, err_msg=edge)


def by_hand(weights, images, labels, pairs):
    """The cross-entropy and its slope, pair by pair; images: for each input domain, labels for each output domain."""
    total, slope = 0.0, {edge: np.zeros_like(matrix) for edge, matrix in weights.items()}
    for i, j in np.argwhere(pairs):
        layers = [(f"x{i}->h1", f"bias->h1 of x{i}"), ("h1->h2", "bias->h2"), (f"h2->y{j}", f"bias->y{j}")]
        activity = [images[i]]
        for edge, bias in layers:
            activity.append(activity[-1] @ weights[edge].T + weights[bias][:, 0])
        *entering, out = activity
        wanted = np.eye(out.shape[1])[labels[j]]
        total += np.mean(logsumexp(out, axis=1) - (out * wanted).sum(axis=1)) / pairs.sum()
        back = (softmax(out, axis=1) - wanted) / len(out) / pairs.sum()
        for (edge, bias), rows in zip(layers[::-1], entering[::-1], strict=True):
            slope[edge] += back.T @ rows
            slope[bias] += back.sum(axis=0)[:, None]
            back = back @ weights[edge]
    return total, slope


def test_permutations_are_a_gauge():
    """Permuted images, permuted by hand and descended by hand, against the package, which trains on plain images."""
    arrays = small_arrays()
    task = nr.tasks.routed_images(arrays, M, 2)
    network = nr.RoutedNetwork(task, HIDDEN)
    random, plain = np.random.default_rng(5), random_weights(network.architecture)
    pixels, names = ([random.permutation(size) for _ in range(M)] for size in (PIXELS, CLASSES))
    # the encoder of a permuted domain has its columns in the order of the pixels, a decoder its rows in that of labels
    carried = dict(plain)
    for i in range(M):
        carried[f"x{i}->h1"] = plain[f"x{i}->h1"][:, pixels[i]]
        for edge in (f"h2->y{i}", f"bias->y{i}"):
            carried[edge] = plain[edge][np.argsort(names[i])]
    rate, steps = 0.3, 25
    run = nr.train(network, plain, rate, steps, loss="cross-entropy", progress=False)
    images = [arrays["images"][:, order] for order in pixels]
    labels = [order[arrays["labels"]] for order in names]
    np.testing.assert_array_equal(task.inputs_of(2), arrays["images"])
    losses, weights = [], carried
    for _ in range(steps + 1):
        loss, slope = by_hand(weights, images, labels, task.pairs)
        losses.append(loss)
        weights = {edge: weights[edge] - rate * slope[edge] for edge in weights}
    assert losses[-1] < 0.8 * losses[0]
    np.testing.assert_allclose(run.loss[0], losses, rtol=1e-11)  # rounding, grown over 25 steps


def test_images_of_each_domain_may_be_given():
    rotated = small_task()
    given = small_arrays() | {
        "images": np.stack([rotated.inputs_of(i) for i in range(M)]),
        "test_images": np.stack([rotated.inputs_of(i, test=True) for i in range(M)]),
    }
    runs = []
    for task in (rotated, nr.tasks.routed_images(given, M, 2, "given")):
        network = nr.RoutedNetwork(task, HIDDEN, biases=False)
        weights = random_weights(network.architecture)
        runs.append(nr.train(network, weights, 0.1, 5, evaluate={"test": task.test}, progress=False))
    np.testing.assert_allclose(runs[0].loss, runs[1].loss, rtol=1e-13)
    np.testing.assert_array_equal(*(run.evaluated["test"]["accuracy"] for run in runs))


def test_errors_are_counted_pair_by_pair():
    task = small_task()
    network = nr.RoutedNetwork(task, HIDDEN)
    weights = random_weights(network.architecture)
    others = {"trained": task.test, "untrained": task.test.with_pairs(~task.pairs), "seen": task}
    run = nr.train(network, weights, 0.1, 0, evaluate=others, progress=False)
    assert run.evaluated["seen"]["loss"].item() == pytest.approx(run.loss[0, 0], rel=1e-12)
    wrong = np.zeros((M, M))
    for i in range(M):
        near = task.inputs_of(i, test=True) @ weights[f"x{i}->h1"].T + weights[f"bias->h1 of x{i}"][:, 0]
        far = near @ weights["h1->h2"].T + weights["bias->h2"][:, 0]
        for j in range(M):
            out = far @ weights[f"h2->y{j}"].T + weights[f"bias->y{j}"][:, 0]
            wrong[i, j] = np.mean(out.argmax(axis=1) != task.test_labels)
    assert 0 < wrong.mean() < 1
    for kind, asked in (("trained", task.pairs), ("untrained", ~task.pairs)):
        assert 1 - run.evaluated[kind]["accuracy"].item() == pytest.approx(wrong[asked].mean(), rel=1e-12)


@pytest.fixture(scope="module")
def together():
    """Three numbers of trained pairs and two gains, as one program; and one of the conditions alone."""
    network = nr.RoutedNetwork(small_task(), HIDDEN, nr.leaky_relu(0.01))

    def condition(trained, gain):
        chosen = network.with_pairs(small_task(trained).pairs)
        rule = Momentum(np.asarray(0.05), np.asarray(0.9))
        other = {"untrained": chosen.task.test.with_pairs(~chosen.task.pairs)}
        how = {"batch_size": 4, "drawn": True, "evaluate": other}
        return Condition(chosen, nr.initial.xavier(gain), rule, 0.5, "cross-entropy", **how)

    conditions = [condition(*one) for one in ((1, 1.0), (2, 1.0), (3, 0.1))]
    options = {"seeds": 2, "key": 3, "at": [0, 6, 12], "progress": False}
    runs = {p: train_together(conditions, 12, precision=p, **options) for p in ("double", "single")}
    return runs, train_together(conditions[1:2], 12, **options)[0]


def test_pairs_and_gains_are_mapped_axes(together):
    runs, alone = together
    np.testing.assert_allclose(runs["double"][1].loss, alone.loss, rtol=1e-12)
    errors = [run.evaluated["untrained"]["accuracy"] for run in (*runs["double"], alone)]
    np.testing.assert_array_equal(errors[1], errors[3])
    assert np.isnan(errors[2]).all()  # K = M leaves none


def test_single_precision_is_the_same_to_its_rounding(together):
    runs, _ = together
    for single, double in zip(runs["single"], runs["double"], strict=True):
        assert single.loss.dtype == np.float32
        assert single.settings["precision"] == "single"
        np.testing.assert_allclose(single.loss, double.loss, rtol=1e-5)


def test_what_does_not_fit_is_refused():
    network = nr.RoutedNetwork(small_task(), HIDDEN)
    law = nr.initial.xavier()
    with pytest.raises(ProblemError, match="no outputs to record; record can hold loss, weights"):
        nr.train(network, law, 0.1, 1, record="outputs")
    with pytest.raises(ProblemError, match=r"'test'.* must be a RoutedImages"):
        nr.train(network, law, 0.1, 1, evaluate={"test": nr.tasks.xor().task})
    with pytest.raises(ProblemError, match="at least one pair of domains"):
        nr.train(network.with_pairs(np.zeros((M, M), bool)), law, 0.1, 1)
    with pytest.raises(ProblemError, match="coupling='joint'"):
        nr.train(network, law, 0.1, 1, coupling="residual")
    with pytest.raises(UnknownNameError, match="precision must be one of double, single; it was 'half'"):
        nr.train(network, law, 0.1, 1, precision="half")
    with pytest.raises(ProblemError, match=r"tasks.routed_images\(...\); it was int"):
        nr.RoutedNetwork(3)
