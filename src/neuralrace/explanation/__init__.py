"""The whole story of one task: ReLU networks trained, their modules found, raced, reconstructed and told."""

from neuralrace.explanation.explaining import explain
from neuralrace.explanation.explanation import Explanation
from neuralrace.explanation.resolve import resolve, task_settings

__all__ = ["Explanation", "explain", "resolve", "task_settings"]
