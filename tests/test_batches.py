"""Problems gathered from batches equal the problem of all examples."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import NeuralRaceError
from oracle import gradient, loss, random_weights

ARCHITECTURE = nr.Architecture(
    {"x": 3, "z": 2, "h": 4, "y": 2, "u": 1}, [("x", "h"), ("z", "h"), ("h", "y"), ("h", "u"), ("z", "u")]
)


def data(count: int = 400, seed: int = 0) -> nr.batches.Batch:
    random = np.random.default_rng(seed)
    inputs = {"x": random.normal(size=(count, 3)), "z": random.normal(size=(count, 2))}
    inputs["z"][random.random(count) < 0.3] = 0.0  # examples that a node does not see
    targets = {"y": random.normal(size=(count, 2)), "u": random.normal(size=(count, 1))}
    gates = {"h": random.choice([0.0, 0.5, 1.0], count)}
    return nr.batches.Batch(
        inputs, targets, gates, {("z", "u"): random.choice([0.0, 1.0], count)}, random.random(count)
    )


def whole(batch: nr.batches.Batch) -> nr.Problem:
    task = nr.Task(batch.inputs, batch.targets, batch.weights)
    return nr.Problem(ARCHITECTURE, task, nr.Gates(batch.gates, batch.edge_gates))


@pytest.mark.parametrize("rows", [7, 100, 4000])
def test_loss_gradient_and_statistics_are_those_of_all_examples(rows: int) -> None:
    batch = data()
    found, expected = nr.batches.problem(ARCHITECTURE, nr.batches.cut(*batch, rows=rows)), whole(batch)
    assert len(found.task) < 150
    weights = random_weights(ARCHITECTURE)
    assert found.loss(weights) == pytest.approx(loss(expected, weights), rel=1e-12)
    oracle = gradient(expected, weights)
    for edge, slope in found.gradient(weights).items():
        np.testing.assert_allclose(slope, oracle[edge], atol=1e-12)
    for path in expected.statistics().open_paths:
        np.testing.assert_allclose(
            found.statistics().input_output(path), expected.statistics().input_output(path), atol=1e-12
        )
    assert set(found.statistics().open_paths) == set(expected.statistics().open_paths)


def test_nearly_dependent_columns_keep_their_digits() -> None:
    random = np.random.default_rng(1)
    inputs = random.normal(size=(5000, 3))
    inputs[:, 2] = inputs[:, 1] + 1e-9 * random.normal(size=5000)
    chain = nr.Architecture({"x": 3, "y": 1}, [("x", "y")])
    found = nr.batches.problem(chain, nr.batches.cut({"x": inputs}, {"y": inputs[:, :1]}, rows=500))
    direction = np.array([[0.0, 1e6, -1e6]])
    exact = 0.5 * np.mean((inputs @ direction.T - inputs[:, :1]) ** 2)
    assert found.loss({("x", "y"): direction}) == pytest.approx(exact, rel=1e-6)


def test_memory_mapped_arrays_and_functions(tmp_path) -> None:
    batch = data()
    np.save(tmp_path / "x.npy", batch.inputs["x"])
    mapped = {"x": np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False), "z": batch.inputs["z"]}
    parts = list(nr.batches.cut(mapped, *batch[1:], rows=64))
    weights = random_weights(ARCHITECTURE)
    found = nr.batches.problem(ARCHITECTURE, [*parts[1:], parts[0]()])  # a function, or what it returns
    assert found.loss(weights) == pytest.approx(loss(whole(batch), weights), rel=1e-12)


def test_a_dask_client_reads_and_merges() -> None:
    distributed = pytest.importorskip("distributed")
    batch, weights = data(), random_weights(ARCHITECTURE)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        found = nr.batches.problem(ARCHITECTURE, nr.batches.cut(*batch, rows=20), client=client)
    assert found.loss(weights) == pytest.approx(loss(whole(batch), weights), rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b._replace(inputs={"x": b.inputs["x"]}), "batch 1: .*node 'z' has none"),
        (lambda b: b._replace(gates=None), "every batch must have the same gates"),
        (lambda b: b._replace(gates={"h": np.ones((100, 4))}), "batch 1: batches take one gate per node"),
        (lambda b: b._replace(weights=-b.weights - 1), "batch 1: weights must be 100 numbers of at least zero"),
        (lambda b: "text", "batch 1: a batch must be a Batch, or a tuple"),
    ],
)
def test_batches_that_do_not_fit_together(change, words) -> None:
    first, second, *_ = (part() for part in nr.batches.cut(*data(), rows=100))
    with pytest.raises(NeuralRaceError, match=words):
        nr.batches.problem(ARCHITECTURE, [first, change(second)])


def test_no_batch_no_weight_and_too_many_gates(monkeypatch) -> None:
    with pytest.raises(NeuralRaceError, match="at least one batch"):
        nr.batches.problem(ARCHITECTURE, [])
    with pytest.raises(NeuralRaceError, match="at least one example with weight"):
        nr.batches.problem(ARCHITECTURE, [data()._replace(weights=np.zeros(400))])
    with pytest.raises(NeuralRaceError, match="one row per example"):
        nr.batches.cut({"x": np.ones((3, 3))}, {"y": np.ones((2, 2))})
    monkeypatch.setattr(nr.batches, "FACTOR_BYTES", 1 << 13)
    ever_new = data()._replace(gates={"h": np.random.default_rng(0).normal(size=400)})
    with pytest.raises(NeuralRaceError, match="use gates that are equal for many examples"):
        nr.batches.problem(ARCHITECTURE, nr.batches.cut(*ever_new, rows=100))
