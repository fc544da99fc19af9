"""What the routing figures share: the units of the paper, errors on trained and untrained routes, and two pictures."""

import numpy as np
from matplotlib.axes import Axes

from neuralrace.axes import Weights
from neuralrace.plotting import heat_map
from neuralrace.problem import Problem
from neuralrace.tasks import NamedTask

ITEMS, OUTPUTS = 4, 7  # of the base data set; the paper's loss is a mean over the outputs
ZERO_OUTPUT = 122.0  # the error of a network that says nothing


def draw_similarity(axis: Axes, similarity: np.ndarray, title: str) -> None:
    """Similarity between items of all input domains."""
    names = "item, by input domain"
    heat_map(axis, similarity, title, horizontal=names, vertical=names, value="cosine", blocks=(ITEMS, ITEMS))


def draw_outputs(axis: Axes, outputs: np.ndarray, title: str) -> None:
    """Outputs on all routes, as `output_picture` gives them."""
    heat_map(
        axis,
        outputs,
        title,
        horizontal="output domain",
        vertical="input domain",
        value="output",
        blocks=(ITEMS, OUTPUTS),
    )


def paper_rate(domains: int, trained: int, rate: float) -> float:
    """The paper's learning rate in units of ours.

    The paper descends the sum over K M routes of a mean squared error over 4 x 7 entries, without the half: 2 K M / 7
    times our loss. This is the one place where its units are converted.
    """
    return 2 * trained * domains / OUTPUTS * rate


def route_errors(problem: Problem, weights: Weights, named: NamedTask) -> tuple[float, float]:
    """Half the squared error of a route's 4 x 7 outputs, averaged over trained and over untrained routes.

    problem: the network on all routes; named: the complete task. Output zero gives 122. NaN where no such route is.
    """
    outputs = problem.forward(weights)
    squared = sum(np.sum((outputs[node] - rows) ** 2, axis=1) for node, rows in problem.task.targets.items())
    trained = named.groups["trained"].astype(bool)
    return _mean_error(squared[trained]), _mean_error(squared[~trained])


def _mean_error(squared: np.ndarray) -> float:
    return 0.5 * ITEMS * float(np.mean(squared)) if len(squared) else float("nan")


def representation_order(named: NamedTask) -> np.ndarray:
    """One example for each item and input domain, domain by domain; hidden activity does not depend on the output."""
    source, sink, item = (named.groups[group] for group in ("input domain", "output domain", "item"))
    first = np.flatnonzero(sink == 0)
    return first[np.lexsort((item[first], source[first]))]


def same_item_similarity(similarity: np.ndarray) -> np.ndarray:
    """The mean similarity between the same item in different domains; (..., examples, examples) in that order."""
    index = np.arange(similarity.shape[-1])
    same = (index[:, None] % ITEMS == index % ITEMS) & (index[:, None] // ITEMS != index // ITEMS)
    return similarity[..., same].mean(axis=-1)


def output_picture(problem: Problem, weights: Weights, named: NamedTask) -> np.ndarray:
    """The outputs of all routes: a row for each item and input domain, seven columns for each output domain."""
    outputs = problem.forward(weights)
    source, sink, item = (named.groups[group] for group in ("input domain", "output domain", "item"))
    domains = int(source.max()) + 1
    picture = np.zeros((domains * ITEMS, domains * OUTPUTS))
    for example in range(len(source)):
        columns = slice(OUTPUTS * sink[example], OUTPUTS * (sink[example] + 1))
        picture[ITEMS * source[example] + item[example], columns] = outputs[f"y{sink[example]}"][example]
    return picture
