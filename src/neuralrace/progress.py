"""A progress bar for long work, on a terminal or in a notebook, after two seconds; when piped silent, or in lines."""

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

PATIENCE = 2.0  # seconds
LINES = 10.0  # seconds between two lines when piped


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
        self._progress: Progress | None = None
        self._task: TaskID | None = None

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""
        self._done += amount
        waited = time.monotonic() - self._started
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
