"""P2 Lemma 4.1 and Proposition 4.2: the gates that a neuron can have, and how fast modules of each kind grow."""

import itertools
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import Claims, panels, setting
from neuralrace.papers.jarvis2025 import _contextual as p2


@dataclass(frozen=True)
class Settings:
    """tables: items x contexts for which all gate patterns of a neuron are listed. items: of the task with modules."""

    tables: tuple[str, ...] = setting(("2x2", "2x3", "4x2", "4x3"), words=("2x2", "2x3", "4x2", "4x3"))
    items: int = setting(8, least=2, most=8)


full, tiny = Settings(), Settings(tables=("2x2",), items=2)


def by_context(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether each pattern depends on the context alone; patterns: (patterns, N), one context after the other."""
    grid = patterns.reshape(len(patterns), contexts, -1)
    return np.asarray((grid == grid[..., :1]).all(axis=(1, 2)))


def checkerboards(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether two items are on in one context each, and off in the other's; patterns: (patterns, N)."""
    grid = patterns.reshape(len(patterns), contexts, -1)
    only = grid[..., :, None] & ~grid[..., None, :]  # in a context, one item and not another
    return np.asarray((only[:, :, None] & only.swapaxes(-1, -2)[:, None]).any(axis=(1, 2, 3, 4)))


def staircases(items: int, contexts: int) -> np.ndarray:
    """Every pattern that one neuron can have on a table, (patterns, N): w.x = a_item + b_context has no checkerboard.

    With the contexts in the order of b, an item is on in the first few of them; how many is free for each item.
    """
    steps = np.array(list(itertools.product(range(contexts + 1), repeat=items)))
    ranks = np.array(list(itertools.permutations(range(contexts))))
    on = ranks[:, None, :, None] < steps[None, :, None, :]
    packed = np.unique(np.packbits(on.reshape(-1, contexts * items), axis=1), axis=0)
    return np.unpackbits(packed, axis=1, count=contexts * items).astype(bool)


def first_values(patterns: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The first singular value of the mean input-output correlation over the examples of each pattern."""
    similarity, found = targets @ targets.T / len(inputs) ** 2, []
    for chunk in np.array_split(patterns, -(-len(patterns) // 20_000)):  # as many at once as fit memory
        rows = chunk[..., None] * inputs
        found.append(np.linalg.eigvalsh(rows.swapaxes(1, 2) @ (similarity @ rows))[:, -1])
    return np.sqrt(np.maximum(np.concatenate(found), 0))


def compute(settings: Settings) -> xarray.Dataset:
    """List the patterns of one neuron on small tables, and rank all those of the mixed task as modules.

    module_rate: the first singular value of what a neuron's pattern lets through, of what the common pathway cannot
    learn; a module grows from small weights at twice this rate.
    """
    counts = []
    for table in settings.tables:
        items, contexts = map(int, table.split("x"))
        task = nr.tasks.contextual(contexts, items=items).task
        patterns = nr.reln.implementable_patterns(task.inputs["x"], strict=True)
        allowed = by_context(patterns, contexts) | (patterns.sum(axis=1) == 1)
        counts.append([len(patterns), allowed.sum(), checkerboards(patterns, contexts).sum()])
    kinds = ["implementable", "allowed by the lemma", "with a checkerboard"]
    data = xarray.Dataset(coords={"table": list(settings.tables), "kind": kinds})
    data["patterns"] = (("table", "kind"), np.array(counts, dtype=float))
    count = settings.items
    task, patterns = nr.tasks.contextual(3, "mixed" if count == 8 else "hierarchy", count).task, staircases(count, 3)
    at_start = first_values(patterns, task.inputs["x"], task.targets["y"])
    later = first_values(patterns, task.inputs["x"], p2.left_over(task))
    sums, contextual, grid = patterns.sum(axis=1), by_context(patterns, 3), patterns.reshape(len(patterns), 3, -1)
    modules = {
        "one example": sums == 1,
        "one context": contextual & (sums == count),
        "two contexts": contextual & (sums == 2 * count),
        "some items": (grid == grid[:, :1]).all(axis=(1, 2)),
        "any": sums > 0,
    }
    data["modules"] = ((), len(patterns) - 1)
    data["whole_ratio"] = ((), float(np.sort(at_start)[-2] / at_start[patterns.all(axis=1)][0]))
    data["faster"] = ((), int(np.sum(later > later[modules["two contexts"]].max() * (1 + 1e-9))))
    data["module_rate"] = ("module", np.array([later[chosen].max() for chosen in modules.values()]))
    return data.assign_coords(module=list(modules))


def claims(data: xarray.Dataset) -> Claims:
    claim, (possible, lemma, boards) = Claims(), data["patterns"].values.T
    names, count = [str(name) for name in data["table"].values], int(data["modules"])
    claim.check(
        "P2 Lemma 4.1, first step of the proof (appendix D)",
        "No neuron is active for item 1 in context 1 and item 2 in context 2 while being off on the remaining "
        "datapoints.",
        "A",
    )
    what = f"implementable patterns with such a checkerboard, of {possible.sum():.0f},"
    claim.at_most(what, boards.sum(), 0, form=".0f")
    claim.paper(
        "P2 Lemma 4.1",
        "For any gating pattern implementable by the ReLU network a neuron gates by the context alone or is active "
        "for a single datapoint.",
        "A",
    )
    what = "implementable patterns over those that the lemma allows, by items x contexts,"
    claim.within(what, dict(zip(names, possible / lemma, strict=True)), (1, 1))
    claim.detail("; ".join(f"{n}: {p:.0f} against {a:.0f}" for n, p, a in zip(names, possible, lemma, strict=True)))
    claim.fails(
        "every pattern without a checkerboard is implementable, such as on for all examples but "
        "one, or on for an item in every context; the proof excludes only the checkerboard"
    )
    rates = dict(zip(data["module"].values, data["module_rate"].values, strict=True))
    text = "The common pathway is the fastest possible module the network could implement."
    claim.paper("P2 Proposition 4.2", text, "B")
    what = f"of its first singular value, the next of all {count:,} patterns of the mixed task has"
    claim.at_most(what, float(data["whole_ratio"]), 0.99)
    claim.paper(
        "P2 Proposition 4.2 (edge case of Lemma 4.1)",
        "Once the common pathway has learned, a module for a single datapoint can only be slower than one for "
        "contexts.",
        "B",
    )
    what = "first singular value of the residual, single datapoint over two contexts,"
    claim.at_most(what, rates["one example"] / rates["two contexts"], 0.99)
    text = "Once the common pathway has learned, modules that are on in two contexts are the fastest of all."
    claim.finding("after P2 Proposition 4.2 (exhaustion), with Lemma 4.1 left out", text, "B")
    what = f"patterns, of {count:,}, with a larger first singular value of the residual"
    claim.at_most(what, int(data["faster"]), 0, form=",.0f")
    claim.detail("the largest are " + ", ".join(f"{kind} {rate:.3f}" for kind, rate in rates.items()))
    claim.fails("two contexts have 0.090, as one context has; patterns that part items as well have up to 0.156")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """How many patterns there are, and the rates of the fastest modules."""
    figure, (patterns, rates) = panels("A", "B", height=3.9)
    places, colors = np.arange(data.sizes["table"]), nr.plotting.COLORS
    for index, kind in enumerate(("gated", "relu")):
        label, bars = str(data["kind"].values[index]), data["patterns"].values[:, index]
        patterns.bar(places + 0.4 * index, bars, 0.4, color=colors[kind], label=label)
    patterns.set_yscale("log")
    patterns.set_xticks(places + 0.2, [str(name) for name in data["table"].values])
    title = "neurons can have more gate patterns than the lemma allows"
    nr.plotting.label_axes(patterns, title, "items x contexts", "patterns")
    rates.barh([str(kind) for kind in data["module"].values], data["module_rate"].values, color=colors["gated"])
    title = "after the common module, those that part items are the fastest"
    nr.plotting.label_axes(rates, title, "first singular value of the residual", "on for")
    return figure
