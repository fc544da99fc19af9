"""Axis names, declared once; the shapes are checked in the tests only.

examples: rows of the data. seeds: independent runs. times: recorded moments. target, source: the two sides of a
weight matrix. states: distinct activities that a node takes over the examples.
"""

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jaxtyping import Bool, Float, Int

Edge = str | tuple[str, str]  # a name, or the (source, target) pair
Array = np.ndarray | jax.Array

PerExample = Float[np.ndarray, "examples"]
Chosen = Bool[np.ndarray, "examples"]
Rows = Float[np.ndarray, "examples size"]
States = Int[np.ndarray, "examples"]
Matrix = Float[np.ndarray, "target source"]
Weights = Mapping[Edge, Any]  # edge -> (target, source) matrix
