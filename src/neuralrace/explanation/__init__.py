"""Explain one task: predict ReLU networks, train them, and describe them by modules."""

from neuralrace.explanation.explain import explain, resolve
from neuralrace.explanation.result import Explanation

__all__ = ["Explanation", "explain", "resolve"]
