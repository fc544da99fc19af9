"""Private machinery: HTML pages that need no other file and no network."""

from neuralrace._page.document import document, enlarging, picture, table
from neuralrace._page.maths import set_maths
from neuralrace._page.panels import Panel, letters_of, panels

__all__ = ["Panel", "document", "enlarging", "letters_of", "panels", "picture", "set_maths", "table"]
