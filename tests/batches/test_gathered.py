"""A data set split in any way is the problem of the whole: loss, gradient and statistics, to rounding."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import neuralrace as nr
from neuralrace.batches import Batch, cut
from neuralrace.batches import gathered as room
from neuralrace.errors import NeuralRaceError

ARCHITECTURE = nr.Architecture(
    {"x": 3, "z": 2, "h": 4, "k": 4, "y": 2, "u": 1},
    [("x", "h"), ("z", "h"), ("z", "k"), ("h", "y"), ("k", "y"), ("k", "u")],
)
ROUNDING = 1e-12  # relative to the largest entry: sums of 400 rows, a few factors one above the other


def data(rows: int = 400) -> Batch:
    """Gates of two and three values, inputs silent now and then, nearly dependent columns, weights with zeros."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(rows, 3)), rng.normal(size=(rows, 2))
    x[:, 2] = x[:, 0] + 1e-7 * x[:, 2]
    z[rng.random(rows) < 0.3] = 0.0
    targets = {"y": x[:, :2] + z, "u": rng.normal(size=(rows, 1))}
    gates = {"h": rng.integers(0, 2, rows).astype(float)}
    edge_gates = {("z", "k"): rng.choice([0.0, 0.5, 1.0], rows)}
    return Batch({"x": x, "z": z}, targets, gates, edge_gates, rng.integers(0, 3, rows) / 2)


def pieces(whole: Batch, places) -> list[Batch]:
    """The batch in parts; places: index arrays."""
    parts = [[{n: a[rows] for n, a in part.items()} for part in whole[:4]] for rows in places]
    return [Batch(*part, whole.weights[rows]) for part, rows in zip(parts, places, strict=True)]


@pytest.fixture(scope="module")
def whole():
    """The problem of all examples, made without batches."""
    batch = data()
    task = nr.Task(batch.inputs, batch.targets, batch.weights)
    return nr.Problem(ARCHITECTURE, task, nr.Gates(batch.gates, batch.edge_gates))


def close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=ROUNDING * max(np.abs(expected).max(), 1e-300))


def assert_equal_problems(found: nr.Problem, expected: nr.Problem) -> None:
    weights = nr.initial.gaussian(0.7)(expected, 1)
    mine, theirs = found.statistics(), expected.statistics()
    close(mine.loss(weights), theirs.loss(weights))
    for edge, slope in theirs.gradient(weights).items():
        close(mine.gradient(weights)[edge], slope)
    # configuration by configuration, in whatever order
    assert sorted(zip(*mine.edge_gates.values(), strict=True)) == sorted(zip(*theirs.edge_gates.values(), strict=True))
    for one in ARCHITECTURE.paths():
        close(mine.input_output(one), theirs.input_output(one))
        for two in ARCHITECTURE.paths():
            close(mine.input(one, two), theirs.input(one, two))
    # and the few examples themselves, which training sees
    again = nr.PathStatistics.of_examples(ARCHITECTURE, found.task, found.gates)
    close(again.loss(weights), theirs.loss(weights))
    for edge, slope in theirs.gradient(weights).items():
        close(again.gradient(weights)[edge], slope)


@given(st.randoms(use_true_random=False), st.integers(1, 12))
def test_any_split_in_any_order_is_the_whole(whole, random, parts):
    order = list(range(400))
    random.shuffle(order)
    ends = sorted(random.sample(range(1, 400), parts - 1))
    places = np.split(np.array(order), ends)
    found = nr.batches.problem(ARCHITECTURE, iter(pieces(data(), places)))
    assert len(found.task) < 130
    assert_equal_problems(found, whole)


def test_a_factor_keeps_what_moments_lose(whole):
    """Columns that agree to 1e-7: their difference has a variance of 1e-14, which a moment holds to one digit."""
    found = nr.batches.problem(ARCHITECTURE, cut(*data(), rows=37))
    direction = np.array([1.0, 0.0, -1.0])
    x, weights = data().inputs["x"], data().weights / data().weights.sum()
    exact = float(weights @ (x @ direction) ** 2)
    kept = float(found.task.weights @ (found.task.inputs["x"] @ direction) ** 2)
    assert abs(kept - exact) < 1e-8 * exact
    moment = (x * weights[:, None]).T @ x
    assert abs(direction @ moment @ direction - exact) > 1e-4 * exact


def test_training_and_forecast_of_the_few_are_those_of_all(whole):
    found = nr.batches.problem(ARCHITECTURE, cut(*data(), rows=50))
    first = nr.initial.gaussian(0.3)(whole, 0)
    one, two = (nr.train(each, first, 0.1, 20, progress=False).loss for each in (found, whole))
    np.testing.assert_allclose(one, two, rtol=1e-11)
    one, two = (nr.predict(each, first, [0.0, 1.0, 2.0], method="flow").loss for each in (found, whole))
    np.testing.assert_allclose(one, two, rtol=1e-6)  # the integrator's own accuracy


def test_large_batches_are_factored_in_blocks():
    rows = np.random.default_rng(0).normal(size=(5 * room.BLOCK + 7, 3))
    triangle = room.factored(rows)
    assert triangle.shape == (3, 3)
    close(triangle.T @ triangle, rows.T @ rows)


def test_gates_that_differ_for_every_example_are_refused(monkeypatch):
    monkeypatch.setattr(room, "FACTOR_BYTES", 1 << 13)
    batch = data()
    ever_new = batch._replace(gates={"h": np.random.default_rng(0).normal(size=400)})
    with pytest.raises(NeuralRaceError, match=r"different sets of gates, which take .* bytes of at most 8,192"):
        nr.batches.problem(ARCHITECTURE, cut(*ever_new, rows=100))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda b: b._replace(inputs={"x": b.inputs["x"]}), "batch 1: .*node 'z' has none"),
        (lambda b: b._replace(inputs={**b.inputs, "x": b.inputs["x"][:, :2]}), "batch 1: node 'x' has size 3"),
        (lambda b: b._replace(inputs={**b.inputs, "x": b.inputs["x"][:5]}), "batch 1: every array must hold the same"),
        (lambda b: b._replace(gates=None), "every batch must have the same gates"),
        (lambda b: b._replace(gates={"h": b.gates["h"][:3]}), "batch 1: the gate of node 'h' must have one value per"),
        (lambda b: b._replace(gates={"h": np.ones((100, 4))}), "batch 1: batches go with one gate per node"),
        (lambda b: b._replace(weights=-b.weights - 1), "batch 1: weights must be 100 numbers that are not negative"),
        (lambda b: b._replace(targets={**b.targets, "u": np.full((100, 1), np.nan)}), "batch 1: targets.'u'. must be"),
        (
            lambda b: "text",
            "batch 1: a batch must be a Batch, or a tuple .inputs, targets, gates, edge_gates, weights.",
        ),
    ],
)
def test_batches_that_do_not_fit_together(change, words):
    first, second, *_ = pieces(data(), np.split(np.arange(400), 4))
    with pytest.raises(NeuralRaceError, match=words):
        nr.batches.problem(ARCHITECTURE, [first, change(second)])


def test_no_batch_and_no_weight():
    with pytest.raises(NeuralRaceError, match="batches must be an Iterable; it was 3"):
        nr.batches.problem(ARCHITECTURE, 3)
    with pytest.raises(NeuralRaceError, match="at least one batch; there was none"):
        nr.batches.problem(ARCHITECTURE, [])
    with pytest.raises(NeuralRaceError, match="at least one example with weight"):
        nr.batches.problem(ARCHITECTURE, [data()._replace(weights=np.zeros(400))])
