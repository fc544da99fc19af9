"""Matrices and architectures as pictures."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from numpy.typing import NDArray

from neuralrace.architecture import Architecture
from neuralrace.plotting.labels import label_axes

MOST = 12  # ticks on a side
SHORT = 5  # letters of a name that need not be turned
ROOM = 0.2  # around the outermost nodes, so that none is cut


def heat_map(
    axis: Axes,
    matrix: NDArray,
    title: str,
    horizontal: str,
    vertical: str,
    value: str,
    *,
    blocks: tuple[int, int] | None = None,
    names: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
    largest: float | None = None,
) -> None:
    """Draw a matrix with a color bar for its value, zero in white: from zero up, or to both sides where it has signs.

    blocks: how many rows and columns belong together; they are numbered from one. names: of single rows and columns.
    largest: the end of the scale, where several pictures share one; they then have both signs.
    """
    signed = largest is not None or bool(matrix.min() < 0)
    top = largest or float(abs(matrix).max()) or 1.0
    top = 1.0 if not signed and top <= 1 else top  # shares and gates on a scale from 0 to 1
    style: dict[str, Any] = {"cmap": "RdBu_r" if signed else "Blues", "vmin": -top if signed else 0.0, "vmax": top}
    picture = axis.imshow(matrix, aspect="auto", interpolation="nearest", **style)
    for place, mark in enumerate((axis.set_yticks, axis.set_xticks)):
        size = blocks[place] if blocks else 1
        starts = range(0, matrix.shape[place], size)
        labels = names[place] or [str(number + 1) for number in range(len(starts))]
        every = -(-len(labels) // MOST)
        middles = [(start + min(start + size, matrix.shape[place]) - 1) / 2 for start in starts]
        mark(middles[::every], list(labels)[::every], fontsize=9)
    if names[1] and max(map(len, names[1])) > SHORT:
        axis.tick_params(axis="x", rotation=45)
    for side in ("top", "right"):
        axis.spines[side].set_visible(True)
    label_axes(axis, title, horizontal, vertical)
    bar = axis.figure.colorbar(picture, cax=axis.inset_axes((1.03, 0.1, 0.05, 0.8)))
    bar.set_label(value, fontsize=9)
    bar.ax.tick_params(labelsize=9)


def draw_network(axis: Axes, architecture: Architecture, title: str) -> None:
    """The graph of a network with the sizes of its nodes, from left to right."""
    label_axes(axis, title, "from inputs to outputs", "")
    architecture.draw(axis)
    axis.margins(ROOM)
