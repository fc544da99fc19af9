"""What experiments there are, read from their declarations without running them, so that a listing is quick."""

import ast
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from neuralrace.errors import NeuralRaceError

DECLARATION = "EXPERIMENT"
SECONDS = 10.0  # of an experiment that does not say how long it takes


class Listed(NamedTuple):
    """One experiment in a listing, the module in `figures` that declares it, and how long it takes, about."""

    name: str
    title: str
    source: str
    module: str
    seconds: float = SECONDS


@functools.cache
def listed() -> Mapping[str, Listed]:
    """Name -> what a listing shows, in the order of the names."""
    files = sorted((Path(__file__).parent / "figures").glob("[!_]*.py"))
    found = [_declared(path) for path in files]
    return {entry.name: entry for entry in sorted(found)}


def names() -> tuple[str, ...]:
    """The names of all experiments."""
    return tuple(listed())


def _declared(path: Path) -> Listed:
    """The words of EXPERIMENT = Experiment(name="...", title="...", source="...", ...)."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Call)
            and ast.unparse(node.targets[0]) == DECLARATION
        ):
            words = {word.arg: word.value for word in node.value.keywords}
            name, title, source = (ast.literal_eval(words[key]) for key in ("name", "title", "source"))
            seconds = ast.literal_eval(words["seconds"]) if "seconds" in words else SECONDS
            return Listed(name, title, source, path.stem, seconds)
    raise NeuralRaceError(f"{path} must declare {DECLARATION} = Experiment(...), or start with '_'; it does not")
