"""Front doors that open on demand: a package imports a name's home when the name is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from neuralrace.errors import nearest


def open_on_demand(
    package: str, homes: Mapping[str, Sequence[str]], together: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562); homes: module -> the names that it gives.

    The names of the package itself are those of its modules. together: modules that are imported with whichever of them
    is needed first, so that no later call stops to import.
    """
    home_of = {name: module for module, names in homes.items() for name in names}

    def find(name: str) -> object:
        if name not in home_of:
            hint = "" if name.startswith("_") else f"; {nearest(name, home_of)}"
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        own = home_of[name] == package
        home = f"{package}.{name}" if own else home_of[name]
        for module in together if home in together else ():
            import_module(module)
        value = import_module(home) if own else getattr(import_module(home), name)
        setattr(import_module(package), name, value)  # asked for once
        return value

    return find, lambda: sorted(home_of)
