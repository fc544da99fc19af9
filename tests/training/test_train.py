"""Seeds, repetition, chunks, divergence: what holds whatever is trained."""

import jax
import numpy as np
import pytest
import xarray

import neuralrace as nr
import oracle
from neuralrace.errors import ProblemError, RangeError, TaskError, UnknownNameError, WeightError
from neuralrace.training import loop, train

ROUNDING = 1e-12  # some sixty steps whose sums may be taken in another order
INITIAL = nr.initial.gaussian(0.5)


def networks():
    return {
        "gated": nr.tasks.xor(0.5).problem("linear", hidden=3),
        "relu": nr.ReLUNetwork(nr.tasks.xor(0.5).task, 4),
    }


def test_a_seed_is_the_same_however_many_others_there_are():
    network = networks()["gated"]
    ten, three = (nr.train(network, INITIAL, 0.1, 60, seeds=count, key=4) for count in (10, 3))
    # batched products of another size may be summed in another order
    np.testing.assert_allclose(ten.loss[:3], three.loss, rtol=ROUNDING)
    for seed in range(3):
        oracle.assert_weights_close(ten.weights(seed), three.weights(seed), ROUNDING)
        start = INITIAL(network, jax.random.fold_in(jax.random.key(4), seed))
        assert three.loss[seed, 0] == pytest.approx(network.loss(start), rel=ROUNDING)
    assert len(set(ten.loss[:, 0])) == 10


def test_the_same_key_gives_the_same_bits():
    network = networks()["relu"]
    options = {"seeds": 4, "record": ("weights", "weight_singular_values"), "batch_size": 2}
    one, two = (nr.train(network, INITIAL, 0.1, 60, key=key, **options) for key in (3, jax.random.key(3)))
    xarray.testing.assert_equal(one.data, two.data)
    other = nr.train(network, INITIAL, 0.1, 60, key=4, **options)
    assert (one.loss != other.loss).all()


@pytest.mark.parametrize("name", ["gated", "relu"])
def test_chunks_of_time_and_of_seeds_change_nothing(monkeypatch, name):
    network = networks()[name]
    options = {"seeds": 5, "record": ("weights", "outputs"), "every": 3}
    whole = nr.train(network, INITIAL, 0.1, 60, **options)
    monkeypatch.setattr(loop, "CHUNK_BYTES", 1)
    looks = nr.train(network, INITIAL, 0.1, 60, **options)
    monkeypatch.setattr(loop, "SEED_BYTES", 1)
    both = nr.train(network, INITIAL, 0.1, 60, **options)
    # other programs for the same steps: some roundings more than between seeds
    for parts in (looks, both):
        assert parts.data.sizes == whole.data.sizes
        for variable in whole.data.data_vars:
            np.testing.assert_allclose(
                parts.data[variable], whole.data[variable], rtol=1e-11, atol=ROUNDING, err_msg=variable
            )


class OneTooLarge:
    """Ordinary weights, except for one seed, whose weights make the step unstable."""

    def __init__(self, key, seed, size=1e4):
        self.bad = jax.random.key_data(jax.random.fold_in(jax.random.key(key), seed)).tolist()
        self.size = size

    def __call__(self, network, key):
        scale = self.size if jax.random.key_data(key).tolist() == self.bad else 0.5
        return nr.initial.gaussian(scale)(network, key)


@pytest.mark.parametrize(("name", "one_by_one"), [("gated", True), ("relu", False)])
def test_one_bad_seed_does_not_kill_the_others(monkeypatch, name, one_by_one):
    """Side by side, and in groups of one, where the run of the bad seed stops early."""
    network = networks()[name]
    good = nr.train(network, INITIAL, 0.1, 120, seeds=3, key=2)
    if one_by_one:
        monkeypatch.setattr(loop, "SEED_BYTES", 1)
    run = nr.train(network, OneTooLarge(2, 1), 0.1, 120, seeds=3, key=2, record="weight_singular_values")
    assert run.status[1] == "diverged"
    assert not np.isfinite(run.loss[1, -1])
    assert run.loss.shape == (3, 121)
    for seed in (0, 2):  # twice as many steps as above, and another program
        assert run.status[seed] == good.status[seed] != "diverged"
        np.testing.assert_allclose(run.loss[seed], good.loss[seed], rtol=1e-11)
        oracle.assert_weights_close(run.weights(seed), good.weights(seed), 1e-11)
    values = run.values("weight_singular_values[" + ("x->positive]" if name == "gated" else "x->h1]"))
    assert np.isnan(values[1, -1]).all()
    assert np.isfinite(values[[0, 2]]).all()


