"""An HTML page that needs no other file and no network: its frame, its style, its tables, what made it."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files

from neuralrace.trajectory import RECORDED_VERSIONS

LONG = 30  # characters of a cell that gets room for a few words, so that the table scrolls on narrow screens


def document(title: str, body: str) -> str:
    """The page around a body of HTML, with the style and the few lines of script that all pages share."""
    style, script = (
        (files("neuralrace._page") / name).read_text(encoding="utf-8") for name in ("style.css", "script.js")
    )
    made_with = ", ".join(f"{name} {version(name)}" for name in RECORDED_VERSIONS)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
{body}
<footer class="soft"><p>Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC with {escape(made_with)}.</p></footer>
<script>{script}</script>
</body>
</html>
"""


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text that scrolls sideways where it is too wide."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    kind = ' class="long"' if len(text) > LONG else ""
    return f"<td{kind}>{escape(text)}</td>"
