"""The whole story of one task: ReLU networks trained, their modules found, raced, forecast and reported."""

from neuralrace.explanation.explain import explain
from neuralrace.explanation.report import Report
from neuralrace.explanation.resolve import resolve, task_settings

__all__ = ["Report", "explain", "resolve", "task_settings"]
