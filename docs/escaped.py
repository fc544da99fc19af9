"""Docstrings with every `<` outside of code escaped: the reference shows averages such as <x x^T> as written."""

import re
from typing import Any

from griffe import Extension, Object

CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def escaped(text: str) -> str:
    """The text with `<` as an entity, except in code, which Markdown escapes itself."""
    return "".join(part if place % 2 else part.replace("<", "&lt;") for place, part in enumerate(CODE.split(text)))


class Escaped(Extension):
    """Escapes the docstring of everything that is read."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        """Replace the text before it is rendered."""
        if obj.docstring is not None:
            obj.docstring.value = escaped(obj.docstring.value)
