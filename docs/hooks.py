"""Fill in what the registries and records know, and turn formulas into MathML: the pages need no network, no script."""

import re
from html import unescape
from typing import Any

import verdicts  # beside this file
from latex2mathml.converter import convert

import neuralrace as nr

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the listings that the registries know, and the verdicts on record."""
    experiments = [nr.experiments.get(name) for name in nr.experiments.names()]
    rows = "\n".join(f"| `{e.name}` | {e.title} | {e.source} |" for e in experiments)
    tasks = "\n".join(f"| `{name}` | {summary} |" for name, summary in nr.tasks.summaries().items())
    markdown = markdown.replace("<!-- experiments -->", f"| name | what it shows | source |\n|---|---|---|\n{rows}")
    markdown = markdown.replace("<!-- tasks -->", f"| name | what it is |\n|---|---|\n{tasks}")
    if "<!-- verdicts -->" in markdown:
        records = verdicts.read()
        markdown = markdown.replace("<!-- verdict counts -->", verdicts.render_counts(records))
        markdown = markdown.replace("<!-- verdicts -->", verdicts.render(records))
    return markdown


def on_page_content(html: str, **_: Any) -> str:
    """Replace each formula that arithmatex has marked."""

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return f'<{match[1]} class="formula">{convert(unescape(match[3]).strip(), display=display)}</{match[1]}>'

    return FORMULA.sub(mathml, html)
