"""Random problems for the promise of a certificate, and their exact learning curves by NumPy and scipy alone.

A case has a kind, a shape (sizes and graph) and a seed (data, gates, scale, weights). The suite takes few shapes, which
compile once; `soak.py` draws new shapes all the time.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.integrate import solve_ivp

import neuralrace as nr
from oracle import gradient, loss
from theory_problems import flatten, unflatten

TOLERANCE = 0.01  # normalized L1 that a certificate promises
ORACLE = 1e-3  # accuracy of the fixed steps that rectified networks are integrated by
FLOOR = 1e-8  # of the loss at zero output, below which losses count as equal
EVALUATIONS = 60_000  # a problem that takes scipy more than this is not counted


@dataclass
class Case:
    problem: nr.Problem
    weights: list[dict] | nr.initial.Initializer
    times: np.ndarray
    late: int = 0  # the first that is requested


class TooLongError(Exception):
    """The oracle takes too long for this problem."""


def inputs_and_targets(random, count, sizes, outputs):
    """White, colored or rank-deficient inputs; targets linear in some of them, with repeated strengths, or noise."""
    inputs, targets = {}, {name: np.zeros((count, size)) for name, size in outputs.items()}
    for name, size in sizes.items():
        rows = random.normal(size=(count, size))
        kind = random.choice(["white", "colored", "deficient", "raw"])
        if kind in ("white", "colored") and count >= size:
            rows = np.linalg.qr(rows)[0] * np.sqrt(count)
        if kind == "colored":
            rows = rows * 10 ** random.uniform(-1, 0.3, size)
        if kind == "deficient":
            rows = rows[:, : max(1, size // 2)] @ random.normal(size=(max(1, size // 2), size)) / np.sqrt(size)
        inputs[name] = rows
        for target, found in targets.items():
            rank = min(size, found.shape[1])
            strengths = random.choice([1.0, 1.0, 0.8, 0.5, 0.2, 0.0], size=rank)
            output = np.linalg.qr(random.normal(size=(found.shape[1], rank)))[0]
            turned = (
                np.eye(size)[:, :rank] if random.random() < 0.5 else np.linalg.qr(random.normal(size=(size, rank)))[0]
            )
            targets[target] = found + (rows @ turned * strengths) @ output.T
    noise = random.choice([0.0, 0.0, 0.3])
    return inputs, {name: rows + noise * random.normal(size=rows.shape) for name, rows in targets.items()}


def example_weights(random, count):
    kind = random.choice(["equal", "equal", "uneven", "few"])
    if kind == "equal":
        return None
    return random.uniform(0.2, 1.0, count) if kind == "uneven" else 10 ** random.uniform(-6, 0, count)


def chain(shape, random, depth):
    wide = depth == 2 and shape.random() < 0.3
    size = int(shape.integers(50, 801)) if wide else int(shape.integers(2, 12))
    hidden = int(shape.integers(1, 9)) if wide else int(2 ** shape.uniform(0, 6))
    count = size + 20 if wide else int(shape.integers(size, 30))
    nodes = {"x": size, **{f"h{i}": hidden for i in range(1, depth)}, "y": int(shape.integers(1, 7))}
    inputs, targets = inputs_and_targets(random, count, {"x": size}, {"y": nodes["y"]})
    names = list(nodes)
    task = nr.Task(inputs, targets, example_weights(random, count))
    return nr.Problem(nr.Architecture(nodes, list(pairwise(names))), task)


def graph(shape, random):
    """Two inputs, two outputs, skips and parallel edges, gates of any value on nodes and edges."""
    nodes = {name: int(shape.integers(1, 9)) for name in "abhgyz"}
    ends = {"ah": ("a", "h"), "bh": ("b", "h"), "hg": ("h", "g"), "hy": ("h", "y"), "gy": ("g", "y"), "gz": ("g", "z")}
    extra = {"second": ("h", "g"), "skip": ("a", "y"), "over": ("b", "g"), "long": ("b", "z")}
    ends |= {name: pair for name, pair in extra.items() if shape.random() < 0.5}
    count = int(shape.integers(12, 30))
    inputs, targets = inputs_and_targets(random, count, {n: nodes[n] for n in "ab"}, {n: nodes[n] for n in "yz"})
    places = np.arange(count) % int(shape.integers(1, 4))
    gates = nr.Gates(
        nodes={"g": random.choice([0.0, 0.5, 1.0, -1.3], 3)[places]} if shape.random() < 0.5 else {},
        edges={"hy": random.uniform(-0.5, 1.5, 3)[places]} if shape.random() < 0.5 else {},
    )
    return nr.Problem(nr.Architecture(nodes, ends), nr.Task(inputs, targets, example_weights(random, count)), gates)


def pathways(shape, random):
    """Parallel pathways of two layers that gates open in some configurations."""
    paths, size, outputs, hidden = (int(shape.integers(low, high)) for low, high in ((1, 5), (2, 8), (1, 6), (1, 17)))
    nodes = {"x": size, **{f"h{i}": hidden for i in range(paths)}, "y": outputs}
    edges = [edge for i in range(paths) for edge in (("x", f"h{i}"), (f"h{i}", "y"))]
    kinds = int(shape.integers(1, 4))
    count = kinds * int(shape.integers(size, 12))
    inputs, targets = inputs_and_targets(random, count, {"x": size}, {"y": outputs})
    opened = random.choice([0.0, 1.0, 1.0, 0.7], size=(paths, kinds))
    gates = nr.Gates(nodes={f"h{i}": opened[i][np.arange(count) % kinds] for i in range(paths)})
    return nr.Problem(nr.Architecture(nodes, edges), nr.Task(inputs, targets), gates)


def contextual(shape, random):
    structure = str(shape.choice(["mixed", "hierarchy"]))
    task = nr.tasks.contextual(int(shape.integers(2, 4)), structure)
    return task.problem(str(shape.choice(sorted(task.gatings))), hidden=int(2 ** shape.uniform(0, 4)))


def routing(shape, random):
    domains = int(shape.integers(1, 5))
    task = nr.tasks.routing(domains=domains, trained=int(shape.integers(1, domains + 1)))
    return task.problem("shared", hidden=int(2 ** shape.uniform(1, 5)))


def rectified(shape, random, layers=2):
    size, outputs = int(shape.integers(1, 5)), int(shape.integers(1, 4))
    hidden = int(2 ** shape.uniform(0, 6)) if shape.random() < 0.3 else int(shape.integers(1, 9))
    count = int(shape.integers(4, 14))
    layers = (hidden,) if shape.random() < 0.7 or layers == 1 else (hidden, hidden)
    rows = random.normal(size=(count, size))
    weights = example_weights(random, count)
    targets = random.normal(size=(count, outputs)) if random.random() < 0.7 else np.abs(rows[:, :1]) * np.ones(outputs)
    task = nr.Task({"x": rows}, {"y": targets}, weights)
    return nr.ReLUNetwork(task, hidden=layers, slope=float(random.choice([0.0, 0.0, 0.2])))


KINDS = {
    "two layers": lambda shape, random: chain(shape, random, 2),
    "three layers": lambda shape, random: chain(shape, random, 3),
    "four layers": lambda shape, random: chain(shape, random, 4),
    "graph": graph,
    "pathways": pathways,
    "contextual": contextual,
    "routing": routing,
    "saddle": lambda shape, random: chain(shape, random, 2 + (shape.random() < 0.3)),
    "rectified": rectified,
}


# for the soak alone: saddles whose noise is near rounding, and draws from an initializer
MORE = {
    "flat saddle": KINDS["saddle"],
    "drawn": lambda shape, random: rectified(shape, random, layers=1),
}


def depth(problem) -> int:
    return min(len(path.edges) for path in problem.architecture.paths())


def random_weights(kind, problem, random):
    """Gaussian weights at a scale from 1e-6 to 1, the larger the deeper; layers may differ in scale."""
    edges = problem.architecture.edges
    layers = depth(problem)
    low = {1: -6.0, 2: -6.0, 3: -2.0}.get(layers, -1.0) if kind != "rectified" else (-3.0 if layers == 2 else -1.0)
    std = 10 ** random.uniform(low, 0.0)
    if kind in ("saddle", "flat saddle"):
        return near_saddle(problem, random, least=-11 if kind == "saddle" else -14)
    ratio = 10 ** random.uniform(-1, 1) if random.random() < 0.2 and layers == 2 else 1.0
    weights = {}
    for number, edge in enumerate(edges):
        rows, columns = problem.architecture.shape(edge)
        matrix = random.normal(size=(rows, columns))
        weights[edge] = std * (ratio if number % 2 else 1.0) * matrix
    return weights


def near_saddle(problem, random, least):
    """Some modes of a chain learned, and noise of another size in every layer.

    Modes of equal strength are learned together, and hidden bases turn with them: the weights then do not depend on
    which of their bases LAPACK returns.
    """
    (inputs,), (targets,), mass = problem.task.inputs.values(), problem.task.targets.values(), problem.task.weights
    left, strengths, right = np.linalg.svd((targets * mass[:, None]).T @ inputs, full_matrices=False)
    edges, shapes = (
        list(problem.architecture.edges),
        [problem.architecture.shape(e) for e in problem.architecture.edges],
    )
    most = min(min(shape) for shape in shapes)
    kept = int(random.integers(0, min(most, int((strengths > 1e-9).sum())) + 1))
    while 0 < kept < len(strengths) and np.isclose(strengths[kept - 1], strengths[kept], rtol=1e-6):
        kept -= 1
    variances = np.maximum(np.sum((inputs @ right[:kept].T) ** 2 * mass[:, None], axis=0), 1e-12)
    layer = (strengths[:kept] / variances) ** (1 / len(edges))
    basis = [right[:kept].T]
    for shape in shapes[:-1]:
        basis.append(polar(random.normal(size=shape) @ basis[-1]))
    basis.append(left[:, :kept])
    noise = 10 ** random.uniform(least, -1, len(edges))
    return {
        edge: (basis[i + 1] * layer) @ basis[i].T + noise[i] * random.normal(size=shapes[i])
        for i, edge in enumerate(edges)
    }


def polar(matrix):
    """The nearest matrix with orthonormal columns."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    return left @ right


