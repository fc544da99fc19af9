"""Turn the formulas of a page into MathML, so that the built pages need no network and no script."""

import re
from html import unescape
from typing import Any

from latex2mathml.converter import convert

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(html: str, **_: Any) -> str:
    """Replace each formula that arithmatex has marked."""

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return f'<{match[1]} class="formula">{convert(unescape(match[3]).strip(), display=display)}</{match[1]}>'

    return FORMULA.sub(mathml, html)
