"""Private machinery: HTML pages that need no other file and no network."""

from neuralrace._page.document import document, table
from neuralrace._page.maths import set_maths
from neuralrace._page.panels import Panel, letters_of, panels

__all__ = ["Panel", "document", "letters_of", "panels", "set_maths", "table"]
