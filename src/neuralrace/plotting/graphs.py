"""Architectures as pictures."""

from matplotlib.axes import Axes

from neuralrace.architecture import Architecture
from neuralrace.plotting.labels import label_axes

ROOM = 0.2  # around the outermost nodes, so that none is cut


def draw_network(axis: Axes, architecture: Architecture, title: str) -> None:
    """The graph of a network with the sizes of its nodes, from left to right."""
    label_axes(axis, title, "from inputs to outputs", "")
    architecture.draw(axis)
    axis.margins(ROOM)
