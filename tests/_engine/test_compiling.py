"""What is asked of XLA, and what the environment asks of it."""

import jax
import numpy as np
import pytest

from neuralrace._engine import compiling

LEVEL, EMITTERS, PARTS = (
    "xla_backend_optimization_level",
    "xla_cpu_use_fusion_emitters",
    "xla_cpu_parallel_codegen_split_count",
)


@pytest.mark.parametrize(
    ("flags", "earlier", "later"),
    [
        ("", {LEVEL, EMITTERS, PARTS}, {LEVEL}),
        (f"--{EMITTERS}=true --xla_other=1", {LEVEL, PARTS}, {LEVEL}),
        (f"--{LEVEL}=3", {EMITTERS, PARTS}, set()),
    ],
)
def test_a_program_is_compiled_lightly_unless_the_environment_says_otherwise(flags, earlier, later, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", flags)
    for version, wishes in (("0.10.2", earlier), ("0.11.0", later)):
        monkeypatch.setattr(compiling, "version", lambda package, version=version: version)
        assert set(compiling._options()) == wishes


def test_an_accelerator_is_asked_for_nothing(monkeypatch):
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert compiling._options() is None


def test_the_installed_version_knows_every_wish(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    assert compiling.compiled(lambda given, power: given**power)(np.arange(3.0), 2).tolist() == [0, 1, 4]
