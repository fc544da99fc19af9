"""The report of experiments: one self-contained page with every figure beside its claims."""

from neuralrace.report.page import render_report, write_report
from neuralrace.report.section import render_section
from neuralrace.report.verdicts import by_kind, counted, counts, reason, tally, verdict

__all__ = [
    "by_kind",
    "counted",
    "counts",
    "reason",
    "render_report",
    "render_section",
    "tally",
    "verdict",
    "write_report",
]
