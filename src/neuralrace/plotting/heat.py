"""Matrices as pictures."""

from matplotlib.axes import Axes
from numpy.typing import NDArray


def heat_map(axis: Axes, matrix: NDArray, title: str, columns: str, *, block: int = 0, rows: str | None = None) -> None:
    """Draw a matrix with a colour bar; every `block` columns a domain begins, and four rows are one."""
    largest = float(abs(matrix).max()) or 1.0
    picture = axis.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    if block:
        for mark, count, step in ((axis.set_xticks, matrix.shape[1], block), (axis.set_yticks, matrix.shape[0], 4)):
            starts = range(0, count, step)
            mark(starts, [str(place + 1) for place in range(len(starts))])
    for side in ("top", "right"):
        axis.spines[side].set_visible(True)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(columns, fontsize=9)
    axis.set_ylabel(columns if rows is None else rows, fontsize=9)
    axis.figure.colorbar(picture, ax=axis, shrink=0.8)
