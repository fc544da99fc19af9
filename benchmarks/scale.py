"""Sweeps on one and two workers, and a pass over batches beside the generator's own speed.

`python -m benchmarks.scale ROWS` makes the pass over so many rows and prints its peak memory too.
"""

import resource
import sys
import tempfile
import time
from typing import Any

import dask.array
import dask.base
import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

import neuralrace as nr

Row = tuple[str, float, str]
ARCHITECTURE = nr.Architecture({"x": 6, "h": 8, "k": 8, "y": 2}, [("x", "h"), ("x", "k"), ("h", "y"), ("k", "y")])
ROWS = 4_000_000
BATCH = 1 << 16
POINTS = {"learning_rate": np.linspace(0.1, 0.4, 16).tolist(), "std": [0.01, 0.02, 0.03, 0.04]}


def generated(rows: int) -> dict[str, Any]:
    """Normal inputs, linear targets with noise, and a gate that opens one of two pathways."""
    rng, teacher = dask.array.random.default_rng(0), np.random.default_rng(0).normal(size=(6, 2))
    x = rng.standard_normal((rows, 6), chunks=(BATCH, -1))
    y = x @ teacher + 0.1 * rng.standard_normal((rows, 2), chunks=(BATCH, -1))
    one = (rng.random(rows, chunks=BATCH) < 0.5).astype(float)
    return {"inputs": {"x": x}, "targets": {"y": y}, "gates": {"h": one, "k": 1.0 - one}}


def batches_rows(rows: int = ROWS) -> list[Row]:
    """Rows per second of the pass and of the generator alone, on the processor's clock: others may use it too."""
    data = generated(rows)
    began = time.process_time()
    with threadpool_limits(1):
        dask.base.compute([array.sum() for part in data.values() for array in part.values()])
    alone = time.process_time() - began
    began = time.process_time()
    nr.batches.problem(ARCHITECTURE, **data)
    taken = time.process_time() - began
    return [
        (
            f"one pass over {rows:,} rows of 8 columns, million rows per second",
            rows / (taken - alone) / 1e6,
            "reported",
        ),
        ("... the generator alone, million rows a second", rows / alone / 1e6, "reported"),
    ]


def sweep_rows() -> list[Row]:
    """64 small points on one worker and on two, compiling included."""
    taken = {}
    for workers in (1, 2):
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as out:
            nr.sweep("saxe2022-linear", POINTS, size="tiny", seeds=2, workers=workers, out=out, progress=False)
        taken[workers] = time.perf_counter() - began
    found: list[Row] = [(f"64 small points, workers: {n}, seconds", took, "reported") for n, took in taken.items()]
    return [*found, ("two workers for one", taken[1] / taken[2], "reported")]


def rows() -> list[Row]:
    """All rows of the benchmark."""
    return [*batches_rows(), *sweep_rows()]


if __name__ == "__main__":
    for label, value, _ in batches_rows(int(float(sys.argv[1]))):
        print(f"{label}: {value:.2f}")
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")
