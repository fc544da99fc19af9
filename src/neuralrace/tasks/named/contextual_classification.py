"""Classification by the one or the other input component, depending on context."""

from functools import partial

import numpy as np

from neuralrace.errors import require_count
from neuralrace.task import Task
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.registry import NamedTask, register


@register("contextual_classification", summary="report the first or the second input, depending on context")
def contextual_classification(samples: int | None = None, seed: int = 0) -> NamedTask:
    """The target is the input component y = x_c that the context c names (P1 A.2).

    Both inputs are uniform between -1 and 1 and both contexts have probability 1/2.

    samples: how many examples to draw with `seed`. None gives instead eight points that have exactly the
    moments of the population in each context: mean 0, <x x^T> = I/3. The context reaches the network
    through its gates only. Gatings: "linear", one pathway that is always open; "context", a pathway per
    context.
    """
    if samples is None:
        corners = np.array([[-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0], [1.0, 1.0]]) / np.sqrt(3.0)
        inputs, context = np.tile(corners, (2, 1)), np.repeat([0, 1], 4)
    else:
        count = require_count("samples", samples, most=10**7)
        generator = np.random.default_rng(require_count("seed", seed, least=0))
        inputs, context = generator.uniform(-1.0, 1.0, size=(count, 2)), generator.integers(2, size=count)
    task = Task({"x": inputs}, {"y": np.take_along_axis(inputs, context[:, None], axis=1)})
    by_context = {f"context{c}": context == c for c in range(2)}
    return NamedTask(
        name="contextual_classification",
        settings={"samples": samples, "seed": seed},
        task=task,
        gatings={
            "linear": partial(parallel_pathways, task, {"h": None}),
            "context": partial(parallel_pathways, task, by_context),
        },
        hidden=16,
        groups={"context": context},
    )
