"""Programs that are compiled in half of the time that XLA takes unless told otherwise."""

import functools
import os
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, ParamSpec, TypeVar

import equinox as eqx
import jax

Given = ParamSpec("Given")
Found = TypeVar("Found")

LIGHT: dict[str, Any] = {"xla_backend_optimization_level": 1}
# products, which most of the time is spent in, are not compiled here but called; later versions do not know these two
EARLIER: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False, "xla_cpu_parallel_codegen_split_count": 1}


def compiled(function: Callable[Given, Found]) -> Callable[Given, Found]:
    """Compile a function for each shape of its arguments, as `eqx.filter_jit` does, and lightly on a CPU.

    It is for functions that are called from outside: JAX takes such wishes for whole programs only.
    """

    @functools.cache  # when it is first called: to ask for the device is to start it
    def program() -> Callable[Given, Found]:
        jit: Any = eqx.filter_jit  # its types do not tell what it hands on to JAX
        made: Callable[Given, Found] = jit(function, compiler_options=_options())
        return made

    @functools.wraps(function)
    def call(*arguments: Given.args, **named: Given.kwargs) -> Found:
        return program()(*arguments, **named)

    return call


def _options() -> dict[str, Any] | None:
    """What is asked of XLA; what the environment asks of it is left as it is."""
    if jax.default_backend() != "cpu":
        return None
    wishes = LIGHT | EARLIER if version("jaxlib").startswith("0.10.") else LIGHT
    asked = os.environ.get("XLA_FLAGS", "")
    return {name: wish for name, wish in wishes.items() if f"--{name}=" not in asked}
