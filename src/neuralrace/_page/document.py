"""An HTML page that needs no other file and no network: its frame, its style, its pictures and tables, what made it."""

import base64
import io
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from importlib.metadata import version
from importlib.resources import files

from matplotlib.figure import Figure

from neuralrace.trajectory import RECORDED_VERSIONS

LONG = 30  # characters of a cell that gets room for a few words, so that the table scrolls on narrow screens
SCREEN_DPI = 105  # how large an inch of a figure is on the screen


def document(title: str, body: str) -> str:
    """The page around a body of HTML, with the style and the few lines of script that all pages share."""
    style, script = (
        (files("neuralrace._page") / name).read_text(encoding="utf-8") for name in ("style.css", "script.js")
    )
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
<footer class="soft"><p>{escape(_versions())}</p></footer>
<script>{script}</script>
</body>
</html>
"""


def picture(figure: Figure, description: str) -> str:
    """A figure as an image that is part of the page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=150)
    encoded = base64.b64encode(buffer.getvalue()).decode("ascii")
    width = round(SCREEN_DPI * figure.get_figwidth())
    return f'<img width="{width}" alt="{escape(description)}" src="data:image/png;base64,{encoded}">'


def enlarging(image: str, name: str) -> str:
    """A picture that fills the screen when it is chosen, by style alone, and goes back when it is chosen again."""
    mark = f"large-{''.join(c if c.isalnum() else '-' for c in name)}"
    title = f"enlarge or go back: {escape(name)}"
    return f'<input type="checkbox" id="{mark}" class="large"><label for="{mark}" title="{title}">{image}</label>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text that scrolls sideways where it is too wide."""
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _cell(text: str) -> str:
    kind = ' class="long"' if len(text) > LONG else ""
    return f"<td{kind}>{escape(text)}</td>"


def _versions() -> str:
    listed = ", ".join(f"{name} {version(name)}" for name in RECORDED_VERSIONS)
    return f"Made {datetime.now(UTC):%Y-%m-%d %H:%M} UTC with {listed}."
