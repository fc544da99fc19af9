"""The papers and their figures as figures.toml lists them, in the order in which the papers speak of them."""

import functools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Listed:
    """A figure in the listing.

    source: its place in the paper. finding: the result, in one sentence that the record supports. differs: where the
    full settings are not the paper's, or say what it leaves open. module: where it is (default: as the name says), or
    module:object. seconds: roughly what it takes.
    """

    name: str
    paper: str
    source: str
    title: str
    finding: str
    differs: str = ""
    module: str = ""
    seconds: float = 10.0


@functools.cache
def _listing() -> tuple[dict[str, dict[str, str]], dict[str, Listed]]:
    """Read the file once, when it is first needed; parts of texts in braces are shared by several figures."""
    listing = tomllib.loads((files("neuralrace.papers") / "figures.toml").read_text(encoding="utf-8"))

    def entry(given: Mapping[str, Any]) -> dict[str, Any]:
        texts = {key: value.format(**listing["shared"]) for key, value in given.items() if isinstance(value, str)}
        return {**given} | {key: " ".join(text.split()) for key, text in texts.items()}

    papers = {sign: entry(given) for sign, given in listing["papers"].items()}
    return papers, {name: Listed(name, **entry(given)) for name, given in listing["figures"].items()}


def papers() -> Mapping[str, Mapping[str, str]]:
    """The papers by their signs, such as P1: what each says and what the measurements say."""
    return _listing()[0]


def figures() -> Mapping[str, Listed]:
    """The figures by name."""
    return _listing()[1]


def heading(paper: str) -> str:
    """The sign of a paper with its short name."""
    return f"{paper}: {papers()[paper]['short']}"


def by_paper(chosen: Sequence[str]) -> dict[str, list[str]]:
    """Group names of figures by their paper, in its order; papers without any are left out."""
    found = {
        sign: [name for name, listed in figures().items() if listed.paper == sign and name in chosen]
        for sign in papers()
    }
    return {sign: own for sign, own in found.items() if own}
