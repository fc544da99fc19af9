import os
from importlib.metadata import version

from hypothesis import settings
from jaxtyping import install_import_hook

# Nearly all time goes into compiling small networks. Without LLVM's optimisation passes that takes half as long, and
# with XLA's older way to write fused loops, which later versions no longer have, a third less again. JAX reads the
# flags when it first needs a device, which is after this.
FLAGS = ["--xla_backend_optimization_level=0"]
if version("jaxlib").startswith("0.10."):
    FLAGS.append("--xla_cpu_use_fusion_emitters=false")
os.environ["XLA_FLAGS"] = " ".join([os.environ.get("XLA_FLAGS", ""), *FLAGS])

# the same examples in every run; compiling a problem takes longer than hypothesis allows for one example
settings.register_profile("neuralrace", derandomize=True, deadline=None, max_examples=15)
settings.register_profile("soak", deadline=None, max_examples=300)  # other examples every time: see tests/soak.py
settings.load_profile("neuralrace")

# Shapes and types are checked at every call of the modules that name them. Not at the front doors: what a user hands
# over is refused there by the package's own errors, which the tests are about.
CHECKED = ("_engine", "path_statistics", "shared_bases")
install_import_hook([f"neuralrace.{module}" for module in CHECKED], "beartype.beartype")
