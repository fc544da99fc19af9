"""P2's mixed task explained from nothing, compiling included."""

import time

import neuralrace as nr


def rows() -> list[tuple[str, float, str]]:
    """Label, measured and required, in seconds."""
    start = time.perf_counter()
    nr.explain(nr.tasks.contextual(structure="mixed"), hidden=(700,), seeds=5, progress=False)
    return [("explain the mixed task, 5 networks, seconds", time.perf_counter() - start, "below 60")]
