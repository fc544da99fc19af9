"""Progress of long work on standard error: a bar on a terminal or in a notebook, elsewhere one line now and then."""

import contextlib
import multiprocessing
import sys
import threading
import time

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

PATIENCE = 2.0  # seconds before anything is shown
LINES = 10.0  # seconds between two lines where there is no terminal
FRAME = 0.2  # seconds between two updates of a bar

_open: list["Meter"] = []  # the work under way in this process, the outermost first


class Meter:
    """Show the progress of a block of work that takes longer than two seconds, also while one call computes for long.

    total: of the amounts that `advance` counts, in a unit such as "steps"; None where it is not known. label: may be
    changed on the way. Of nested meters the outermost shows its label and the count of the innermost; processes that
    were started by another, such as workers, show nothing.
    """

    def __init__(
        self,
        label: str,
        total: float | None = None,
        unit: str = "",
        *,
        shown: bool = True,
        console: Console | None = None,
    ) -> None:
        self.label, self._total, self._unit, self._done = label, total, unit, 0.0
        self._shown = shown and sys.stderr is not None and multiprocessing.parent_process() is None
        self._console = Console(file=sys.stderr) if console is None else console
        self._ended, self._watching = threading.Event(), threading.Thread(target=self._watch, daemon=True)

    def advance(self, amount: float = 1.0) -> None:
        """Count finished work."""
        self._done += amount

    def __enter__(self) -> "Meter":
        if self._shown:
            self._began = time.monotonic()
            _open.append(self)
            if len(_open) == 1:
                self._watching.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown:
            _open.remove(self)
            self._ended.set()
            if self._watching.ident is not None:
                self._watching.join()

    def _state(self) -> tuple[str, str, float | None, float]:
        """Return the labels, the count and the time in words, and the total and the count of the innermost work."""
        under_way = list(_open) or [self]
        inner, seconds = under_way[-1], f"{time.monotonic() - self._began:.0f} s"
        if inner._total is not None:
            seconds = f"{inner._done:,.0f} of {inner._total:,.0f} {inner._unit}".rstrip() + f", {seconds}"
        return ", ".join(one.label for one in under_way), seconds, inner._total, inner._done

    def _watch(self) -> None:
        """Show the progress until the work has ended; the cursor of the terminal is restored then."""
        if not self._ended.wait(PATIENCE):
            with contextlib.suppress(OSError, ValueError):  # standard error was closed
                self._show()

    def _show(self) -> None:
        if self._console.is_dumb_terminal or not (self._console.is_terminal or self._console.is_jupyter):
            while True:
                self._console.print("{}: {}".format(*self._state()), markup=False, highlight=False, soft_wrap=True)
                if self._ended.wait(LINES):
                    return
        columns = TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[state]}")
        with Progress(*columns, console=self._console, transient=True, auto_refresh=False) as bar:
            task = bar.add_task("", total=None, state="")
            while True:
                label, state, total, done = self._state()
                bar.update(task, description=label, state=state, total=total, completed=done, refresh=True)
                if self._ended.wait(FRAME):
                    return
