"""The exceptions of the package, and checks of values: messages state the fact, then the fix."""

import difflib
import inspect
from collections.abc import Collection, Iterable
from contextvars import ContextVar


class NeuralRaceError(Exception):
    """Base of every error that the package raises on purpose."""


class GateError(NeuralRaceError):
    """Gates that do not fit their architecture or task."""


class TaskError(NeuralRaceError):
    """Examples that do not form a data set."""


class ProblemError(NeuralRaceError):
    """A graph that is not a network, or an architecture, a task and gates that do not fit together."""


class WeightError(NeuralRaceError):
    """Weights or an initializer that do not fit a network."""


class RangeError(NeuralRaceError):
    """A number outside its valid range."""


class UnknownNameError(NeuralRaceError):
    """A name that is not registered, not a node, not an edge."""


class FileFormatError(NeuralRaceError):
    """A file in the wrong format, or damaged."""


class ResourceError(NeuralRaceError):
    """Work that needs more memory than is available, or longer than is reasonable."""


class AssumptionError(NeuralRaceError):
    """The assumptions of a requested method of the theory do not hold."""


COMMAND_LINE: ContextVar[bool] = ContextVar("command_line", default=False)  # whether it is the interface in use


def option(name: str, value: object = True) -> str:
    """Write an option in the syntax of the interface in use: missing='drop', or --missing drop."""
    if not COMMAND_LINE.get():
        return f"{name}={value!r}"
    return f"--{'no-' * (value is False)}{name}" + ("" if isinstance(value, bool) else f" {value}")


def nearest(name: object, known: Iterable[object]) -> str:
    """Suggest the known name that was probably meant, or list the known names."""
    options = [str(option) for option in known]
    close = difflib.get_close_matches(str(name), options, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(options[:12]) + (", ..." if len(options) > 12 else "")
    return f"known: {shown}" if options else "none is known"


def bounds_in_words(above: float | None, least: float | None, most: float | None) -> list[str]:
    """Describe the bounds of a number in words; None is no bound."""
    bounds = (("above", above), ("at least", least), ("at most", most))
    return [f"{word} {bound:g}" for word, bound in bounds if bound is not None]


def require_number(
    name: str, value: float, *, above: float | None = None, least: float | None = None, most: float | None = None
) -> float:
    """Return the value as a float, or say which range it had to lie in."""
    kind = getattr(getattr(value, "dtype", None), "kind", "")  # of NumPy's and JAX's numbers
    try:
        number = float("nan" if isinstance(value, bool | str | bytes) or kind == "b" else value)
    except (TypeError, ValueError, OverflowError):
        number = float("nan")
    good = abs(number) < float("inf") and (most is None or number <= most)
    if not good or not (above is None or number > above) or not (least is None or number >= least):
        bounds = " and ".join(bounds_in_words(above, least, most))
        raise RangeError(f"{name} must be a finite number{bounds and f', {bounds}'}; it was {shortened(value)}")
    return number


def require_count(name: str, value: int, *, least: int = 1, most: int | None = None) -> int:
    """Return the value as an int, or say that a whole number was required."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or int(value) < least:
        raise RangeError(f"{name} must be a whole number, at least {least}; it was {shortened(value)}")
    if most is not None and int(value) > most:
        raise RangeError(f"{name} must be at most {most:,}; it was {int(value):,}")
    return int(value)


def require_place(name: str, value: int, count: int) -> None:
    """Refuse an index that is out of range; negative ones count from the end."""
    if isinstance(value, bool) or not hasattr(value, "__index__") or not -count <= int(value) < count:
        raise RangeError(f"{name} must be from 0 to {count - 1}; it was {shortened(value)}")


def require_call(name: str, value: object, of: str, *arguments: object) -> None:
    """Refuse anything but a function of these arguments; of: the arguments in words."""
    fits = callable(value)
    try:
        inspect.signature(value).bind(*arguments)  # type: ignore[arg-type]
    except TypeError:
        fits = False
    except ValueError:  # a function without an inspectable signature
        pass
    if not fits:
        raise RangeError(f"{name} must be a function of {of}; it was {shortened(value)}")


def require_name(name: str, value: object, known: Iterable[str]) -> str:
    """Return the value, or refuse an unknown name with those that are known."""
    options = list(known)
    if not isinstance(value, str) or value not in options:
        raise UnknownNameError(f"{name} must be one of {', '.join(options)}; it was {shortened(value)}")
    return value


def require_known(value: object, known: Collection[object], fact: str) -> None:
    """Refuse an unknown name; fact: the first part of the message, before the suggestion of another name."""
    if value not in known:
        raise UnknownNameError(f"{fact}; {nearest(value, known)}")


def require_kind(name: str, value: object, kind: type | tuple[type, ...], error: type[NeuralRaceError]) -> None:
    """Refuse a value of another type; if its class has a `leads_to`, the message ends with this advice."""
    if not isinstance(value, kind):
        wanted = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
        way = getattr(type(value), "leads_to", None)
        article = "an" if wanted[0] in "AEIOU" else "a"
        raise error(f"{name} must be {article} {wanted}; it was {shortened(value)}{f': {way}' if way else ''}")


def shortened(value: object, most: int = 80) -> str:
    """Represent a value, or the type of an error and its message, in one short line."""
    try:
        shown = f"{type(value).__name__}: {value}" if isinstance(value, Exception) else repr(value)
    except Exception:  # whatever the `repr` of a caller's class raises
        shown = f"a {type(value).__name__}"
    shown = " ".join(shown.split())
    return shown if len(shown) <= most else f"{shown[: most - 3]}..."
