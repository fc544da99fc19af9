"""Private machinery: HTML pages that need no other file and no network."""

from neuralrace._page.document import document, enlarging, picture, table

__all__ = ["document", "enlarging", "picture", "table"]
