"""One call from a task to its story: ReLU networks predicted, trained, and taken apart into modules."""

from neuralrace.explanation.explain import explain, resolve
from neuralrace.explanation.result import Explanation

__all__ = ["Explanation", "explain", "resolve"]