def test_when_every_seed_diverges_training_stops_and_says_so():
    network = networks()["gated"]
    run = nr.train(network, nr.initial.gaussian(1e4), 0.1, 100_000, seeds=2, every=1000)
    assert run.status.tolist() == ["diverged", "diverged"]
    assert run.loss.shape == (2, 101)
    assert np.isnan(run.loss[:, -1]).all()
    assert np.isfinite(run.loss[:, 0]).all()


def test_status_tells_settled_from_running():
    problem = nr.Problem(nr.Architecture({"x": 1, "y": 1}, [("x", "y")]), nr.Task({"x": [[1.0]]}, {"y": [[1.0]]}))
    start = {("x", "y"): [[0.0]]}
    assert nr.train(problem, start, 0.1, 500).status.tolist() == ["converged"]
    assert nr.train(problem, start, 0.001, 500).status.tolist() == ["running"]
    assert nr.train(problem, {("x", "y"): [[1.0]]}, 0.1, 500).status.tolist() == ["running"]


# bad input

PROBLEM = nr.tasks.xor().problem("xor", hidden=2)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"learning_rate": 0}, RangeError, "learning_rate must be a finite number, above 0; it was 0"),
        ({"learning_rate": None}, RangeError, "learning_rate is required: give learning_rate=..., or an optax"),
        ({"steps": -1}, RangeError, "steps must be a whole number, at least 0; it was -1"),
        ({"seeds": 0}, RangeError, "seeds must be a whole number, at least 1; it was 0"),
        ({"loss": "sqared"}, UnknownNameError, "loss must be one of "),
        ({"loss": "cross-entropy"}, TaskError, "probabilities, each row summing to one; example 0 of 'y' sums to -1"),
        ({"coupling": "residul"}, UnknownNameError, r"it was 'residul'; did you mean 'residual'\?"),
        ({"coupling": "residual"}, ProblemError, "0 of 8 edges are on always-open paths: use coupling='joint'"),
        ({"initial": 0.1}, WeightError, "initial must be an initializer .* or weights by edge; it was 0.1"),
        ({"network": PROBLEM.task}, ProblemError, "must be a Problem or RoutedNetwork; .* make a network"),
        ({"batch_size": 5}, RangeError, "batch_size must be at most the number of examples, 4; it was 5"),
        ({"batch_size": 2, "coupling": "residual"}, ProblemError, "mini-batches require coupling='joint'"),
        ({"record": "lss"}, UnknownNameError, "record can hold .*it held 'lss'"),
        ({"record": "weights[x->h9]"}, UnknownNameError, r"no 'weights\[x->h9\]' to record"),
        ({"record": "gate_patterns"}, ProblemError, "no gate_patterns to record; record can hold loss, outputs"),
        ({"every": 0}, RangeError, "every must be a whole number, at least 1; it was 0"),
        ({"at": [6]}, RangeError, r"at must name whole steps from 0 to 5; it was \[6\]"),
    ],
)
def test_runs_that_cannot_be(options, error, words):
    given = {"network": PROBLEM, "initial": INITIAL, "learning_rate": 0.1, "steps": 5, **options}
    with pytest.raises(error, match=words):
        train(**given)


def test_a_run_is_continued_from_its_final_weights(tmp_path):
    problem, initial = nr.ReLUNetwork(nr.tasks.xor().task, 4), nr.initial.gaussian(0.3)
    whole = nr.train(problem, initial, 0.1, 30, seeds=3)
    half = nr.train(problem, initial, 0.1, 10, seeds=3)
    stored = nr.Trajectory.load(half.save(tmp_path / "run.nc"))
    for run in (half, stored):
        rest = nr.train(run.problem, run, 0.1, 20)
        np.testing.assert_allclose(rest.loss, whole.loss[:, 10:], rtol=1e-12)
        assert rest.time[0] == 0
    assert len(nr.train(problem, [half.weights(2)], 0.1, 1).loss) == 1  # as many seeds as sets of weights


def test_what_cannot_be_continued_is_refused():
    problem, initial = nr.ReLUNetwork(nr.tasks.xor().task, 4), nr.initial.gaussian(0.3)
    forecast, run = nr.predict(problem, initial, [0.0, 1.0], draws=2), nr.train(problem, initial, 0.1, 5, seeds=2)
    diverged = nr.train(problem, initial, 1e3, 60, seeds=2)
    for given, options, words in (
        (forecast, {}, "no final weights of edge x->h1: .* a forecast are forecast.weights"),
        (diverged, {}, r"seeds \[0, 1\] did"),
        (run, {"seeds": 3}, "one set per seed, 3; it has 2"),
    ):
        with pytest.raises(nr.NeuralRaceError, match=words):
            nr.train(problem, given, 0.1, 5, **options)
