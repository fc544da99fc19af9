"""A progress bar for long work, on a terminal or in a notebook; when piped, silent or one line now and then."""

import sys
import time

from rich.console import Console
from rich.progress import Progress

PATIENCE = 2.0  # seconds before a bar appears
LINES = 10.0  # seconds between two lines when piped


class Meter:
    """Count finished work of a known total; show a bar once the work has taken longer than two seconds.

    lines: where there is no terminal, print the progress now and then and at the end.
    """

    def __init__(
        self, label: str, total: float, *, shown: bool = True, console: Console | None = None, lines: bool = False
    ) -> None:
        console = Console(file=sys.stderr) if console is None else console
        terminal = console.is_terminal or console.is_jupyter
        self._label, self._total, self._done = label, total, 0.0
        self._bar, self._lines = shown and terminal, shown and lines and not terminal
        self._started = self._printed = time.monotonic()
        self._progress = Progress(console=console, transient=True)

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""
        self._done += amount
        now = time.monotonic()
        if self._lines and (self._done >= self._total or now - self._printed > LINES):
            self._printed = now
            line = f"{self._label}: {self._done:g} of {self._total:g}, {now - self._started:.0f} s"
            self._progress.console.print(line, highlight=False)
        if self._bar and not self._progress.tasks and now - self._started > PATIENCE and self._done < self._total:
            self._progress.start()
            self._progress.add_task(self._label, total=self._total)
        for task in self._progress.tasks:
            self._progress.update(task.id, completed=self._done)

    def __enter__(self) -> "Meter":
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.tasks:
            self._progress.stop()
