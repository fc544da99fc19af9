"""Commands that are killed at some moment and started again, and what must come of it."""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import xarray

from neuralrace.io import PART, load_dataset

CHECKPOINTED = """
import sys, neuralrace as nr
from neuralrace.training import checkpoint, loop
loop.CHUNK_SECONDS, checkpoint.SECONDS = 0.01, 0.0
network = nr.ReLUNetwork(nr.tasks.xor(0.3).task, 6)
folder = sys.argv[1]
run = nr.train(network, nr.initial.gaussian(0.3), 0.05, 20000, every=50, seeds=2, checkpoint=folder + "/run.npz")
run.save(folder + "/run.nc")
"""
SWEPT = ("--set", "learning_rate=0.2,0.3,0.4", "--set", "steps=3,4")


class Command(NamedTuple):
    """arguments: of Python, for results in a folder. seconds: how long it takes, about."""

    arguments: Callable[[Path], list[str]]
    seconds: float


def _line(*words: str) -> Callable[[Path], list[str]]:
    return lambda folder: ["-m", "neuralrace", *words, "--out", str(folder)]


COMMANDS = {
    "reproduce": Command(
        _line("reproduce", *("--only", "views-law", "--only", "saxe2022-fig3", "--size", "tiny", "--workers", "2")), 25
    ),
    "run": Command(_line("run", "views-law", "--size", "tiny"), 10),
    "explain": Command(_line("explain", "xor", "--quick", "--hidden", "6", "--seeds", "1"), 30),
    "sweep": Command(_line("sweep", "saxe2022-fig3", *SWEPT, "--size", "tiny", "--seeds", "1", "--workers", "2"), 25),
    "train": Command(lambda folder: ["-c", CHECKPOINTED, str(folder)], 15),
}


def start(name: str, folder: Path) -> "subprocess.Popen[bytes]":
    """Begin a command in a process of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    arguments = COMMANDS[name].arguments(folder)
    return subprocess.Popen([sys.executable, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_after(name: str, folder: Path, ready: Callable[[], bool], most: float) -> bool:
    """Begin a command and kill it once it is ready, or after so many seconds; say whether it was still running."""
    process, began = start(name, folder), time.monotonic()
    while process.poll() is None and not ready() and time.monotonic() - began < most:
        time.sleep(0.01)
    running = process.poll() is None
    process.kill()
    process.wait()
    return running


def finish(name: str, folder: Path, most: float) -> int | None:
    """Run a command to its end: its status, or None if it takes longer than so many seconds."""
    process = start(name, folder)
    try:
        return process.wait(most)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None


def datasets(folder: Path) -> dict[str, xarray.Dataset]:
    """All records below a folder, each whole or an error."""
    paths = [path for path in sorted(folder.rglob("*.nc")) if not path.name.startswith(".")]
    return {str(path.relative_to(folder)): load_dataset(path) for path in paths}


def same_results(one: Path, other: Path) -> bool:
    """Whether two folders hold the same files, and records with the same numbers in them; temporary files aside."""
    names = [
        {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and PART not in path.name}
        for folder in (one, other)
    ]
    first, second = datasets(one), datasets(other)
    return names[0] == names[1] and first.keys() == second.keys() and all(first[k].identical(second[k]) for k in first)
