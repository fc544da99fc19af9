"""Front doors that open on demand: a package imports a name's home when the name is first asked for."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module

from neuralrace.errors import nearest


def open_on_demand(
    package: str, homes: Mapping[str, Sequence[str]], together: Sequence[str] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package (PEP 562); homes: module -> the names that it gives.

    The names of the package itself are those of its modules. together: modules that are imported, with all their names,
    when any of them is first needed, so that no later call stops to import.
    """
    home_of = {
        name: f"{package}.{name}" if module == package else module for module, names in homes.items() for name in names
    }

    def find(name: str) -> object:
        if name not in home_of:
            hint = "" if name.startswith("_") else f"; {nearest(name, home_of)}"
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint}")
        front = import_module(package)
        wanted = together if home_of[name] in together else (home_of[name],)
        for known, home in home_of.items():
            if home in wanted:  # asked for once
                module = import_module(home)
                setattr(front, known, module if home == f"{package}.{known}" else getattr(module, known))
        return getattr(front, name)

    return find, lambda: sorted(home_of)
