"""An explanation as a page, and as plain text."""

import json
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure

from neuralrace._page import document, panels
from neuralrace.explanation.sections import Section

WIDE = 110  # columns: a wider table is written row by row


def render_page(
    name: str,
    verdict: tuple[bool, str],
    course: str,
    sections: Sequence[Section],
    figures: Iterable[Figure],
    settings: Mapping[str, Any],
) -> str:
    """HTML that needs no other file and no network; every panel is an image of its own, and enlarges.

    verdict: whether the networks are explained, and the answer in words. course: what was done.
    """
    title = f"neuralrace: {name} explained"
    shown = "".join(
        f"<figure><figcaption>{escape(panel.title)}</figcaption>{panel.image()}</figure>"
        for figure in figures
        for panel in panels(figure)
    )
    body = f"""<header><h1>{escape(title)}</h1>
<p class="verdict {"holds" if verdict[0] else "fails"}">{escape(verdict[1])}</p>
<p class="soft">{escape(course)}</p></header>
<section class="panels">{shown}</section>
{"".join(_section(section) for section in sections)}
<details><summary>Settings</summary><pre>{escape(json.dumps(settings, indent=1))}</pre></details>"""
    return document(title, body)


def _section(section: Section) -> str:
    note = f"<p>{escape(section.note)}</p>" if section.note else ""
    body = _html_table(section.head, section.rows) if section.rows else ""
    return f"<section><h2>{escape(section.title)}</h2>{note}{body}</section>\n"


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write a table that scrolls sideways where it is too wide."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


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
