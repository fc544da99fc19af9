"""What is asked of XLA; and the mapped axis on two devices, which gives the numbers of one.

Devices are counted once, so two have a process of their own.
"""

import json
import os
import subprocess
import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

from neuralrace._engine import devices
from neuralrace.theory.integration import integrate
from neuralrace.training import loop

PROGRAM = """
import json, sys
import jax, numpy as np
import neuralrace as nr
from neuralrace.training import Condition, train_together
from neuralrace.theory.integration import integrate
from neuralrace.training import loop
from neuralrace.training.rules import make_rule

where = []
advance = loop._advance
def watched(own, shared, state, *rest):
    where.append(max(len(leaf.sharding.device_set) for leaf in jax.tree.leaves(state.parameters)))
    return advance(own, shared, state, *rest)
loop._advance = watched

network = nr.ReLUNetwork(nr.tasks.xor().task, hidden=(4,))
law = nr.initial.gaussian(0.3)
told = {"devices": jax.local_device_count()}
def train(seeds, **more):
    return nr.train(network, law, 0.2, 30, seeds=seeds, progress=False, **more)
run = train(4, checkpoint=sys.argv[1])
told["loss"] = run.loss.tolist()
again = train(4, checkpoint=sys.argv[1])
assert (again.loss == run.loss).all()
conditions = [Condition(network, law, make_rule(rate, None)[0], rate) for rate in (0.1, 0.2)]
told["together"] = [run.loss.tolist() for run in train_together(conditions, 30, progress=False)]
told["spread"] = where
steps = {"method": "flow", "learning_rate": 0.2, "dynamics": "descent", "draws": 2}
told["forecast"] = nr.predict(network, law, 0.2 * np.arange(0, 21, 5), **steps).loss.tolist()

found = []
follow = integrate._advance
def seen(*given):
    after = follow(*given)
    found.append([device.id for device in jax.tree.leaves(after[0])[0].sharding.device_set])
    return after
integrate._advance = seen
gated = nr.tasks.xor().problem("xor", hidden=2)
for name, method in (("reduction", nr.theory.Reduction(force=True)), ("flow", "flow")):
    found.clear()
    told[name] = nr.predict(gated, law, np.linspace(0, 4, 5), method=method, draws=4).losses.tolist()
    told["of " + name] = sorted({device for used in found for device in used})
print(json.dumps(told))
"""


def told_here(monkeypatch, capsys, folder):
    """By this process, which has one device."""
    for room, name in ((loop, "_advance"), (integrate, "_advance")):
        monkeypatch.setattr(room, name, getattr(room, name))  # so that the program's own changes are undone
    monkeypatch.setattr(sys, "argv", ["-c", str(folder / "checkpoint.npz")])
    exec(PROGRAM, {})  # our own text, above
    return json.loads(capsys.readouterr().out)


def told_by_two(folder):
    """By a process that takes the CPU for two devices."""
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"
    command = [sys.executable, "-c", PROGRAM, str(folder / "checkpoint.npz")]
    environment = os.environ | {"XLA_FLAGS": flags}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


# By steps: a product over fewer seeds may be summed in another order, and 30 steps of that stay below 1e-12. Flows: the
# same rounding is carried by the integrator, which takes the same steps.
NEAR = {"loss": 1e-12, "together": 1e-12, "forecast": 1e-12, "reduction": 1e-9, "flow": 1e-9}


def test_two_devices_are_used_and_give_the_numbers_of_one(tmp_path_factory, monkeypatch, capsys):
    two = told_by_two(tmp_path_factory.mktemp("devices"))
    one = told_here(monkeypatch, capsys, tmp_path_factory.mktemp("device"))
    assert (one["devices"], set(one["spread"])) == (1, {1})
    assert (two["devices"], set(two["spread"])) == (2, {2})
    for method in ("reduction", "flow"):
        assert (one[f"of {method}"], two[f"of {method}"]) == ([0], [0, 1])
    for what, rtol in NEAR.items():
        assert np.shape(one[what]) == np.shape(two[what])
        np.testing.assert_allclose(two[what], one[what], rtol=rtol, err_msg=what)


def test_options_of_the_environment_are_left_alone(monkeypatch):
    level = "xla_backend_optimization_level"
    jax.devices()  # started before there are flags that it does not know
    monkeypatch.setenv("XLA_FLAGS", "--xla_other=1")
    assert level in devices._options()
    monkeypatch.setenv("XLA_FLAGS", f"--{level}=3")
    assert level not in devices._options()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert devices._options() is None


def test_a_cpu_does_short_work_on_as_many_threads_as_it_has(monkeypatch):
    """Two that wait for each other only end when both are begun; with one thread all is done by the caller."""
    both, here = threading.Barrier(2, timeout=60), threading.get_ident()

    def met(item):
        both.wait()
        return item * 10, jnp.zeros(1).dtype == jnp.float64

    monkeypatch.setenv("NPROC", "2")
    with jax.enable_x64(True):
        assert devices.map_on_devices(met, [1, 2], short=True) == [(10, True), (20, True)]
    assert devices.map_on_devices(lambda _: threading.get_ident(), [1, 2]) == [here, here]
    monkeypatch.setenv("NPROC", "1")
    assert devices.map_on_devices(lambda _: threading.get_ident(), [1, 2], short=True) == [here, here]
