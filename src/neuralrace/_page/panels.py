"""A figure taken apart: each panel with its color bars and legend as a vector image of its own."""

import io
import re
from html import escape
from typing import NamedTuple
from urllib.parse import quote

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace.plotting import lay_out

INCH = 96  # pixels of the screen that an inch of a figure takes
DENSE = 1500  # markers beyond which a cloud of points is stored as pixels
SHARP = 200  # pixels of an inch of what is stored as pixels
MARGIN = 0.04  # inches around a panel
PLAIN = " !$&'()*+,/:;=?@[]{}|^`\n"  # what need not be encoded, for which the page is a quarter shorter
LETTERED = re.compile(r"^(\d*[a-z]|\d+|[A-Z])(?:, ([a-z]))?  +")  # "c  XOR" or "b, c  XOR" or "8  clusters"


class Panel(NamedTuple):
    """One panel: the letters it is known by, its title, and its image with its width in pixels."""

    letters: tuple[str, ...]
    title: str
    svg: bytes
    width: int

    def image(self) -> str:
        """The panel as an image that is part of a page."""
        encoded = quote(self.svg.decode("utf-8").replace('"', "'"), safe=PLAIN)
        return (
            f'<img class="panel" width="{self.width}" decoding="async" alt="{escape(self.title)}" '
            f'src="data:image/svg+xml,{encoded}">'
        )


def panels(figure: Figure) -> list[Panel]:
    """Every panel of a figure, in its order. The title is told apart and is no part of the image.

    The figure is laid out once, as a whole, and then shown one panel at a time: drawing knows nothing of this.
    """
    lay_out(figure)  # what is hidden must not move the rest
    return [_panel(figure, axis) for axis in figure.axes if axis.get_visible()]


def letters_of(title: str) -> tuple[tuple[str, ...], str]:
    """The letters that a title begins with, and the rest of it."""
    match = LETTERED.match(title)
    if match is None:
        return (), title.strip()
    return tuple(part for part in match.groups() if part), title[match.end() :].strip()


def _panel(figure: Figure, axis: Axes) -> Panel:
    title = axis.title.get_text() or axis.get_title(loc="left")
    title = " ".join(title.split("\n"))
    label = str(axis.get_label())
    letters, words = (tuple(label.split(", ")), title.removeprefix(label).strip()) if label else letters_of(title)
    hidden = [other for other in figure.axes if other is not axis and other.get_visible()]
    axis.title.set_visible(False)
    for other in hidden:
        other.set_visible(False)
    for line in axis.lines:
        if line.get_marker() not in ("None", None, "") and np.size(line.get_xdata()) > DENSE:
            line.set_rasterized(True)
    box = axis.get_tightbbox()
    assert box is not None  # it is visible
    around = box.transformed(figure.dpi_scale_trans.inverted()).padded(MARGIN)
    buffer = io.BytesIO()
    # fixed names within the image, no date: the same data give the same page
    with matplotlib.rc_context({"svg.hashsalt": "neuralrace", "svg.fonttype": "path"}):
        figure.savefig(buffer, format="svg", bbox_inches=around, dpi=SHARP, metadata={"Date": None, "Creator": None})
    for other in hidden:
        other.set_visible(True)
    axis.title.set_visible(True)
    return Panel(letters, words, _small(buffer.getvalue()), round(INCH * around.width))


def _small(svg: bytes) -> bytes:
    """The same image without what no browser reads, and with coordinates to a hundredth of a point."""
    text = svg.decode("utf-8")
    text = re.sub(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r"(?<=[ML ])(-?\d+\.\d{2})\d+", r"\1", text)
    text = re.sub(r' d="([^"]*)"', _tight, text)
    text = re.sub(r'<g id="[a-z]+_\d+">', "<g>", text)  # names of groups, to which nothing refers
    return re.sub(r"\n\s*", "\n", text).strip().encode("utf-8")


def _tight(path: re.Match[str]) -> str:
    """The same path without the spaces that its letters make needless."""
    joined = re.sub(r"\s*([A-Za-z])\s*", r"\1", path[1])
    return f' d="{joined.strip()}"'
