import json
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import xarray

import neuralrace as nr
from neuralrace.activations import Activation
from neuralrace.errors import FileFormatError, RangeError, UnknownNameError
from neuralrace.io import load_dataset, save_dataset
from neuralrace.trajectory import FORMAT, Trajectory


def problem():
    """A network with gates, an activation and a weighting of the examples."""
    random = np.random.default_rng(1)
    architecture = nr.Architecture({"x": 2, "h": 5, "y": 1}, {"up": ("x", "h"), "bridge": ("h", "y")})
    task = nr.Task({"x": random.normal(size=(4, 2))}, {"y": random.normal(size=(4, 1))}, [0.1, 0.2, 0.3, 0.7])
    gates = nr.Gates({"h": [0, 1, 1, 2]}, {"bridge": [1, 0, 0.5, 1]})
    return nr.Problem(architecture, task, gates, {"h": nr.leaky_relu(0.1)})


@pytest.fixture(scope="module")
def run():
    """Two seeds, three moments."""
    record = ("gate_patterns", "weights")
    return nr.train(problem(), nr.initial.gaussian(1.0), 0.1, 10, seeds=2, every=5, record=record, progress=False)


def test_the_contract(run):
    np.testing.assert_allclose(run.time, [0.0, 0.5, 1.0], rtol=1e-15)
    assert run.loss.shape == (2, 3)
    assert run.status.tolist() == ["running", "running"]
    assert run.edges == ("up", "bridge")
    assert run.settings["learning_rate"] == 0.1
    assert json.loads(run.data.attrs["versions"])["jax"].count(".") == 2
    np.testing.assert_array_equal(run.initial_weights(1)["up"], run.data["initial_weights[up]"][1])
    np.testing.assert_array_equal(run.weights(1)["up"], run.data["final_weights[up]"][1])
    np.testing.assert_array_equal(run.weights(0, record=-1)["bridge"], run.data["weights[bridge]"][0, 2])


def assert_same_problem(found, wanted):
    """The same loss, gradient and outputs at some weights."""
    assert found.architecture == wanted.architecture
    assert found.activations == wanted.activations
    weights = nr.initial.gaussian(1.0)(wanted, 0)
    assert found.loss(weights) == wanted.loss(weights)
    for node, rows in wanted.forward(weights).items():
        np.testing.assert_array_equal(found.forward(weights)[node], rows)
    for edge, matrix in wanted.gradient(weights).items():
        np.testing.assert_array_equal(found.gradient(weights)[edge], matrix)


def neuron_gates():
    task = nr.tasks.xor(0.5).task
    gates = nr.Gates({"h": np.random.default_rng(2).random((4, 3)) > 0.5})
    return nr.Problem(nr.Architecture({"x": 3, "h": 3, "y": 1}, [("x", "h"), ("h", "y")]), task, gates, biases=True)


def relu_network():
    parts = np.random.default_rng(3).normal(size=(4, 4))
    return nr.ReLUNetwork(nr.Task({"a": parts[:, :2], "b": parts[:, 2:3]}, {"c": parts[:, 3:]}), (3, 4), 0.2, True)


@pytest.mark.parametrize("make", [problem, neuron_gates, relu_network])
def test_everything_comes_back_from_a_file(tmp_path, make):
    """Also of a seed that diverged, and of settings that are no ASCII."""
    learned = make()
    real = nr.train(learned, nr.initial.gaussian(0.1), 0.1, 4, seeds=2, record=("outputs", "weights"))
    assert real.problem is learned
    losses, attributes = real.data["loss"].copy(), {"settings": json.dumps({**real.settings, "note": "ä → ö"})}
    losses[1, 2] = np.inf
    run = replace(real, data=real.data.assign(loss=losses).assign_attrs(attributes))
    path = run.save(tmp_path / "run.nc")
    back = Trajectory.load(path)
    xarray.testing.assert_identical(back.data, run.data)
    for name, variable in run.data.variables.items():
        assert back.data[name].dtype == variable.dtype, name
    assert back.settings == run.settings
    assert back.status.tolist() == run.status.tolist()
    assert_same_problem(back.problem, learned)
    assert back.weights(1).keys() == learned.architecture.edges.keys()
    assert list(tmp_path.iterdir()) == [path]
    with xarray.open_dataset(path, engine="h5netcdf") as opened:  # as other programs read it
        xarray.testing.assert_equal(opened.load()[list(run.data.data_vars)], run.data)


