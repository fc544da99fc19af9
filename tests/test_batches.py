"""Problems gathered block by block equal the problem of all examples."""

from pathlib import Path
from typing import Any

import dask.array
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.errors import NeuralRaceError
from oracle import gradient, loss, random_weights

ARCHITECTURE = nr.Architecture(
    {"x": 3, "z": 2, "h": 4, "y": 2, "u": 1}, [("x", "h"), ("z", "h"), ("h", "y"), ("h", "u"), ("z", "u")]
)


def data(count: int = 400) -> dict[str, Any]:
    random = np.random.default_rng(0)
    inputs = {"x": random.normal(size=(count, 3)), "z": random.normal(size=(count, 2))}
    inputs["z"][random.random(count) < 0.3] = 0.0  # examples that a node does not see
    targets = {"y": random.normal(size=(count, 2)), "u": random.normal(size=(count, 1))}
    gates = {"h": random.choice([0.0, 0.5, 1.0], count), ("z", "u"): random.choice([0.0, 1.0], count)}
    return {"inputs": inputs, "targets": targets, "gates": gates, "weights": random.random(count)}


def whole(inputs: Any, targets: Any, gates: Any, weights: Any) -> nr.Problem:
    edges = {("z", "u"): gates["z", "u"]}
    return nr.Problem(ARCHITECTURE, nr.Task(inputs, targets, weights), nr.Gates({"h": gates["h"]}, edges))


@pytest.mark.parametrize("rows", [7, 4000])
def test_loss_gradient_and_statistics_are_those_of_all_examples(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nr.batches, "BLOCK", rows)
    found, expected = nr.batches.problem(ARCHITECTURE, **data()), whole(**data())
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


def test_nearly_dependent_columns_keep_their_digits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nr.batches, "BLOCK", 500)
    random = np.random.default_rng(1)
    inputs = random.normal(size=(5000, 3))
    inputs[:, 2] = inputs[:, 1] + 1e-9 * random.normal(size=5000)
    chain = nr.Architecture({"x": 3, "y": 1}, [("x", "y")])
    found = nr.batches.problem(chain, {"x": inputs}, {"y": inputs[:, :1]})
    direction = np.array([[0.0, 1e6, -1e6]])
    exact = 0.5 * np.mean((inputs @ direction.T - inputs[:, :1]) ** 2)
    assert found.loss({("x", "y"): direction}) == pytest.approx(exact, rel=1e-6)


def test_arrays_on_disk_and_dask_arrays_on_a_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    batch, weights = data(), random_weights(ARCHITECTURE)
    expected = loss(whole(**batch), weights)
    np.save(tmp_path / "x.npy", batch["inputs"]["x"])
    batch["inputs"]["x"] = np.load(tmp_path / "x.npy", mmap_mode="r", allow_pickle=False)
    batch["targets"]["y"] = dask.array.from_array(batch["targets"]["y"], chunks=(64, 1))
    assert nr.batches.problem(ARCHITECTURE, **batch).loss(weights) == pytest.approx(expected, rel=1e-12)
    with distributed.Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=None):
        assert nr.batches.problem(ARCHITECTURE, **batch).loss(weights) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"inputs": {"x": np.ones((400, 3))}}, "node 'z' has none"),
        ({"inputs": 5}, "inputs must be a Mapping"),
        ({"gates": {"h": np.ones((400, 4))}}, "one gate per node is required"),
        ({"weights": -np.ones(400)}, "no weight negative"),
        ({"weights": np.zeros(400)}, "at least one example with weight"),
        ({"gates": {"h": np.random.default_rng(0).normal(size=400)}}, "use gates that are equal for many examples"),
    ],
)
def test_data_that_do_not_serve(change: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nr.batches, "FACTOR_BYTES", 1 << 13)
    monkeypatch.setattr(nr.batches, "BLOCK", 100)
    with pytest.raises(NeuralRaceError, match=words):
        nr.batches.problem(ARCHITECTURE, **data() | change)