def make_case(kind, shape, seed) -> Case:
    random = np.random.default_rng([seed, 1])
    kinds = KINDS | MORE
    problem = kinds[kind](np.random.default_rng([shape, list(kinds).index(kind)]), random)
    weights = [random_weights(kind, problem, random) for _ in range(int(random.choice([1, 1, 2])))]
    scale = max(float(np.abs(matrix).max()) for matrix in weights[0].values())
    drive = [
        np.linalg.norm((rows * problem.task.weights[:, None]).T @ x, 2)
        for rows in problem.task.targets.values()
        for x in problem.task.inputs.values()
    ]
    rate = max(max(drive), 1e-3)
    layers = depth(problem)
    wait = 2 * max(-np.log(min(scale, 0.5)), 1.0) if layers <= 2 else min(min(scale, 0.5) ** (2 - layers), 100.0)
    end = random.uniform(0.5, 3.0) * (wait + 3) / rate
    drawn = nr.initial.gaussian(10 ** random.uniform(-3, -1)) if kind == "drawn" else weights
    return Case(problem, drawn, np.linspace(0, min(end, 400.0), 81))


def exact_losses(case: Case, weights: list[dict]) -> np.ndarray:
    """(sets of weights, T): the gradient flow of the oracle's gradient."""
    return np.array([_integrated(case.problem, one, case.times)[case.late :] for one in weights])


