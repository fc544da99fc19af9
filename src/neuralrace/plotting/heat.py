"""Matrices as pictures."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from numpy.typing import NDArray


def heat_map(
    axis: Axes,
    matrix: NDArray,
    title: str,
    *,
    horizontal: str,
    vertical: str,
    value: str,
    blocks: tuple[int, int] | None = None,
    names: tuple[Sequence[str] | None, Sequence[str] | None] = (None, None),
) -> None:
    """Draw a matrix with a colour bar for its value, zero in white.

    blocks: how many rows and columns belong together; they are numbered from one. names: of single rows and columns.
    """
    largest = float(abs(matrix).max()) or 1.0
    picture = axis.imshow(matrix, cmap="RdBu_r", vmin=-largest, vmax=largest, aspect="auto", interpolation="nearest")
    for place, mark in enumerate((axis.set_yticks, axis.set_xticks)):
        starts = range(0, matrix.shape[place], blocks[place] if blocks else 1)
        labels = names[place] or [str(number + 1) for number in range(len(starts))]
        mark(starts, list(labels), fontsize=8)
    if names[1]:
        axis.tick_params(axis="x", rotation=45)
    for side in ("top", "right"):
        axis.spines[side].set_visible(True)
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(horizontal, fontsize=9)
    axis.set_ylabel(vertical, fontsize=9)
    bar = axis.figure.colorbar(picture, ax=axis, shrink=0.8)
    bar.set_label(value, fontsize=8)
