"""P1 Fig 6: from the race to the lazy regime as the initial weights grow."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, tasks
from neuralrace.analysis import cosine_similarity, kernel_change, tangent_kernel
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.experiments.routing import (
    ZERO_OUTPUT,
    draw_outputs,
    draw_similarity,
    output_picture,
    paper_rate,
    representation_order,
    route_errors,
    same_item_similarity,
)
from neuralrace.plotting import COLOURS, label_axes, loss_axis, new_figure
from neuralrace.training import train


@dataclass(frozen=True)
class Settings:
    """Scales and rates that were run; the text gives neither, nor M and K, which are taken from Fig 4."""

    domains: int = 7
    trained: int = 4
    hidden: int = 64
    smallest: float = 0.2
    largest: float = 2.5
    scales: int = 6
    paper_rate: float = 0.006  # divided by the cube root of the scale
    steps: int = 700
    seeds: int = 10


def compute(settings: Settings) -> xarray.Dataset:
    """Train from random orthogonal weights of every scale."""
    named = tasks.routing(settings.domains, settings.trained)
    problem = named.problem("shared", hidden=settings.hidden)
    everything, complete = named.evaluation("shared", hidden=settings.hidden), named.complete()
    order = representation_order(complete)
    scales = np.linspace(settings.smallest, settings.largest, settings.scales)
    found: dict[str, list] = {name: [] for name in ("loss", "time", "error", "similarity", "outputs", "change")}
    for scale in scales:
        rate = paper_rate(settings.domains, settings.trained, settings.paper_rate / np.cbrt(scale))
        law = initial.orthogonal(float(scale))
        run = train(problem, law, rate, settings.steps, seeds=settings.seeds)
        start = train(problem, law, rate, 0).weights(0)
        final = run.weights(0)
        found["loss"].append(run.loss)
        found["time"].append(run.time)
        found["error"].append([route_errors(everything, run.weights(seed), complete) for seed in range(settings.seeds)])
        found["similarity"].append(cosine_similarity(everything.activity(final)["h1"][order]))
        found["outputs"].append(output_picture(everything, final, complete))
        kernels = [tangent_kernel(problem, weights, traced=True) for weights in (start, final)]
        found["change"].append(kernel_change(*kernels))
    return xarray.Dataset(
        {
            "loss": (("scale", "seed", "step"), np.array(found["loss"])),
            "time": (("scale", "step"), np.array(found["time"])),
            "error": (("scale", "seed", "kind"), np.array(found["error"])),
            "similarity": (("scale", "example", "other"), np.array(found["similarity"])),
            "outputs": (("scale", "row", "column"), np.array(found["outputs"])),
            "change": ("scale", np.array(found["change"])),
        },
        coords={"scale": scales},
    )


def claims(data: xarray.Dataset) -> list[Claim]:
    """What the figure says."""
    trained, untrained = data["error"].mean("seed").values.T
    change = data["change"].values
    shares = same_item_similarity(data["similarity"].values)
    return [
        Claim(
            "Trained routes are learned at every initial scale.",
            "P1 section 4.3 and Fig 6b",
            "paper",
            f"mean trained error at the end below 1 % of {ZERO_OUTPUT:g} at every scale",
            _listed(trained),
            bool(trained.max() < 0.01 * ZERO_OUTPUT),
        ),
        Claim(
            "Routes that were never trained work only from small initial weights.",
            "P1 section 4.3 and Fig 6b",
            "paper",
            f"untrained error starts below 1 % of {ZERO_OUTPUT:g} and ends above 10 %, and what it exceeds the trained "
            "error by grows from scale to scale (the smallest scale is still learning when training stops)",
            f"untrained {_listed(untrained)}; excess {_listed(untrained - trained)}",
            bool(
                (np.diff(untrained - trained) > 0).all()
                and untrained[0] < 0.01 * ZERO_OUTPUT
                and untrained[-1] > 0.1 * ZERO_OUTPUT
            ),
        ),
        Claim(
            "Large initial weights are lazy: the tangent kernel hardly turns.",
            "P1 section 4.3",
            "paper",
            "one minus the cosine between the kernel at start and end falls from scale to scale",
            _listed(change),
            bool((np.diff(change) < 0).all()),
        ),
        Claim(
            "Representations are shared between domains only from small initial weights.",
            "P1 Fig 6c",
            "paper",
            "mean cosine between the same item in different domains falls from scale to scale",
            _listed(shares),
            bool((np.diff(shares) < 0).all()),
        ),
    ]


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.2g}" for value in values)


def draw(data: xarray.Dataset) -> Figure:
    """Loss, errors and laziness against scale; similarity and outputs for a small, a middle and a large scale."""
    figure, axes = new_figure(3, 3, width=4.2, height=3.1)
    scales = data["scale"].values
    for index, scale in enumerate(scales):
        shade = 0.3 + 0.7 * (index + 1) / len(scales)
        mean = data["loss"][index].mean("seed")
        axes[0, 0].plot(data["time"][index], mean, color=COLOURS["gated"], alpha=shade, label=f"scale {scale:.2f}")
    loss_axis(axes[0, 0], "a  loss, mean over seeds")
    for index, kind in enumerate(("gated", "untrained")):
        values = data["error"].isel(kind=index)
        errors = values.std("seed") / np.sqrt(data.sizes["seed"])
        name = ("trained", "untrained")[index]
        axes[0, 1].errorbar(scales, values.mean("seed"), errors, color=COLOURS[kind], fmt="o-", capsize=2, label=name)
    label_axes(axes[0, 1], "b  error at the end (mean and s.e.m.)", "initial scale", "error of a route")
    axes[0, 2].plot(scales, data["change"], "o-", color=COLOURS["gated"])
    label_axes(axes[0, 2], "how far the tangent kernel turned", "initial scale", "1 - cosine, start to end")
    for column, index in enumerate((0, len(scales) // 2, len(scales) - 1)):
        title = f"scale {scales[index]:.2f}"
        draw_similarity(axes[1, column], data["similarity"][index].values, f"c  similarity at h1, {title}")
        draw_outputs(axes[2, column], data["outputs"][index].values, f"d  outputs, {title}")
    return figure


EXPERIMENT = Experiment(
    name="saxe2022-fig6",
    title="Initial scale: from the race to the lazy regime",
    source="P1 Fig 6",
    full=Settings(),
    tiny=Settings(domains=3, trained=2, hidden=8, scales=3, steps=40, seeds=2),
    compute=compute,
    claims=claims,
    draw=draw,
)
