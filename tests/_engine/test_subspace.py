import numpy as np

import neuralrace as nr
import oracle
from neuralrace._engine.subspace import lift, project, project_hidden


def test_descent_in_the_subspace_is_descent():
    """Two seeds, a wide node with gates of its own neurons in two groups, and another that a ReLU keeps whole."""
    random = np.random.default_rng(0)
    nodes = {"x": 2, "h": 30, "r": 9, "y": 3}
    graph = nr.Architecture(nodes, [("x", "h"), ("x", "r"), ("h", "y"), ("r", "y")])
    task = nr.Task({"x": random.normal(size=(7, 2))}, {"y": random.normal(size=(7, 3))})
    own = random.random((7, 2))[:, random.integers(0, 2, 30)]
    problem = nr.Problem(graph, task, nr.Gates({"h": own}), activations={"r": "relu"})
    seeds = [oracle.random_weights(graph, seed, 0.3) for seed in (1, 2)]
    stacked = {edge: np.stack([one[edge] for one in seeds]) for edge in graph.edges}
    inner, bases, gates = project_hidden(graph, stacked, problem.activations, problem.gates.neurons)
    assert list(bases) == ["h"]
    assert bases["h"].shape == (2, 30, 2 * 5)
    small = problem.resized({**nodes, "h": 10}, gates)
    for seed, wide in enumerate(seeds):
        narrow = {edge: matrix[seed] for edge, matrix in inner.items()}
        for _ in range(5):
            wide = {edge: wide[edge] - 0.1 * slope for edge, slope in oracle.gradient(problem, wide).items()}
            narrow = {edge: narrow[edge] - 0.1 * slope for edge, slope in oracle.gradient(small, narrow).items()}
        for edge, (source, target) in graph.edges.items():
            back = [bases[node][seed] if node in bases else None for node in (target, source)]
            # five steps, each exact to rounding
            np.testing.assert_allclose(lift(narrow[edge], *back), wide[edge], rtol=0, atol=1e-12)
            np.testing.assert_allclose(project(wide[edge], *back), narrow[edge], rtol=0, atol=1e-12)
    assert lift(np.ones((2, 4, 3, 10)), columns=bases["h"]).shape == (2, 4, 3, 30)
