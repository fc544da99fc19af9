"""The report of experiments: one self-contained page with every figure beside its claims."""

from neuralrace.report.page import render_report, write_report

__all__ = ["render_report", "write_report"]
