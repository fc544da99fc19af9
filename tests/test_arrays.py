import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import neuralrace as nr
from neuralrace.arrays import float64

USE = """
problem = nr.tasks.xor(0.5).problem("linear", hidden=3)
weights = nr.initial.gaussian(0.1)(problem, 0)
run = nr.train(problem, weights, 0.1, 3, record=("weights", "outputs"), progress=False)
assert all(v.dtype == np.float64 for n, v in run.data.data_vars.items() if n != "status"), run.data
assert problem.forward(weights)["y"].dtype == np.float64
print(repr(problem.loss(weights)), repr(float(run.loss[0, -1])))
"""


IMPORT = """
import os, sys, jax, numpy, xarray, optax, diffrax, h5netcdf, scipy.sparse.csgraph, rich.progress
import equinox, jaxtyping, importlib.metadata, scipy.optimize, scipy.special, scipy.linalg
from jax._src import xla_bridge
before, environment = dict(jax.config.values), dict(os.environ)
opened = []
sys.addaudithook(lambda event, args: opened.append(args[0]) if event == 'open' else None)
import neuralrace
data = [p for p in opened if isinstance(p, str) and not p.endswith(('.py', '.pyc', '.so'))]
own = [p for p in data if 'neuralrace' in p and '__pycache__' not in p]
assert not own, own
assert dict(jax.config.values) == before
assert dict(os.environ) == environment
assert not xla_bridge.backends_are_initialized()
assert not jax.config.jax_enable_x64
"""
SWITCHED = """
import warnings, numpy as np, neuralrace as nr
warnings.simplefilter("default")
jax.config.update('jax_enable_x64', True)
"""


@pytest.fixture(scope="module")
def another():
    """What another process says that imports the package, where a warning is an error, and uses it with the flag on."""
    code = IMPORT + SWITCHED + USE + "assert jax.config.jax_enable_x64\n"
    command = [sys.executable, "-W", "error", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_importing_touches_no_device_no_setting_no_file_and_warns_of_nothing(another):
    """Files are watched by an audit hook once the libraries are in; only code and metadata may be read then."""
    assert another.returncode == 0, another.stderr


def test_everything_is_float64_whatever_the_global_flag_is(another, capsys):
    assert not jax.config.jax_enable_x64
    exec(USE, {"np": np, "nr": nr})  # our own text, above
    assert not jax.config.jax_enable_x64
    assert capsys.readouterr().out == another.stdout  # the same code on the same numbers


def test_an_error_inside_restores_the_setting():
    @float64
    def third(x):
        return jnp.asarray(x) / 3

    assert third(1.0).dtype == jnp.float64
    with pytest.raises(TypeError):
        third()
    assert jnp.asarray(1.0).dtype == jnp.float32
