"""Small problems whose statistics are known by construction."""

import itertools

import numpy as np
from scipy.integrate import solve_ivp

import oracle
from neuralrace.architecture import Architecture
from neuralrace.gates import Gates
from neuralrace.problem import Problem
from neuralrace.task import Task


def orthogonal(random, size):
    return np.linalg.qr(random.normal(size=(size, size)))[0]


def rows_with(random, strengths, variances, output, source):
    """Rows with Sigma_x = V diag(d) V^T and Sigma_yx = U diag(s) V^T (mean over the rows)."""
    count = len(variances)
    scores = np.sqrt(count) * orthogonal(random, count)
    inputs = scores * np.sqrt(variances) @ source.T
    targets = scores * (np.asarray(strengths) / np.sqrt(variances)) @ output[:, :count].T
    return inputs, targets


def chain(seed=0, strengths=(3.0, 2.0, 1.0), variances=None, hidden=(4,), outputs=3):
    """A chain x -> h1 -> ... -> y with given singular values."""
    random = np.random.default_rng(seed)
    size = len(strengths)
    variances = np.ones(size) if variances is None else variances
    inputs, targets = rows_with(random, strengths, variances, orthogonal(random, outputs), orthogonal(random, size))
    names = [f"h{i}" for i in range(len(hidden))]
    nodes = {"x": size, **dict(zip(names, hidden, strict=True)), "y": outputs}
    order = ["x", *names, "y"]
    architecture = Architecture(nodes, list(itertools.pairwise(order)))
    return Problem(architecture, Task({"x": inputs}, {"y": targets}))


def gated(seed, depth=2, pathways=3, configurations=3, size=3):
    """Parallel pathways with random real gates; every configuration has its own spectrum in the same bases."""
    random = np.random.default_rng(seed)
    output, source = orthogonal(random, size), orthogonal(random, size)
    blocks = [
        rows_with(random, random.uniform(0.5, 2, size), random.uniform(0.5, 1.5, size), output, source)
        for _ in range(configurations)
    ]
    config = np.repeat(np.arange(configurations), size)
    table = random.uniform(0.3, 1.0, (pathways, configurations)) * (random.random((pathways, configurations)) < 0.7)
    table[:, 0] = 1.0
    nodes, edges, gates = {"x": size, "y": size}, [], {}
    for p in range(pathways):
        names = ["x", *(f"h{p}_{level}" for level in range(depth - 1)), "y"]
        nodes |= dict.fromkeys(names[1:-1], 4)
        edges += list(itertools.pairwise(names))
        gates[names[1]] = table[p][config]
    task = Task({"x": np.vstack([x for x, _ in blocks])}, {"y": np.vstack([y for _, y in blocks])})
    return Problem(Architecture(nodes, edges), task, Gates(nodes=gates))


def tangled(seed=0):
    """A graph with two inputs, two outputs, a skip edge and random gates; nothing is diagonal."""
    random = np.random.default_rng(seed)
    architecture = Architecture(
        {"a": 3, "b": 2, "h": 4, "g": 3, "y": 2, "z": 3},
        [("a", "h"), ("b", "h"), ("h", "g"), ("h", "y"), ("g", "y"), ("g", "z"), ("b", "g")],
    )
    task = Task(
        {"a": random.normal(size=(12, 3)), "b": random.normal(size=(12, 2))},
        {"y": random.normal(size=(12, 2)), "z": random.normal(size=(12, 3))},
        random.uniform(0.5, 1.5, 12),
    )
    level = np.repeat([1.0, 0.5, 0.0], 4)
    gates = Gates(nodes={"g": level, "h": level[::-1] + 0.25}, edges={("b", "g"): np.tile([1.0, 0.0], 6)})
    return Problem(architecture, task, gates)


def without_ties(problem, seed=0):
    """The same network on changed targets: no two modes are equally strong, so LAPACK leaves no choice of bases."""
    changes = np.random.default_rng(seed)
    targets = {
        node: rows * changes.uniform(0.8, 1.2, rows.shape[1]) + 0.05 * changes.normal(size=rows.shape)
        for node, rows in problem.task.targets.items()
    }
    return Problem(problem.architecture, Task(problem.task.inputs, targets, problem.task.weights), problem.gates)


def flatten(problem, weights):
    return np.concatenate([weights[edge].ravel() for edge in problem.architecture.edges])


def unflatten(problem, vector):
    found, start = {}, 0
    for edge in problem.architecture.edges:
        shape = problem.architecture.shape(edge)
        found[edge] = vector[start : start + shape[0] * shape[1]].reshape(shape)
        start += shape[0] * shape[1]
    return found


def scipy_flow(problem, weights, times, method="DOP853", **tolerances):
    """The weights at the times, by scipy's integrator on back-propagation written out."""

    def velocity(_, vector):
        return -flatten(problem, oracle.gradient(problem, unflatten(problem, vector)))

    start = flatten(problem, weights)
    states = solve_ivp(velocity, (0, times[-1]), start, method, t_eval=times, **tolerances).y.T
    return [unflatten(problem, state) for state in states]


def descent(problem, weights, rate, steps):
    """Losses and last weights of plain gradient descent in numpy, by back-propagation written out."""
    history = oracle.descend(lambda at: oracle.gradient(problem, at), weights, rate, steps)
    return np.array([oracle.loss(problem, at) for at in history]), history[-1]
