"""The largest curvature against finite differences."""

import numpy as np
import pytest

from neuralrace.arrays import float64
from neuralrace.theory.flow.linear import flow_sharpness
from neuralrace.theory.flow.system import NetworkSystem
from neuralrace.theory.sharpness import sharpness
from oracle import random_weights
from theory_problems import flatten, tangled, unflatten


@float64
def test_sharpness_is_the_largest_eigenvalue_of_the_hessian():
    problem = tangled()
    weights = random_weights(problem.architecture, 0, 0.6)
    point, width = flatten(problem, weights), 1e-5
    sides = [
        [flatten(problem, problem.gradient(unflatten(problem, point + sign * width * unit))) for sign in (1, -1)]
        for unit in np.eye(len(point))
    ]
    hessian = np.array([(up - down) / (2 * width) for up, down in sides])
    largest = pytest.approx(float(np.linalg.eigvalsh(hessian + hessian.T)[-1] / 2), rel=1e-3)
    assert flow_sharpness(problem.statistics(), weights) == largest
    # the same of the examples, one draw
    stacks = {name: stack[None] for name, stack in problem.network.stack(weights).items()}
    assert sharpness(NetworkSystem(problem.network).velocity, stacks) == largest
