"""An explanation as plain text."""

import textwrap
from collections.abc import Sequence

from neuralrace.explanation.sections import Section

WIDE = 110  # columns: a wider table is written row by row


def render_text(lead: str, sections: Sequence[Section]) -> str:
    """The lead, then every section."""
    return "\n".join([*textwrap.wrap(lead, WIDE), *(line for section in sections for line in _lines(section))])


def _lines(section: Section) -> list[str]:
    note = textwrap.wrap(section.note, WIDE, initial_indent="  ", subsequent_indent="  ")
    return ["", section.title.lower(), *note, *_table(section)]


def _table(section: Section) -> list[str]:
    if not section.rows:
        return []
    if len(section.head) == 1:  # a list
        wrapped = [textwrap.wrap(row[0], WIDE, initial_indent="  - ", subsequent_indent="    ") for row in section.rows]
        return [line for lines in wrapped for line in lines]
    rows = [section.head, *section.rows]
    widths = [max(len(row[place]) for row in rows) for place in range(len(section.head))]
    if sum(widths) + 2 * len(widths) <= WIDE:
        aligned = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
        return [f"  {line}".rstrip() for line in aligned]
    lines: list[str] = []
    for row in section.rows:
        lines.append(f"  {row[0]}")
        for name, cell in zip(section.head[1:], row[1:], strict=True):
            lines += textwrap.wrap(f"{name}: {cell}", WIDE, initial_indent=" " * 6, subsequent_indent=" " * 8)
    return lines
