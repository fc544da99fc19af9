"""An explanation as a page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure

from neuralrace._page import document, panels, set_maths, table
from neuralrace.explanation.sections import Section


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
        f"<figure><figcaption>{set_maths(panel.title)}</figcaption>{panel.image()}</figure>"
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
    body = table(section.head, section.rows) if section.rows else ""
    return f"<section><h2>{escape(section.title)}</h2>{note}{body}</section>\n"
