"""An explanation as a page, and as plain text."""

import textwrap
from collections.abc import Sequence
from typing import Any

from neuralrace._page import document, panels, render
from neuralrace.explanation.tables import Section, course, sections

WIDE = 110  # columns: a wider table is written row by row


def render_page(told: Any) -> str:
    """HTML that needs no other file and no network; every panel is an image of its own, and enlarges."""
    shown = [panel for figure in told.panels().values() for panel in panels(figure)]
    title = f"neuralrace: {told.name} explained"
    values = {"title": title, "told": told, "course": course(told), "panels": shown, "sections": sections(told)}
    return document(title, render("neuralrace.explanation", "explanation.html", values))


def render_text(lead: str, tables: Sequence[Section]) -> str:
    """The lead, then every section: tables are aligned, row by row where they are too wide."""
    lines = textwrap.wrap(lead, WIDE)
    for title, note, head, rows in tables:
        lines += ["", title.lower(), *textwrap.wrap(note, WIDE, initial_indent="  ", subsequent_indent="  ")]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        if rows and len(head) == 1:  # a list
            for (item,) in rows:
                lines += textwrap.wrap(item, WIDE, initial_indent="  - ", subsequent_indent="    ")
        elif rows and sum(widths) + 2 * len(widths) <= WIDE:
            for row in (head, *rows):
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                lines.append(f"  {'  '.join(cells)}".rstrip())
        else:
            for first, *others in rows:
                lines.append(f"  {first}")
                for name, cell in zip(head[1:], others, strict=True):
                    text = f"{name}: {cell}"
                    lines += textwrap.wrap(text, WIDE, initial_indent=" " * 6, subsequent_indent=" " * 8)
    return "\n".join(lines)
