"""One self-contained page with every figure beside its claims."""

from neuralrace.report.document import document, picture
from neuralrace.report.page import render_report, write_report

__all__ = ["document", "picture", "render_report", "write_report"]
