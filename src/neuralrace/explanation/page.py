"""An explanation as a page."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure

from neuralrace._page import document, enlarging, picture, table
from neuralrace.explanation.sections import Section


def render_page(
    name: str,
    explained: bool,
    verdict: str,
    sections: Sequence[Section],
    figures: Mapping[str, Figure],
    settings: Mapping[str, Any],
) -> str:
    """HTML that needs no other file and no network; every panel is a picture of its own, and enlarges."""
    title = f"neuralrace: {name} explained"
    panels = "".join(f"<figure>{enlarging(picture(figure, what), what)}</figure>" for what, figure in figures.items())
    body = f"""<header><h1>{escape(title)}</h1>
<p class="verdict {"holds" if explained else "fails"}">{escape(verdict)}</p>
<p class="soft">First the loss was foreseen from the law of the weights. Then ReLU networks were trained, and their
modules found by what passes through their neurons. The networks played again with the gates of these modules are a
reconstruction: it describes them and predicts nothing. The race of gatings is theory, from the statistics of the task
alone. Nothing was fitted.</p></header>
<section class="panels">{panels}</section>
{"".join(_section(section) for section in sections)}
<details><summary>Settings</summary><pre>{escape(json.dumps(settings, indent=1))}</pre></details>"""
    return document(title, body)


def _section(section: Section) -> str:
    note = f"<p>{escape(section.note)}</p>" if section.note else ""
    body = table(section.head, section.rows) if section.rows else ""
    return f"<section><h2>{escape(section.title)}</h2>{note}{body}</section>\n"
