"""Tasks from files, as people have them: tables of text and .npz archives. Nothing in them is executed."""

from neuralrace.tasks.files.reading import read

__all__ = ["read"]
