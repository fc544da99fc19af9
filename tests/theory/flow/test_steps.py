"""Forecasts by steps: of descent where a step size is given, of any loss and any optimizer; beside `nr.train`."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

import neuralrace as nr
from neuralrace.errors import AssumptionError, ResourceError
from neuralrace.theory import predict
from neuralrace.theory.flow import method, simulation
from theory_problems import descent, flatten

RANDOM = np.random.default_rng(0)
TASK = nr.Task({"x": RANDOM.normal(size=(6, 3))}, {"y": np.eye(2)[[0, 1, 1, 0, 1, 0]]})
NETWORK = nr.ReLUNetwork(TASK, hidden=(5,))
START = nr.initial.gaussian(0.4)
RATE, STEPS = 0.1, 30
TIMES = RATE * np.arange(STEPS + 1)


@pytest.mark.parametrize("apart", [0, 10**9])  # draws one by one, or all in one
def test_a_step_size_and_activations_are_forecast_by_steps(apart, monkeypatch):
    monkeypatch.setattr(simulation, "APART", apart)
    forecast = predict(NETWORK, START, TIMES, learning_rate=RATE, draws=3)
    for draw in range(3):
        weights = forecast.weights(0.0, draw)
        losses, last = descent(NETWORK, weights, RATE, STEPS)
        np.testing.assert_allclose(forecast.losses[draw], losses, rtol=1e-10)
        np.testing.assert_allclose(flatten(NETWORK, forecast.weights(draw=draw)), flatten(NETWORK, last), rtol=1e-9)
    assert "from the initialization and the data alone" in str(forecast.certificate)
    assert "step by step" in str(forecast.certificate).splitlines()[0]


def test_times_between_steps_are_interpolated():
    whole = predict(NETWORK, START, TIMES, learning_rate=RATE, draws=2)
    times = np.array([0.0, 0.13, 0.15, 0.2, 1.0, 1.0, 2.999])
    between = predict(NETWORK, START, times, learning_rate=RATE, draws=2)
    for draw in (0, 1):
        np.testing.assert_allclose(between.losses[draw], np.interp(times, TIMES, whole.losses[draw]), rtol=1e-12)
    found = [flatten(NETWORK, weights) for weights in between.weights_at(times, 1)]
    first, second = (flatten(NETWORK, whole.weights(time, 1)) for time in (0.1, 0.2))
    np.testing.assert_allclose(found[1], 0.7 * first + 0.3 * second, rtol=1e-10)
    np.testing.assert_allclose(found[3], second, rtol=1e-12)


def test_a_flow_takes_the_place_of_very_many_steps_where_it_is_cheaper(monkeypatch):
    monkeypatch.setattr(method, "MANY_STEPS", 100)
    times, steps = np.linspace(0, 2, 5), {"learning_rate": 1e-3, "draws": 1, "check": False}
    certificate = predict(nr.ReLUNetwork(TASK, hidden=(80,)), START, times, **steps).certificate
    assert "corrected to first order" in str(certificate)
    assert "step by step" in predict(NETWORK, START, times, **steps).certificate  # of few neurons, not certified


LOSSES = {
    "cross-entropy": {"loss": "cross-entropy", "learning_rate": RATE},
    "adam": {"optimizer": optax.adam(0.02)},
    "momentum and decay": {
        "optimizer": optax.chain(optax.add_decayed_weights(0.01), optax.sgd(0.05, momentum=0.9)),
        "learning_rate": 0.05,
        "loss": "cross-entropy",
    },
    "by matrix": {"optimizer": optax.chain(optax.scale_by_trust_ratio(), optax.scale(-0.05))},
}


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("activated", [True, False], ids=["rectified", "linear"])
def test_other_losses_and_optimizers_are_those_of_training(name, activated):
    options = LOSSES[name]
    chain = NETWORK.architecture
    network = NETWORK if activated else nr.Problem(chain, TASK, nr.Gates(edges={("x", "h1"): np.arange(6) % 2}))
    weights = START(network, 0)
    run = nr.train(network, weights, steps=STEPS, every=5, progress=False, **options)
    forecast = predict(network, weights, run.time, **options)
    np.testing.assert_allclose(forecast.loss, run.loss[0], rtol=1e-10)
    np.testing.assert_allclose(flatten(network, forecast.weights()), flatten(network, run.weights(0)), atol=1e-10)
    assert forecast.method == "flow"
    assert forecast.certificate.holds
    assert forecast.certificate.checked is None
    assert nr.agreement(forecast, run).normalized_l1 < 1e-9
    assert forecast.settings["loss"] == run.settings["loss"]


def test_fresh_draws_are_near_trained_networks():
    network, options = nr.ReLUNetwork(TASK, hidden=(200,)), LOSSES["cross-entropy"]
    start = nr.initial.gaussian(0.05)
    run = nr.train(network, start, steps=60, seeds=4, every=10, progress=False, **options)
    forecast = predict(network, start, run.time, draws=4, **options)
    assert nr.agreement(forecast, run).normalized_l1 < 0.05  # two sets of four networks
    with pytest.raises(nr.errors.RangeError, match="cross-entropy and the run of the squared loss"):
        nr.agreement(forecast, nr.train(network, start, RATE, 60, every=10, progress=False))


def test_an_own_objective_is_forecast():
    class Quartic(nr.training.Objective):
        name, compresses = "quartic", False

        def rows(self, outputs, targets):
            return jnp.sum((outputs - targets) ** 4, axis=-1)

    weights, loss = START(NETWORK, 1), Quartic()
    run = nr.train(NETWORK, weights, 0.01, STEPS, loss=loss, progress=False)
    forecast = predict(NETWORK, weights, run.time, learning_rate=0.01, loss=loss)
    np.testing.assert_allclose(forecast.loss, run.loss[0], rtol=1e-10)


def test_methods_for_squared_error_decline_other_losses_and_optimizers():
    linear = nr.Problem(NETWORK.architecture, TASK)
    for name in ("closed_form", "reduction", "aligned", "representatives"):
        with pytest.raises(AssumptionError, match=r"gradient descent required; an optimizer .*: use method='auto'$"):
            predict(linear, START, TIMES, name, optimizer=optax.adam(0.01))
    forced = nr.theory.Reduction(force=True)
    with pytest.raises(AssumptionError, match=r"squared error required; .* cross-entropy: use method='auto'$"):
        predict(linear, START, TIMES, forced, learning_rate=RATE, loss="cross-entropy")


def test_draws_that_do_not_fit_into_memory_are_refused():
    for hidden in ((5,), (5, 5)):
        with pytest.raises(ResourceError, match="give fewer draws"):
            predict(nr.ReLUNetwork(TASK, hidden), nr.initial.gaussian(1e-3), [0.0, 1.0], draws=10**9)
