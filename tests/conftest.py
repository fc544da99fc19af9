"""Settings of all test processes: faster compilation, one cache of compiled programs, and checked array shapes."""

import atexit
import gc
import os
import shutil
import tempfile

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook
from threadpoolctl import threadpool_limits

# Most of the suite's time is spent compiling small programs. Without LLVM's optimization passes that takes a quarter
# less. The flag changes machine code and not what it computes, so no test may depend on it:
# `XLA_FLAGS= python -m pytest` compiles as for users. JAX reads it when a device is first needed, which is later.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

# Each of the two workers has a core. Threads of BLAS and OpenMP (as in k-means) spin while they wait for each other,
# which on a shared core takes many times as long as the work itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")
threadpool_limits(1)  # of libraries that are loaded already

# JAX makes and drops many small objects while it traces. Searching them for cycles as often as Python does by default,
# and once more at exit, takes a fifteenth of the time.
gc.set_threshold(100_000, 20, 100)
atexit.register(gc.freeze)

# Subprocesses read the package's bytecode from where the first one wrote it, which saves each a quarter of a second.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# The two workers and the subprocesses of tests share compiled programs through JAX's persistent cache. The process that
# starts the workers makes its folder and removes it, so that every run of the suite compiles for itself.
CACHE = "JAX_COMPILATION_CACHE_DIR"
OWN_CACHE = None if CACHE in os.environ else tempfile.mkdtemp(prefix="neuralrace-compiled-")
if OWN_CACHE:
    os.environ |= {CACHE: OWN_CACHE, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def pytest_configure(config: pytest.Config) -> None:
    """Ignore JAX's warning about a cached program that another process is writing; it is compiled instead."""
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache")


LONG = {f"test_{name}.py" for name in ("devices", "docs", "sweeps", "wheel")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the files with tests of many seconds first, so that neither worker waits for the other's last one."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_unconfigure() -> None:
    """Remove the compiled programs."""
    if OWN_CACHE:
        shutil.rmtree(OWN_CACHE, ignore_errors=True)


# The same examples in every run; compiling a problem takes longer than hypothesis allows for one example.
settings.register_profile("neuralrace", derandomize=True, deadline=None, max_examples=8)
settings.register_profile("soak", deadline=None, max_examples=300)  # other examples every time: see tests/soak.py
settings.load_profile("neuralrace")

# Check array shapes and types at every call inside these modules. At the front doors the package's own errors refuse
# bad input, and tests are about those.
CHECKED = ("_engine", "statistics")
install_import_hook([f"neuralrace.{module}" for module in CHECKED], "beartype.beartype")