def _integrated(problem, weights, times):
    calls = 0

    def velocity(_, vector):
        nonlocal calls
        calls += 1
        if calls > EVALUATIONS:
            raise TooLongError
        return -flatten(problem, gradient(problem, unflatten(problem, vector)))

    def losses(states):
        return np.array([loss(problem, unflatten(problem, state)) for state in states])

    start = flatten(problem, weights)
    if not problem.activations:
        smallest = min(float(np.abs(matrix).max(initial=0.0)) for matrix in weights.values())
        atol = 1e-6 * max(min(smallest, 1e-3), 1e-12)
        found = solve_ivp(velocity, (0, times[-1]), start, "DOP853", times, rtol=1e-7, atol=atol)
        assert found.success, found.message
        return losses(found.y.T)
    before = None
    for width in 0.02 * 0.5 ** np.arange(8):  # until half the step changes the curve by less than it may be off
        with np.errstate(over="ignore", invalid="ignore"):
            here = losses(_heun(velocity, start, times, width))
        if before is not None and np.abs(here - before).sum() <= ORACLE * np.abs(here).sum():
            return here
        before = here
    raise TooLongError


def _heun(velocity, start, times, width):
    """Fixed steps: an adaptive method would stop at the thresholds that neurons slide along."""
    state, states = start, [start]
    steps = int(np.ceil((times[1] - times[0]) / width))
    width = (times[1] - times[0]) / steps
    for _ in range(len(times) - 1):
        for _ in range(steps):
            first = velocity(0, state)
            state = state + 0.5 * width * (first + velocity(0, state + width * first))
        states.append(state)
    return states


def judge(case: Case, **options) -> tuple[nr.theory.Forecast, float]:
    """The forecast by `auto`, and its distance from the exact learning curve of the same weights."""
    task, times = case.problem.task, case.times[case.late :]
    forecast = nr.predict(case.problem, case.weights, times, **options)
    drawn = [forecast.weights(0.0, draw) for draw in range(len(forecast.losses))] if callable(case.weights) else []
    silent = 0.5 * sum(float(task.weights @ (rows**2).sum(axis=1)) for rows in task.targets.values())
    exact = exact_losses(case, drawn or case.weights)
    curves = [np.maximum(losses, FLOOR * silent) for losses in (forecast.losses, exact)]
    return forecast, nr.agreement(*(nr.analysis.Line(times, losses) for losses in curves)).normalized_l1


def promised(case: Case) -> float:
    return TOLERANCE + (ORACLE if case.problem.activations else 0.0)
