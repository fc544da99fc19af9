"""The exceptions of the package, and what is asked of values and of memory: what was required, what came, the mend."""

import contextlib
import difflib
import inspect
import os
from collections.abc import Collection, Iterable, Iterator
from contextvars import ContextVar
from pathlib import Path


class NeuralRaceError(Exception):
    """Base of every error that the package raises on purpose."""


class ArchitectureError(NeuralRaceError):
    """A graph that is not a network: a cycle, a dead end, an edge to a node that is not there."""


class GateError(NeuralRaceError):
    """Gates that do not fit their architecture or task."""


class TaskError(NeuralRaceError):
    """Examples that do not form a data set."""


class ProblemError(NeuralRaceError):
    """An architecture, a task and gates that do not fit together."""


class WeightError(NeuralRaceError):
    """Weights or an initialiser that do not fit a network."""


class PathLimitError(NeuralRaceError):
    """More paths than the caller allowed to enumerate."""


class RangeError(NeuralRaceError):
    """A number outside the range in which it means something."""


class UnknownNameError(NeuralRaceError):
    """A name that is not registered, not a node, not an edge."""


class FileFormatError(NeuralRaceError):
    """A file that is not what it should be."""


class ResourceError(NeuralRaceError):
    """Work that would take more memory than there is."""


class AssumptionError(NeuralRaceError):
    """A method of the theory was asked for and its assumptions do not hold."""


LESS_MEMORY = "give fewer seeds, draws, neurons, steps, records or examples"
LITTLE = 1 << 20  # bytes that nobody is asked about: asking takes longer than using them
GROUP = Path("/sys/fs/cgroup")  # where a container says what it may use

_ALLOWED: ContextVar[int | None] = ContextVar("allowed", default=None)


def nearest(name: object, known: Iterable[object]) -> str:
    """Say which known name was probably meant, or list what there is."""
    options = [str(option) for option in known]
    close = difflib.get_close_matches(str(name), options, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(options[:12]) + (", ..." if len(options) > 12 else "")
    return f"known: {shown}" if options else "none is known"


def bounds_told(above: float | None, least: float | None, most: float | None) -> list[str]:
    """The bounds of a number in words, those that there are."""
    told = (("above", above), ("at least", least), ("at most", most))
    return [f"{word} {bound:g}" for word, bound in told if bound is not None]


def require_number(
    name: str,
    value: float,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> float:
    """Return the value as a float, or say which range it had to lie in."""
    bounds = bounds_told(above, least, most)
    required = "a finite number" + (", " + " and ".join(bounds) if bounds else "")
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise RangeError(f"{name} must be {required}; it was {shortened(value)}") from None
    inside = (
        abs(number) < float("inf")
        and (above is None or number > above)
        and (least is None or number >= least)
        and (most is None or number <= most)
    )
    if not inside:
        raise RangeError(f"{name} must be {required}; it was {number:g}")
    return number


def require_count(name: str, value: int, *, least: int = 1, most: int | None = None) -> int:
    """Return the value as an int, or say that a whole number was required."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise RangeError(f"{name} must be a whole number, at least {least}; it was {shortened(value)}")
    if most is not None and int(value) > most:
        raise RangeError(f"{name} must be at most {most:,}; it was {int(value):,}")
    return int(value)


def require_place(name: str, value: int, count: int) -> None:
    """Refuse what is no place among so many; those below zero count from the end."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not -count <= int(value) < count:
        raise RangeError(f"{name} must be from 0 to {count - 1}; it was {shortened(value)}")


def require_call(name: str, value: object, of: str, *arguments: object) -> None:
    """Refuse what is no function of these arguments; of: what they are, in words."""
    fits = callable(value)
    try:
        inspect.signature(value).bind(*arguments)  # type: ignore[arg-type]
    except TypeError:
        fits = False
    except ValueError:  # a function that does not tell its arguments
        pass
    if not fits:
        raise RangeError(f"{name} must be a function of {of}; it was {shortened(value)}")


def require_name(name: str, value: object, known: Iterable[str]) -> str:
    """Return the value, or say which names there are, and which of them was probably meant."""
    options = list(known)
    if isinstance(value, str) and value in options:
        return value
    close = difflib.get_close_matches(value, options, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise UnknownNameError(f"{name} must be one of {', '.join(options)}; it was {shortened(value)}{hint}")


def require_known(value: object, known: Collection[object], told: str) -> None:
    """Refuse a name that is not there; told: what is said of it, before the one that was probably meant."""
    if value not in known:
        raise UnknownNameError(f"{told}; {nearest(value, known)}")


def require_kind(
    name: str, value: object, kind: type | tuple[type, ...], error: type[NeuralRaceError], article: str = "a"
) -> None:
    """Refuse a value of another type than a caller was asked for."""
    if not isinstance(value, kind):
        wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        raise error(f"{name} must be {article} {wanted}; it was {shortened(value)}")


def shortened(value: object, most: int = 80) -> str:
    """What a value looks like, in one line that is not long."""
    try:
        shown = " ".join(repr(value).split())
    except Exception:  # whatever a caller's own class does when it is asked
        shown = f"a {type(value).__name__}"
    return shortened_text(shown, most)


def in_one_line(error: BaseException, most: int = 300) -> str:
    """What kind of error it is and what it says."""
    return shortened_text(" ".join(f"{type(error).__name__}: {error}".split()), most)


def shortened_text(text: str, most: int) -> str:
    """A text, or as much of it as may be shown."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out: Python's, numpy's, or that of a device, which XLA tells in its own words."""
    said = str(error)
    return isinstance(error, MemoryError | ResourceError) or "RESOURCE_EXHAUSTED" in said or "Out of memory" in said


@contextlib.contextmanager
def memory_told() -> Iterator[None]:
    """Say of memory that ran out, wherever it did, how to need less."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_out_of_memory(error):
            raise
        line = in_one_line(error, 160)
        raise ResourceError(f"there is not enough memory for this: {LESS_MEMORY} ({line})") from None


def in_bytes(count: float) -> str:
    """A number of bytes as people say it."""
    amount, units = float(count), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while amount >= 1024 and len(units) > 1:
        amount, units = amount / 1024, units[1:]
    return f"{amount:.3g} {units[0]}"


def free_memory() -> int | None:
    """Bytes that a process can still take, or None where nobody says."""
    known = [number for number in (_of_the_machine(), _of_the_group(), _ALLOWED.get()) if number is not None]
    return min(known) if known else None


@contextlib.contextmanager
def memory_at_most(allowed: int | None) -> Iterator[None]:
    """Work that may take so many bytes for a while, as on a worker with a limit; None: what there is."""
    token = _ALLOWED.set(allowed)
    try:
        yield
    finally:
        _ALLOWED.reset(token)


def require_memory(what: str, needed: float, smaller: str) -> None:
    """Refuse work that surely needs more memory than is free, with the estimate and how to make it smaller."""
    free = free_memory() if needed > LITTLE else None
    if free is not None and needed > free:
        raise ResourceError(f"{what} would take {in_bytes(needed)} of memory and {in_bytes(free)} are free: {smaller}")


def _of_the_machine() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return None


def _of_the_group() -> int | None:
    try:
        most, used = ((GROUP / f"memory.{name}").read_text(encoding="ascii").strip() for name in ("max", "current"))
        return None if most == "max" else max(int(most) - int(used), 0)
    except (OSError, ValueError):
        return None
