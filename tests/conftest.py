import os

from hypothesis import settings

# Nearly all time goes into compiling small networks. Without LLVM's optimisation passes that takes half as long;
# JAX reads the flag when it first needs a device, which is after this.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"

# the same examples in every run; compiling a problem takes longer than hypothesis allows for one example
settings.register_profile("neuralrace", derandomize=True, deadline=None, max_examples=15)
settings.load_profile("neuralrace")
