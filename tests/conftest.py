import atexit
import gc
import os
import shutil
import tempfile
from importlib.metadata import version
from pathlib import Path

import pytest
from hypothesis import settings
from jaxtyping import install_import_hook

# Nearly all time goes into compiling small networks. Without LLVM's optimization passes that takes half as long, and
# with XLA's older way to write fused loops, which later versions no longer have, a third less again. A program that is
# not split into parts is compiled a tenth faster and holds fewer pieces of memory. JAX reads the flags when it first
# needs a device, which is after this.
FLAGS = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):
    FLAGS += ["--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1"]
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])

# Each of the two workers has a core. Threads of OpenMP, as in k-means, wait for each other by looking again and again,
# which on a core that others use as well takes many times the work itself.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# While JAX traces it makes and drops very many small objects. To look through all of them for cycles as often as Python
# does unless told otherwise takes a fifteenth of the time.
gc.set_threshold(100_000, 20, 100)
atexit.register(gc.freeze)  # nor once more at the end, through all that is there

# Programs that tests start read the package's bytecode from where the first one wrote it, as Python does unless told
# otherwise: a quarter of a second for each.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What one process has compiled is read by the others: the two workers of the suite, and the programs that tests start.
# The first process, which starts the workers, makes the folder and removes it, so that every run compiles for itself.
COMPILED = "JAX_COMPILATION_CACHE_DIR"
OWN = None if COMPILED in os.environ else tempfile.mkdtemp(prefix="neuralrace-compiled-")
if OWN:
    os.environ |= {COMPILED: OWN, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


def pytest_configure(config: pytest.Config) -> None:
    """Where a stored program cannot be read, as while another process writes it, it is compiled; JAX warns of that."""
    config.addinivalue_line("filterwarnings", "ignore:Error (reading|writing) persistent compilation cache")


LONG = {f"test_{name}.py" for name in ("accidents", "reproducing", "killed", "docs", "devices", "wheel")}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that take many seconds come first, so that at the end no process waits for another's last one."""
    items.sort(key=lambda item: item.path.name not in LONG)


def pytest_unconfigure() -> None:
    """Remove what was compiled."""
    if OWN:
        shutil.rmtree(OWN, ignore_errors=True)


# A program holds some twenty pieces of memory. Linux gives a process 65,530 and the one that asks for more crashes, so
# programs are forgotten on the way.
PIECES = Path("/proc/self/maps")
MANY = 40_000


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Between files, forget what was compiled where it has become too much."""
    if nextitem is not None and nextitem.path != item.path and PIECES.exists():
        with PIECES.open("rb") as pieces:
            many = sum(1 for _ in pieces) > MANY
        if many:
            import jax  # not before the flags are set

            jax.clear_caches()


# the same examples in every run; compiling a problem takes longer than hypothesis allows for one example
settings.register_profile("neuralrace", derandomize=True, deadline=None, max_examples=8)
settings.register_profile("soak", deadline=None, max_examples=300)  # other examples every time: see tests/soak.py
settings.load_profile("neuralrace")

# Shapes and types are checked at every call of the modules that name them. Not at the front doors: what a user hands
# over is refused there by the package's own errors, which the tests are about.
CHECKED = ("_engine", "statistics")
install_import_hook([f"neuralrace.{module}" for module in CHECKED], "beartype.beartype")
