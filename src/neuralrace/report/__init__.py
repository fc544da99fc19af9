"""The report of experiments: one self-contained page with every figure beside its claims."""

from neuralrace.report.page import render_report, write_report
from neuralrace.report.section import render_section
from neuralrace.report.verdicts import counted, counts, tally, verdict

__all__ = [
    "counted",
    "counts",
    "render_report",
    "render_section",
    "tally",
    "verdict",
    "write_report",
]
