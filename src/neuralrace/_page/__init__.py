"""HTML pages that need no other file and no network, and figures taken apart into panels for them."""

import functools
import io
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import quote

import jinja2
import matplotlib
import numpy as np
from markupsafe import Markup
from matplotlib.figure import Figure

from neuralrace.io import versions
from neuralrace.plotting import lay_out

__all__ = ["Panel", "document", "panels", "render"]

INCH = 96  # pixels of the screen for an inch of a figure
DENSE = 1500  # markers beyond which a cloud of points is stored as pixels
PLAIN = " !$&'()*+,/:;=?@[]{}|^`\n"  # characters that an image in a page need not encode


@functools.cache
def _environment(package: str) -> jinja2.Environment:
    folders = [jinja2.PackageLoader(package, "."), jinja2.PackageLoader("neuralrace._page", ".")]
    return jinja2.Environment(
        loader=jinja2.ChoiceLoader(folders),
        autoescape=lambda name: name is None or name.endswith(".html"),  # styles and scripts are ours
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def render(package: str, template: str, values: Mapping[str, Any]) -> str:
    """Fill a template of a package; every text is escaped."""
    return _environment(package).get_template(template).render(values)


def document(title: str, body: str) -> str:
    """Make a page of a body of HTML, with the style and the script that all pages share."""
    made_with = ", ".join(f"{name} {version}" for name, version in versions().items())
    made = f"{datetime.now(UTC):%Y-%m-%d %H:%M}"
    values = {"title": title, "body": Markup(body), "made": made, "versions": made_with}
    return render("neuralrace._page", "page.html", values)


class Panel(NamedTuple):
    """A panel of a figure: its letters, its title, and its image with its width in pixels."""

    letters: tuple[str, ...]
    title: str
    svg: bytes
    width: int

    def image(self) -> Markup:
        """The panel as an image that is part of a page."""
        encoded = quote(self.svg.decode("utf-8").replace('"', "'"), safe=PLAIN)
        image = '<img class="panel" width="{}" decoding="async" alt="{}" src="data:image/svg+xml,{}">'
        return Markup(image).format(self.width, self.title, Markup(encoded))


def panels(figure: Figure) -> list[Panel]:
    """Take a figure apart; the label of an axis has the letters of its panel, and titles are no part of the images.

    The figure is laid out once, as a whole, and then shown one panel at a time.
    """
    lay_out(figure)  # hidden parts must not move the rest
    found, axes = [], [axis for axis in figure.axes if axis.get_visible()]
    for axis in axes:
        words = " ".join((axis.title.get_text() or axis.get_title(loc="left")).split())
        named = tuple(filter(None, str(axis.get_label()).split(", ")))
        for other in axes:
            other.set_visible(other is axis)
        axis.title.set_visible(False)
        for line in axis.lines:
            if line.get_marker() not in ("None", None, "") and np.size(line.get_xdata()) > DENSE:
                line.set_rasterized(True)
        box = axis.get_tightbbox()
        assert box is not None  # it is visible
        around = box.transformed(figure.dpi_scale_trans.inverted()).padded(0.04)
        buffer = io.BytesIO()
        # fixed names within the image, no date: the same data give the same page
        with matplotlib.rc_context({"svg.hashsalt": "neuralrace", "svg.fonttype": "path"}):
            figure.savefig(buffer, format="svg", bbox_inches=around, dpi=200, metadata={"Date": None, "Creator": None})
        svg = buffer.getvalue()
        found.append(Panel(named, words, svg[svg.index(b"<svg") :], round(INCH * around.width)))
        axis.title.set_visible(True)
    for axis in axes:
        axis.set_visible(True)
    return found
