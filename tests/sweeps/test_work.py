"""What a worker does with points that differ in numbers only."""

import dataclasses

import jax
import pytest

from neuralrace import source
from neuralrace.papers import get
from neuralrace.sweeps.work import compute_point

COMPILED = "/jax/core/compile/backend_compile_duration"


@pytest.mark.parametrize("name", ["views-law"])
def test_one_program_serves_all_points_that_differ_in_numbers_only(name):
    """So it is with 21 of the 26 experiments, for all their numbers; docs/scale.md tells the others."""
    settings, counted = get(name).tiny, []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **more: counted.append(event) if event == COMPILED else None
    )
    compute_point(name, "first", settings, source.code_version())
    counted.clear()
    for number in [
        field.name for field in dataclasses.fields(settings) if isinstance(getattr(settings, field.name), float)
    ]:
        other = dataclasses.replace(settings, **{number: 0.9 * getattr(settings, number)})
        found = compute_point(name, number, other, source.code_version())
        assert found.sealed is not None, found.error
    assert counted == []
