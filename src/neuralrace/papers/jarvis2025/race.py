"""P2 Lemma 4.1 and the race of all gatings: the gates that a neuron can have, and which of them win."""

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.papers._common import panels
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.jarvis2025 import _contextual as p2

ONE, TWO = "one example", "two contexts"
CHUNK = 20_000  # patterns whose singular values are computed at once


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """The paper's rate times ten, since few items are learned more slowly than many.

    tables: items x contexts for which every gate pattern of one neuron is listed. raced: a table, all of whose gatings
    with at most `most` modules are raced. items: of the task with three contexts whose every possible
    module is ranked.
    """

    seeds: int = 5
    paper_rate: float = 0.01
    steps: int = 4000
    every: int = 25
    tables: tuple[str, ...] = ("2x2", "2x3", "4x2", "4x3")
    raced: str = "2x2"
    most: int = 4
    items: int = 8


def table_of(table: str) -> nr.tasks.NamedTask:
    """The task of a table, items x contexts."""
    items, _, contexts = table.partition("x")
    if not (items.isdecimal() and contexts.isdecimal()):
        raise nr.NeuralRaceError(f"a table must be items x contexts, like 4x3; it was {table!r}")
    return nr.tasks.contextual(int(contexts), items=int(items))


def by_context(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether a pattern depends on the context alone; patterns: (..., N), one context after the other."""
    grid = patterns.reshape(*patterns.shape[:-1], contexts, -1)
    return np.asarray((grid == grid[..., :1]).all(axis=(-1, -2)))


def allowed(patterns: np.ndarray, contexts: int) -> np.ndarray:
    """Whether P2 Lemma 4.1 allows a pattern: by the context alone, or on for a single example."""
    return by_context(patterns, contexts) | (patterns.sum(axis=-1) == 1)


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
    for first in range(0, len(patterns), CHUNK):
        rows = patterns[first : first + CHUNK, :, None] * inputs
        found.append(np.linalg.eigvalsh(rows.swapaxes(1, 2) @ (similarity @ rows))[:, -1])
    return np.sqrt(np.maximum(np.concatenate(found), 0))


def all_gatings(patterns: np.ndarray, named: nr.tasks.NamedTask, most: int) -> list[np.ndarray]:
    """Every set of at most `most` patterns; of those that exchanging items and contexts turns into another, one."""
    items, contexts = (int(named.groups[name].max()) + 1 for name in ("item", "context"))
    grid = np.arange(items * contexts).reshape(contexts, items)
    kinds = itertools.product(itertools.permutations(range(contexts)), itertools.permutations(range(items)))
    orders = [grid[np.ix_(rows, columns)].ravel() for rows, columns in kinds]
    number = {row.tobytes(): i for i, row in enumerate(patterns)}
    moved = [[number[row[order].tobytes()] for row in patterns] for order in orders]
    subsets = (s for size in range(1, most + 1) for s in itertools.combinations(range(len(patterns)), size))
    first = [s for s in subsets if all(s <= tuple(sorted(to[i] for i in s)) for to in moved)]
    return [patterns[list(chosen)] for chosen in first]


def compute(settings: Settings) -> xarray.Dataset:
    """List the patterns of one neuron, rank them as modules, and race gatings made of them beside ReLU networks.

    module_rate: the first singular value of what a neuron's pattern lets through, of what the common pathway cannot
    learn; a module grows from small weights at twice this rate.
    """
    counts = []
    for table in settings.tables:
        named = table_of(table)
        patterns = nr.reln.implementable_patterns(named.task.inputs["x"], strict=True)
        contexts = int(named.groups["context"].max()) + 1
        chosen = (allowed(patterns, contexts), checkerboards(patterns, contexts))
        counts.append([len(patterns), *(rows.sum() for rows in chosen)])
    kinds = ["implementable", "allowed by the lemma", "with a checkerboard"]
    data = xarray.Dataset(coords={"table": list(settings.tables), "kind": kinds})
    data["patterns"] = (("table", "kind"), np.array(counts, dtype=float))
    count = settings.items
    named = nr.tasks.contextual(3, "mixed" if count == 8 else "hierarchy", count)
    inputs, patterns = named.task.inputs["x"], staircases(count, 3)
    at_start = first_values(patterns, inputs, named.task.targets["y"])
    later = first_values(patterns, inputs, p2.left_over(named.task))
    sums, contextual = patterns.sum(axis=1), by_context(patterns, 3)
    grid = patterns.reshape(len(patterns), 3, -1)
    modules = {
        ONE: sums == 1,
        "one context": contextual & (sums == count),
        TWO: contextual & (sums == 2 * count),
        "some items": (grid == grid[:, :1]).all(axis=(1, 2)),
        "any": sums > 0,
    }
    data = data.assign_coords(module=list(modules))
    data["modules"] = ((), len(patterns) - 1)
    data["whole_ratio"] = ((), float(np.sort(at_start)[-2] / at_start[patterns.all(axis=1)][0]))
    data["faster"] = ((), int(np.sum(later > later[modules[TWO]].max() * (1 + 1e-9))))
    data["module_rate"] = ("module", np.array([later[chosen].max() for chosen in modules.values()]))
    return data.merge(race(settings)).assign_attrs(raced=settings.raced)


def race(settings: Settings) -> xarray.Dataset:
    """Forecasts of all gatings of a small table beside ReLU networks trained on it; all pathways are equally wide.

    gap: normalized L1 from the ReLU networks. used: the share of the ReLU networks' strength, at the end, in neurons
    whose pattern is one of the gating's.
    """
    named = table_of(settings.raced)
    patterns = nr.reln.implementable_patterns(named.task.inputs["x"], strict=True)
    patterns = patterns[patterns.any(axis=1)]
    run = settings.relu(named.task, record="gate_patterns")
    last, strength = p2.final_patterns(run)
    share = np.array([strength[(last == row).all(axis=-1)].sum() for row in patterns]) / strength.sum()
    # one network of all patterns, compiled once: a closed pathway has weights of zero, which stay zero
    problem = nr.reln.gated_problem(named.task, patterns, settings.width)
    weights = settings.initial(problem, p2.THEORY_KEY)
    names, used, losses = [], [], []
    for gating in all_gatings(patterns, named, settings.most):
        chosen = [(gating == row).all(axis=1).any() for row in patterns]
        nodes = {f"m{module}" for module, on in enumerate(chosen) if on}
        opened = {edge: matrix * float(not nodes.isdisjoint(edge)) for edge, matrix in weights.items()}
        losses.append(nr.predict(problem, opened, run.time, method="flow").loss)
        names.append(" ".join(written(row, named) for row in gating))
        used.append(share[chosen].sum())
    data = xarray.Dataset(coords={"gating": names, "time": run.time, "pattern": [written(r, named) for r in patterns]})
    data["raced"], data["relu"] = (("gating", "time"), np.array(losses)), (("seed", "time"), run.loss)
    data["area"] = ("gating", np.trapezoid(losses, run.time, axis=1))
    data["gap"] = ("gating", np.array([p2.apart(run.time, loss, run.loss).normalized_l1 for loss in losses]))
    data["used"], data["share"] = ("gating", np.array(used)), ("pattern", share)
    return data


def written(pattern: np.ndarray, named: nr.tasks.NamedTask) -> str:
    """The pattern as 0 and 1, item by item, with a bar between contexts."""
    context = named.groups["context"]
    return "|".join("".join(str(int(bit)) for bit in pattern[context == c]) for c in np.unique(context))


def claims(data: xarray.Dataset) -> Claims:
    """Lemma 4.1, the modules that are possible, and the race of gatings made of them."""
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
    rates: Mapping[str, float] = dict(zip(data["module"].values, data["module_rate"].values, strict=True))
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
    claim.at_most(what, rates[ONE] / rates[TWO], 0.99)
    text = "Once the common pathway has learned, modules that are on in two contexts are the fastest of all."
    claim.finding("after P2 Proposition 4.2 (exhaustion), with Lemma 4.1 left out", text, "B")
    what = f"patterns, of {count:,}, with a larger first singular value of the residual"
    claim.at_most(what, int(data["faster"]), 0, form=",.0f")
    claim.detail("the largest are " + ", ".join(f"{kind} {rate:.3f}" for kind, rate in rates.items()))
    claim.fails("two contexts have 0.090, as one context has; patterns that part items as well have up to 0.156")
    area, gap, gatings = data["area"].values, data["gap"].values, [str(name) for name in data["gating"].values]
    best, nearest, table = int(np.argmin(area)), int(np.argmin(gap)), data.attrs["raced"]
    source = "after P2 Proposition 4.2, which is about the inputs of its section 4"
    text = (
        f"{table}, {len(gatings)} gatings: ReLU networks use the patterns of the fastest (least area under the loss)."
    )
    claim.finding(source, text, "C")
    what, used = "share of strength in neurons with a pattern of the winner", 100 * float(data["used"][best])
    claim.at_least(what, used, 90, " %", form=".0f")
    claim.detail(f"winner {gatings[best]}")
    claim.fails("modules on for all examples but one are fastest, and have 48 % of the strength")
    claim.finding(source, f"{table}: the winner has the loss of the ReLU networks.", "C")
    claim.at_most("normalized L1", gap[best], p2.L1, form=".3f")
    claim.detail(f"nearest {gatings[nearest]}, {gap[nearest]:.3f}")
    claim.fails("the winner is far faster (0.39); nearest is a common pathway with one for a context")
    return claim


def draw(data: xarray.Dataset) -> Figure:
    """How many patterns there are, the rates of the fastest modules, and the race beside ReLU networks."""
    figure, (patterns, rates, raced) = panels("A", "B", "C", height=3.9)
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
    time, relu, theory = data["time"].values, data["relu"].values, data["raced"].values
    for curve in theory:
        nr.plotting.theory_line(raced, time, curve, None, faint=True)
    nr.plotting.theory_line(raced, time, theory[int(np.argmin(data["area"].values))], "theory, the fastest gating")
    nr.plotting.training_band(raced, time, relu, "relu", "ReLU networks")
    learned = np.flatnonzero(relu.mean(axis=0) < 0.01 * relu[0, 0])
    raced.set_xlim(0, 2 * time[learned[0]] if len(learned) and learned[0] else time[-1])
    raced.set_ylim(bottom=0)
    items, contexts = data.attrs["raced"].split("x")
    title = f"{data.sizes['gating']} gatings of {items} items in {contexts} contexts: the networks are not the fastest"
    nr.plotting.label_axes(raced, title, nr.plotting.TIME, "loss")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-race",
    full=Settings(),
    tiny=Settings.tiny(paper_rate=0.02, tables=("2x2",), most=1, items=2),
    compute=compute,
    check=lambda settings: [table_of(table) for table in (*settings.tables, settings.raced, f"{settings.items}x3")],
    claims=claims,
    draw=draw,
    differs=f"{p2.DIFFERS} The rate is ten times the paper's, for few items are learned more slowly than many. From "
    "1e-7 (--set std=1e-7) every verdict is the same.",
    finding="A neuron can have many more gate patterns than the lemma allows, and on a small table the gating "
    "that wins the race is not the one that ReLU networks learn by.",
)
