"""Many experiments, side by side in processes where there are cores and memory for them; told in the order asked."""

import importlib.util
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from neuralrace.cluster import LOCAL, UNLIMITED, connected, cores
from neuralrace.errors import require_count
from neuralrace.experiments import store
from neuralrace.experiments.experiment import Result
from neuralrace.limits import free_memory
from neuralrace.sweeps.dispatch import finished_experiments

Outcome = tuple[str, Result | Exception]  # the name, and what it came to or why it failed

NEED = 3 << 30  # bytes that a process may come to, most of it compiled programs; the largest took 1.5 GiB


def reproduced(
    names: Sequence[str],
    size: str,
    out: str | Path,
    formats: Sequence[str],
    workers: int | None = None,
    begin: Callable[[str], object] = lambda name: None,
) -> Iterator[Outcome]:
    """Run experiments and keep their files in a folder; what is finished there is reused.

    They come in the order of the names, and one that fails leaves the others alone. Files and numbers are the same
    however many processes there are. workers: processes; by default one for each core that has memory enough, and none
    beside this one where dask is missing or the arrays live on an accelerator. begin: is told each name that starts.
    """
    count = _default(len(names)) if workers is None else min(require_count("workers", workers), len(names))
    folder = Path(out).absolute()
    ran = _in_turn if count == 1 else _side_by_side
    yield from ran(names, size, folder, tuple(formats), count, begin)


def _in_turn(
    names: Sequence[str], size: str, out: Path, formats: Sequence[str], count: int, begin: Callable[[str], object]
) -> Iterator[Outcome]:
    for name in names:
        begin(name)
        try:
            result = store.run(name, size, out=out, reuse=True)
            store.save_result(result, out, formats)
            yield name, result
        except Exception as error:
            yield name, error


def _side_by_side(
    names: Sequence[str], size: str, out: Path, formats: Sequence[str], count: int, begin: Callable[[str], object]
) -> Iterator[Outcome]:
    free, ended, told = free_memory(), {}, iter(names)
    share = None if free is None else free // count
    upcoming = next(told, None)
    with connected(LOCAL, count, UNLIMITED, one_thread=False) as client:  # the same bits as in turn
        for name, error in finished_experiments(client, names, begin, size, str(out), formats, share):
            ended[name] = error
            while upcoming in ended:
                yield upcoming, ended[upcoming] or store.run(upcoming, size, out=out, reuse=True)
                upcoming = next(told, None)


def _default(experiments: int) -> int:
    """As many processes as have a core and memory enough."""
    import jax

    if importlib.util.find_spec("distributed") is None or jax.default_backend() != "cpu":
        return 1
    free = free_memory()
    return max(1, min(experiments, cores(), cores() if free is None else free // NEED))
