"""Many experiments, side by side in processes where there are cores and memory for them; told in the order asked."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from neuralrace.cluster import LOCAL, UNLIMITED, connected, cores
from neuralrace.errors import require_count
from neuralrace.memory import free_memory
from neuralrace.papers.experiment import Result
from neuralrace.sweeps.dispatch import finished_experiments
from neuralrace.sweeps.work import Keep

Reproduced = tuple[str, Result | Exception, Any]  # the name, what it came to or why it failed, and what else was made

# bytes that a process may come to, most of it compiled programs; one took 3.2 GiB after five experiments
NEED = 4 << 30


def reproduced(
    names: Sequence[str],
    size: str,
    out: str | Path,
    formats: Sequence[str],
    workers: int | None = None,
    begin: Callable[[str], object] = lambda name: None,
    also: Callable[[Result], Any] = lambda result: None,
) -> Iterator[Reproduced]:
    """Run experiments and keep their files in a folder; what is finished there is reused.

    They come in the order of the names, and one that fails leaves the others alone. Files and numbers are the same
    however many processes there are, but for the rounding of sums over threads: of several processes each has one
    thread. workers: processes; by default one for each core that has memory enough, and none
    beside this one where dask is missing or the arrays live on an accelerator. begin: is told each name that starts.
    also: a function of a module, for what else the processes make of each result, such as its part of a page.
    """
    count = _default(len(names)) if workers is None else min(require_count("workers", workers), len(names))
    keep = Keep(size, str(Path(out).absolute()), tuple(formats), also)
    yield from _in_turn(names, keep, begin) if count == 1 else _side_by_side(names, keep, begin, count)


def _in_turn(names: Sequence[str], keep: Keep, begin: Callable[[str], object]) -> Iterator[Reproduced]:
    for name in names:
        begin(name)
        try:
            outcome: Reproduced = (name, *keep(name))
        except Exception as error:
            outcome = name, error, None
        yield outcome


def _side_by_side(names: Sequence[str], keep: Keep, begin: Callable[[str], object], count: int) -> Iterator[Reproduced]:
    free, ended, told = free_memory(), {}, iter(names)
    share = None if free is None else free // count
    upcoming = next(told, None)
    with connected(LOCAL, count, UNLIMITED) as client:
        for name, made in finished_experiments(client, names, begin, keep, share):
            ended[name] = made
            while upcoming in ended:
                failed = isinstance(ended[upcoming], Exception)
                yield upcoming, ended[upcoming] if failed else keep.result(upcoming), ended[upcoming]
                upcoming = next(told, None)


def _default(experiments: int) -> int:
    """As many processes as have a core and memory enough."""
    import jax

    if importlib.util.find_spec("distributed") is None or jax.default_backend() != "cpu":
        return 1
    free = free_memory()
    return max(1, min(experiments, cores(), cores() if free is None else free // NEED))
