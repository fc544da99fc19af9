"""An explanation as a page."""

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from matplotlib.figure import Figure

from neuralrace._page import document, picture, table
from neuralrace.explanation.sections import Section


def render_page(
    name: str, explained: bool, verdict: str, sections: Sequence[Section], figure: Figure, settings: Mapping[str, Any]
) -> str:
    """HTML that needs no other file and no network."""
    title = f"neuralrace: {name} explained"
    body = f"""<header><h1>{escape(title)}</h1>
<p class="verdict {"holds" if explained else "fails"}">{escape(verdict)}</p>
<p class="soft">ReLU networks were trained and their modules found from their gates. The gated network of these
modules, solved from the law of the first weights, is a reconstruction: its modules come from the networks. The race of
gatings is theory, from the statistics of the task alone. Nothing was fitted.</p></header>
<section><figure>{picture(figure, "learning, modules, race and selectivity")}</figure></section>
{"".join(_section(section) for section in sections)}
<details><summary>Settings</summary><pre>{escape(json.dumps(settings, indent=1))}</pre></details>"""
    return document(title, body)


def _section(section: Section) -> str:
    note = f"<p>{escape(section.note)}</p>" if section.note else ""
    return f"<section><h2>{escape(section.title)}</h2>{note}{table(section.head, section.rows)}</section>\n"
