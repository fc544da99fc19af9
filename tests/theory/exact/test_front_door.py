import re
from pathlib import Path

import jax
import numpy as np
import pytest

from neuralrace.theory import exact

HERE = Path(__file__).parent
ERRATA = HERE.parents[2] / "docs" / "theory" / "errata.md"


def test_every_public_name_is_there_and_described():
    for name in exact.__all__:
        assert getattr(exact, name).__doc__, name


def test_double_precision_needs_no_global_flag():
    assert not jax.config.jax_enable_x64
    value = exact.two_layer_mode(1.0, 1.0, 1.0, 1e-12)
    assert value.dtype == np.float64
    assert not jax.config.jax_enable_x64


def test_functions_work_inside_a_trace_of_the_callers():
    """There the ambient precision holds, 32 bits here, and values are not checked: they do not exist yet."""
    traced = jax.jit(exact.unbalanced_mode)(3.0, 1.0, 1.0, 0.1, 0.2)
    # 1e-5: a few roundings of 32 bits
    assert float(traced) == pytest.approx(float(exact.unbalanced_mode(3.0, 1.0, 1.0, 0.1, 0.2)), rel=1e-5)


def test_every_erratum_names_tests_that_exist():
    entries = ERRATA.read_text().split("\n## ")[1:]
    assert len(entries) >= 10
    for entry in entries:
        named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", entry)
        assert named, entry.splitlines()[0]
        assert all(part in entry for part in ("- Printed:", "- Corrected:", "- Proof:")), entry.splitlines()[0]
        for file, test in named:
            assert f"def {test}(" in (HERE / file).read_text(), (file, test)
