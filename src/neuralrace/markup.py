"""A small table in HTML, for values that a notebook shows."""

import html
from collections.abc import Iterable, Sequence


def titled_table(title: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A title and a table below it; every text is escaped."""

    def line(cells: Sequence[object], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    return f"<div><b>{html.escape(title)}</b><table>{line(head, 'th')}{body}</table></div>"
