"""A progress bar for long work, on a terminal or in a notebook, after two seconds; when piped silent, or in lines."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds
LINES = 10.0  # seconds between two lines when piped
SURE = 10.0  # seconds after which a pace is known
LONG = 3600.0  # seconds of work that are announced, piped or not


class LongWait:
    """Says once how long work will take where that is very long, and how to make it shorter; its clock starts here."""

    def __init__(self, label: str, shorter: str, console: Console | None = None) -> None:
        self._label, self._shorter, self._started, self._told = label, shorter, time.monotonic(), False
        self._console = Console(file=sys.stderr) if console is None else console

    def look(self, done: float, total: float) -> None:
        """So much is done of what there is to do."""
        waited = time.monotonic() - self._started
        if self._told or waited < SURE or done <= 0:
            return
        self._told = True
        left = waited * max(total / done - 1, 0)
        if left > LONG:
            line = f"{self._label}: about {_in_words(left)} left at this pace; to make it shorter: {self._shorter}"
            self._console.print(line, highlight=False, soft_wrap=True)


class Meter:
    """Counts finished work of a known total; shows a bar once the work has taken longer than the patience.

    lines: where there is no terminal, say now and then and at the end how far it is, in a line of its own.
    """

    def __init__(
        self, label: str, total: float, *, shown: bool = True, console: Console | None = None, lines: bool = False
    ) -> None:
        self._label, self._total, self._done = label, total, 0.0
        self._console = Console(file=sys.stderr) if console is None else console
        self._shown, self._lines, self._told = shown, lines and shown, time.monotonic()
        self._started = time.monotonic()
        self._wait = LongWait(label, "fewer steps, seeds, neurons or examples", self._console) if shown else None
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""
        self._done += amount
        waited = time.monotonic() - self._started
        if self._wait is not None:
            self._wait.look(self._done, self._total)
        watched = self._shown and (self._console.is_terminal or self._console.is_jupyter)
        if self._lines and not watched and (self._done >= self._total or time.monotonic() - self._told > LINES):
            self._told = time.monotonic()
            self._console.print(f"{self._label}: {self._done:g} of {self._total:g}, {waited:.0f} s", highlight=False)
        if self._progress is None and watched and waited > PATIENCE and self._done < self._total:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                TextColumn("{task.percentage:>3.0f}%"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._progress.start()
            self._task = self._progress.add_task(self._label, total=self._total)
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=self._done)

    def __enter__(self) -> "Meter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()


def _in_words(seconds: float) -> str:
    """A time as people say it."""
    for unit, size in (("years", 365 * 86400.0), ("days", 86400.0)):
        if seconds > 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 3600:.2g} hours"
