"""The named tasks: each gives a data set and, by name, the gatings that the papers use on it.

Every task is a function of this module, `tasks.xor(delta=0.5)`, and can be made by its name,
`tasks.get("xor", delta=0.5)`. A file in `tasks/named/` is all that a new one takes.
"""

from collections.abc import Callable

from neuralrace.errors import nearest
from neuralrace.tasks.cautions import cautions
from neuralrace.tasks.files import from_frame, read
from neuralrace.tasks.images import RoutedImages, routed_images
from neuralrace.tasks.registry import Gating, NamedTask, factories, get, names, register, summaries

__all__ = [
    "Gating",
    "NamedTask",
    "RoutedImages",
    "cautions",
    "factories",
    "from_frame",
    "get",
    "names",
    "read",
    "register",
    "routed_images",
    "summaries",
]


def __getattr__(name: str) -> Callable[..., NamedTask]:
    if not name.startswith("_") and name in (known := factories()):
        globals().update(known)  # found without this function from now on
        return known[name]
    hint = "" if name.startswith("_") else f"; {nearest(name, names())}"
    raise AttributeError(f"there is no task or function {name!r} in {__name__}{hint}")


def __dir__() -> list[str]:
    return [*__all__, *names()]