def test_an_activation_of_your_own_comes_back_while_its_class_is_there(tmp_path, monkeypatch):
    @dataclass(frozen=True)
    class Square(Activation):
        name: ClassVar = "my square"

        def __call__(self, received):
            return received**2

    chain = nr.Architecture({"x": 3, "h": 3, "y": 1}, [("x", "h"), ("h", "y")])
    learned = nr.Problem(chain, nr.tasks.xor(0.5).task, activations={"h": "my square"})
    path = nr.train(learned, nr.initial.gaussian(0.1), 0.1, 2).save(tmp_path / "own.nc")
    assert_same_problem(Trajectory.load(path).problem, learned)
    monkeypatch.setattr("neuralrace.activations.named", dict)
    assert_refused(path, "there is no activation 'my square'")


# bad files


def assert_refused(path, words):
    with pytest.raises(FileFormatError, match=words) as raised:
        Trajectory.load(path)
    assert str(path) in str(raised.value)


@pytest.mark.parametrize("found", [FORMAT + 1, str(FORMAT)])
def test_another_format(run, tmp_path, found):
    path = tmp_path / "later.nc"
    save_dataset(run.data.assign_attrs(neuralrace_format=found), path)
    assert_refused(path, f"must be a trajectory of format {FORMAT}; it says ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda data: data.drop_vars("targets[y]"), "'y'"),
        (lambda data: data.assign({"node_gates[h]": ("other", np.ones(7))}), "node 'h' must have one value"),
        (lambda data: data.assign_attrs(problem="{broken"), ""),
    ],
)
def test_a_file_without_a_whole_problem(run, tmp_path, change, words):
    path = run.save(tmp_path / "wrong.nc")
    save_dataset(change(load_dataset(path)), path)
    assert_refused(path, f"does not hold a whole problem: .*{words}")


# looking at it


def test_a_tidy_table(run):
    frame = run.to_frame()
    assert len(frame) == 6
    assert set(frame.columns) == {"seed", "time", "step", "loss"}
    one = frame[(frame["seed"] == 1) & (frame["step"] == 5)]
    assert one["loss"].item() == run.loss[1, 1]
    assert len(run.to_frame("final_weights[bridge]")) == 2 * 5


def test_a_forecast_and_a_run_in_one_figure_with_their_distance(run):
    settings = json.dumps({**run.settings, "method": "flow"})
    forecast = replace(run, data=run.data.assign(loss=2 * run.data["loss"]).assign_attrs(settings=settings))
    axis = nr.compare(forecast, run).axes[0]
    assert f"normalized L1 {nr.agreement(forecast, run).normalized_l1:.2g}" in axis.get_title()
    training, theory = axis.get_lines()
    np.testing.assert_array_equal(training.get_ydata(), run.loss.mean(axis=0))
    np.testing.assert_array_equal(theory.get_ydata(), 2 * run.loss.mean(axis=0))
    with pytest.raises(RangeError, match=r"predict at times=run\.time"):
        nr.compare(replace(forecast, data=forecast.data.isel(time=slice(1, None))), run)


# bad questions


def test_what_was_not_recorded_is_named(run):
    with pytest.raises(UnknownNameError, match=r"'weights\[x->y\]' was not recorded; did you mean 'weights\[up\]'\?"):
        run.values("weights[x->y]")
    with pytest.raises(UnknownNameError, match=r"\(request it with record=...\)"):
        replace(run, data=run.data.drop_vars("weights[bridge]")).weights(0, record=0)


@pytest.mark.parametrize("seed", [2, -3])
def test_a_seed_that_was_not_run(run, seed):
    with pytest.raises(RangeError, match=f"seed must be from 0 to 1; it was {seed}"):
        run.weights(seed)
