"""The command line: what a command ends with, where it speaks, and what becomes of an accident.

Status 0: done. 1: a verdict other than recorded. 2: a user's mistake, in one line. 3: a fault of ours, in one line with
the file that holds the details. 130: interrupted. With --json one object is all that standard output gets.
"""

import contextlib
import ctypes
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence

from neuralrace.errors import NeuralRaceError
from neuralrace.memory import memory_told, search_seldom

DONE, MISTAKE, FAULT, INTERRUPTED = 0, 2, 3, 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    as_json = "--json" in given
    search_seldom()
    try:
        with _standard_output_kept_clear(as_json):
            status, told = _end_of(given)
    except KeyboardInterrupt:
        sys.unraisablehook = lambda _: None  # what was half made when the interruption came may fail to end
        status, told = INTERRUPTED, _failure("interrupted", INTERRUPTED)
    try:
        if as_json and told is not None:
            print(json.dumps(told))
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(status)


def _end_of(given: Sequence[str]) -> tuple[int, object]:
    """Run one command: its status, and what it has to tell as plain values."""
    try:
        from neuralrace.commands import perform  # here, so that an interruption while it loads is told like any other

        with memory_told():
            return perform(given)
    except (NeuralRaceError, OSError) as error:
        return MISTAKE, _failure(str(error), MISTAKE)
    except Exception as error:
        return FAULT, _failure(f"a fault of ours: {type(error).__name__}: {error} (details: {_log()})", FAULT)


def _failure(message: str, status: int) -> dict[str, object]:
    """Say in one line, away from standard output, what went wrong."""
    line = " ".join(message.split())
    print(f"neuralrace: {line}", file=sys.stderr)
    return {"error": line, "status": status}


def _log() -> str:
    """Keep the traceback of the present exception in a file of its own."""
    with tempfile.NamedTemporaryFile("w", prefix="neuralrace-", suffix=".log", delete=False, encoding="utf-8") as file:
        file.write(f"neuralrace {' '.join(sys.argv[1:])}\n\n{traceback.format_exc()}")
    return file.name


@contextlib.contextmanager
def _standard_output_kept_clear(wanted: bool) -> Iterator[None]:
    """Send to standard error what anybody writes to standard output, libraries in C included."""
    try:
        kept = os.dup(1) if wanted else -1
    except OSError:  # there is none
        kept = -1
    if kept < 0:
        yield
        return
    sys.stdout.flush()
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        with contextlib.suppress(OSError, TypeError, AttributeError):  # no C library to ask
            ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
