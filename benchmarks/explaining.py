"""Data sets explained from nothing, compiling included; the quick look at each as well."""

import time

import neuralrace as nr

MEASURED = ("iris", "wine", "digits", "diabetes", "noisy_xor")
MOST, QUICK_MOST = 120, 20  # seconds on two cores


def rows() -> list[tuple[str, float, str]]:
    """Label, measured and required, in seconds."""
    start = time.perf_counter()
    nr.explain(nr.tasks.contextual(structure="mixed"), hidden=(700,), seeds=5, progress=False)
    found = [("explain the mixed task, 5 networks, seconds", time.perf_counter() - start, "below 60")]
    for name in MEASURED:
        found.append((f"explain {name}, seconds", _seconds(name, False), f"below {MOST}"))
        found.append((f"explain {name}, quick, seconds", _seconds(name, True), f"about {QUICK_MOST}"))
    return found


def _seconds(name: str, quick: bool) -> float:
    start = time.perf_counter()
    nr.explain(name, quick=quick, progress=False)
    return time.perf_counter() - start
