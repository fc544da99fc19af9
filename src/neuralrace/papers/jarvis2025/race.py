"""P2 Lemma 4.1 and the race of all gatings: the gates that a neuron can have, and which of them win."""

from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from neuralrace import reln, tasks
from neuralrace.analysis import time_to
from neuralrace.axes import Edge, Weights
from neuralrace.errors import RangeError
from neuralrace.initial import as_key
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment
from neuralrace.papers.jarvis2025 import _contextual as p2
from neuralrace.papers.jarvis2025 import _gatings
from neuralrace.plotting import COLORS, SERIES, label_axes, loss_axis, new_panels, theory_line, training_band
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.theory import predict

PROTOCOL_KEY = 2  # of the gatings trained by P2's protocol; ReLU networks have 0, forecasts 1
ONE, ONE_CONTEXT, TWO, ITEMS, ANY = "one example", "one context", "two contexts", "some items", "any"
HALF, AREA, NEAREST = "first to half of the first loss", "least area under the loss", "nearest"
PUBLISHED, PUBLISHED_LOSS = "published", "published loss"
FAILED = {  # table and claim -> what came instead
    ("2x2", HALF): "modules on for all examples but one, beside the common one, are first, with 60 % of the strength",
    ("2x2", AREA): "modules on for all examples but one are fastest, and have 48 % of the strength",
    ("2x2", NEAREST): "the winner is far faster (0.39); nearest is a common pathway with one for a context",
    ("2x2", PUBLISHED): "modules on for all examples but one, beside the common one, win again, with 60 %",
    ("2x2", PUBLISHED_LOSS): "0.09; it is still faster, though far less so than trained jointly (0.39)",
    ("2x3", HALF): "modules on in two contexts, for all examples but one and always are first, with 35 %",
    ("2x3", AREA): "modules on in two contexts and for all examples but one are fastest, with 22 %",
    ("2x3", NEAREST): "the winner is far faster (0.40); nearest is a common pathway with one for each item",
    ("2x3", PUBLISHED): "the winner has modules on in two contexts and for all examples but one, with 35 %",
    ("2x3", PUBLISHED_LOSS): "0.15; nearest, at 0.06, are modules for one context and for one example",
}

LEARNED = 0.01  # of the first loss; the race is drawn for twice as long as that takes
FAMILIES = {  # what the modules of a gating part -> the color of its forecast
    "common alone": COLORS["reference"],
    "by contexts": SERIES[0],
    "by items": SERIES[2],
    "by examples": SERIES[1],
    "by several": SERIES[3],
}


@dataclass(frozen=True)
class Settings(p2.ContextualSettings):
    """The paper's rate times ten, since few items are learned more slowly than many.

    tables: items x contexts for which every gate pattern of one neuron is listed. all_of, even_of: tables whose gatings
    are raced, and the most modules of a gating: all there are, or those that treat items alike and contexts alike.
    items: of the task with three contexts whose every possible module is ranked.
    """

    seeds: int = 5
    paper_rate: float = 0.01
    steps: int = 4000
    every: int = 25
    tables: tuple[str, ...] = ("2x2", "2x3", "4x2", "4x3")
    all_of: str = "2x2"
    most_of_all: int = 4
    even_of: str = "2x3"
    most_even: int = 10
    items: int = 8


def compute(settings: Settings) -> xarray.Dataset:
    """List the patterns of one neuron, rank them as modules, and race gatings made of them beside ReLU networks."""
    return xarray.merge([_patterns(settings), _modules(settings), _small(settings, True), _small(settings, False)])


def _sizes(table: str) -> tuple[int, int]:
    """Items and contexts of a table."""
    items, _, contexts = table.partition("x")
    if not (items.isdecimal() and contexts.isdecimal()):
        raise RangeError(f"a table must be items x contexts, like 4x3; it was {table!r}")
    return int(items), int(contexts)


def _named(table: str) -> NamedTask:
    items, contexts = _sizes(table)
    return tasks.contextual(contexts, items=items)


def check_tables(settings: Settings) -> None:
    """Every table is one."""
    for table in (*settings.tables, settings.all_of, settings.even_of, f"{settings.items}x3"):
        _named(table)


def _patterns(settings: Settings) -> xarray.Dataset:
    """How many patterns one neuron can have, how many of them the lemma allows, and how many its proof excludes."""
    counts = []
    for table in settings.tables:
        contexts = _sizes(table)[1]
        patterns = reln.implementable_patterns(_named(table).task.inputs["x"], strict=True)
        chosen = (_gatings.allowed(patterns, contexts), _gatings.checkerboards(patterns, contexts))
        counts.append([len(patterns), *(rows.sum() for rows in chosen)])
    kinds = ["implementable", "allowed by the lemma", "with a checkerboard"]
    data = xarray.Dataset(coords={"table": list(settings.tables), "kind": kinds})
    data["patterns"] = (("table", "kind"), np.array(counts, dtype=float))
    return data


def _modules(settings: Settings) -> xarray.Dataset:
    """The first singular value of all that a neuron's pattern lets through: of the targets, and of what is left.

    Left is what the common pathway alone cannot learn. A module grows from small weights at twice this rate.
    """
    count = settings.items
    named = tasks.contextual(3, "mixed" if count == 8 else "hierarchy", count)
    inputs, patterns = named.task.inputs["x"], _gatings.staircases(count, 3)
    at_start = _gatings.first_values(patterns, inputs, named.task.targets["y"])
    later = _gatings.first_values(patterns, inputs, p2.left_over(named.task))
    sums, by_context = patterns.sum(axis=1), _gatings.by_context(patterns, 3)
    kinds = {
        ONE: sums == 1,
        ONE_CONTEXT: by_context & (sums == count),
        TWO: by_context & (sums == 2 * count),
        ITEMS: _gatings.by_item(patterns, 3),
        ANY: sums > 0,
    }
    data = xarray.Dataset(coords={"module": list(kinds)})
    data["modules"] = ((), len(patterns) - 1)
    data["whole_ratio"] = ((), float(np.sort(at_start)[-2] / at_start[patterns.all(axis=1)][0]))
    data["faster"] = ((), int(np.sum(later > later[kinds[TWO]].max() * (1 + 1e-9))))
    data["module_rate"] = ("module", np.array([later[chosen].max() for chosen in kinds.values()]))
    return data


def _small(settings: Settings, every: bool) -> xarray.Dataset:
    """Forecasts of the gatings of a small table beside ReLU networks trained on it; all pathways are equally wide.

    reached: the time of half of the first loss. area: under the loss. gap: normalized L1 from the ReLU networks. used:
    the share of the ReLU networks' strength, at the end, in neurons whose pattern is one of the gating's.
    """
    table, most = (settings.all_of, settings.most_of_all) if every else (settings.even_of, settings.most_even)
    named = _named(table)
    patterns = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    patterns = patterns[patterns.any(axis=1)]
    sets = (_gatings.all_gatings if every else _gatings.even_gatings)(patterns, _gatings.symmetries(named), most)
    run = settings.relu(named.task, record="gate_patterns")
    last, strength = p2.final_patterns(run)
    share = np.array([strength[(last == row).all(axis=-1)].sum() for row in patterns]) / strength.sum()
    problem = reln.gated_problem(named.task, patterns, settings.width)
    weights = settings.law(problem, as_key(p2.THEORY_KEY))
    chosen = np.array([[(gating == row).all(axis=1).any() for row in patterns] for gating in sets])
    found = [predict(problem, _opened(weights, rows), run.time, method="flow") for rows in chosen]
    loss = np.array([forecast.loss for forecast in found])
    names = [" ".join(_gatings.written(row, named) for row in gating) for gating in sets]
    single = [_gatings.written(row, named) for row in patterns]
    data = xarray.Dataset(coords={"gating": names, "pattern": single, "moment": run.time})
    data["reached"] = ("gating", time_to(run.time, loss, 0.5 * loss[0, 0]))
    for way, losses in (("", loss), ("published_", _published(settings, named, patterns, chosen, len(run.time)))):
        data[f"{way}area"] = ("gating", np.trapezoid(losses, run.time, axis=1))
        data[f"{way}gap"] = ("gating", p2.distances(run.time, losses, run.loss))
    data["used"] = ("gating", chosen @ share)
    data["family"] = ("gating", [_gatings.family(gating, _sizes(table)[1]) for gating in sets])
    data["share"] = ("pattern", share)
    data["relu"] = (("seed", "moment"), run.loss)
    data["raced"] = (("gating", "moment"), loss)
    return data.rename({name: f"{name}_{table}" for name in {*map(str, data.variables), *map(str, data.dims)}})


def _published(
    settings: Settings, named: NamedTask, patterns: np.ndarray, chosen: np.ndarray, moments: int
) -> np.ndarray:
    """The losses of the gatings that have a common pathway and others, trained by P2's protocol; others are infinite.

    The common pathway descends its own loss; the others see the items only and descend what it leaves.
    """
    always, losses = np.asarray(patterns.all(axis=1)), np.full((len(chosen), moments), np.inf)
    raced = np.flatnonzero((chosen & always).any(axis=1) & (chosen & ~always).any(axis=1))
    if not len(raced):
        return losses
    item = np.eye(named.groups["item"].max() + 1)[named.groups["item"]]
    task = Task({**named.task.inputs, "item": item}, named.task.targets)
    names = [f"m{module}" for module in range(len(patterns))]
    pathways = {name: None if common else row for name, row, common in zip(names, patterns, always, strict=True)}
    sources = {name: "item" for name, gate in pathways.items() if gate is not None}
    problem = parallel_pathways(task, pathways, settings.width, sources)
    weights = settings.law(problem, as_key(PROTOCOL_KEY))
    first = [_opened(weights, rows) for rows in chosen[raced]]
    losses[raced] = settings.train(problem, first, coupling="residual", seeds=len(raced)).loss
    return losses


def _opened(weights: Weights, chosen: np.ndarray) -> dict[Edge, np.ndarray]:
    """Weights of the network of all patterns in which only the chosen pathways have any: weights of zero stay zero.

    One network for all gatings is compiled once.
    """
    open_nodes = {f"m{module}" for module, on in enumerate(chosen) if on}
    return {edge: matrix * float(not open_nodes.isdisjoint(edge)) for edge, matrix in weights.items()}


def claims(data: xarray.Dataset) -> Claims:
    """Lemma 4.1, the modules that are possible, and the races of gatings made of them."""
    claim = p2.claims()
    _lemma(claim.shown_in("A"), data)
    _fastest_modules(claim.shown_in("B"), data)
    for letter, table in zip("CD", tables(data), strict=False):
        _of_race(claim.shown_in(letter), data, table)
    return claim


def _lemma(claim: Claims, data: xarray.Dataset) -> None:
    possible, allowed, boards = data["patterns"].values.T
    names = [str(name) for name in data["table"].values]
    claim.check(
        "Lemma 4.1, first step of the proof (appendix D)",
        "No neuron is active for item 1 in context 1 and item 2 in context 2 while being off on the remaining "
        "datapoints.",
    )
    what = f"implementable patterns with such a checkerboard, of {possible.sum():.0f},"
    claim.at_most(what, boards.sum(), 0, form=".0f")
    claim.paper(
        "Lemma 4.1",
        "For any gating pattern implementable by the ReLU network a neuron gates by the context alone or is active "
        "for a single datapoint.",
    )
    what = "implementable patterns over those that the lemma allows, by items x contexts,"
    claim.within(what, dict(zip(names, possible / allowed, strict=True)), (1, 1))
    claim.detail("; ".join(f"{n}: {p:.0f} against {a:.0f}" for n, p, a in zip(names, possible, allowed, strict=True)))
    claim.fails(
        "every pattern without a checkerboard is implementable, such as on for all examples but "
        "one, or on for an item in every context; the proof excludes only the checkerboard"
    )


def _fastest_modules(claim: Claims, data: xarray.Dataset) -> None:
    count, rates = int(data["modules"]), dict(zip(data["module"].values, data["module_rate"].values, strict=True))
    claim.paper("Proposition 4.2", "The common pathway is the fastest possible module the network could implement.")
    what = f"of its first singular value, the next of all {count:,} patterns of the mixed task has"
    claim.at_most(what, float(data["whole_ratio"]), 0.99)
    claim.paper(
        "Proposition 4.2 (edge case of Lemma 4.1)",
        "Once the common pathway has learned, a module for a single datapoint can only be slower than one for "
        "contexts.",
    )
    what = "first singular value of what is left, single datapoint over two contexts,"
    claim.at_most(what, rates[ONE] / rates[TWO], 0.99)
    text = "Once the common pathway has learned, modules that are on in two contexts are the fastest of all."
    claim.finding("after P2 Proposition 4.2 (exhaustion), with Lemma 4.1 left out", text)
    what = f"patterns, of {count:,}, with a larger first singular value of what is left"
    claim.at_most(what, int(data["faster"]), 0, form=",.0f")
    claim.detail("the largest are " + ", ".join(f"{kind} {rate:.3f}" for kind, rate in rates.items()))
    claim.fails("two contexts have 0.090, as one context has; patterns that part items as well have up to 0.156")


def _of_race(claim: Claims, data: xarray.Dataset, table: str) -> None:
    names = [str(name) for name in data[f"gating_{table}"].values]
    area, gap, reached = (data[f"{name}_{table}"].values for name in ("area", "gap", "reached"))
    best, nearest = int(np.argmin(area)), int(np.argmin(gap))
    share, patterns = data[f"share_{table}"].values, data[f"pattern_{table}"].values
    most = ", ".join(f"{patterns[i]} {100 * share[i]:.0f} %" for i in np.argsort(-share)[:5])
    text = f"{table}, {len(names)} gatings: the patterns of the predicted winner are those that ReLU networks use"
    source = "after P2 Proposition 4.2, which is about the inputs of its section 4"
    for words, won in ((HALF, int(np.argmin(reached))), (AREA, best)):
        claim.finding(source, f"{text} ({words}).")
        _used(claim, data, table, words, won, f"; the strongest patterns are {most}")
    text = f"{table}: the loss of the winner ({AREA}) is that of the ReLU networks, and no other comes as near."
    claim.finding(source, text)
    claim.at_most("normalized L1", gap[best], p2.L1, form=".3f")
    claim.at_most("above the least of all gatings by", gap[best] - gap[nearest], 0, form=".3f")
    claim.detail(names[nearest])
    claim.fails(FAILED.get((table, NEAREST)))
    _of_published(claim, data, table)


def _of_published(claim: Claims, data: xarray.Dataset, table: str) -> None:
    names = [str(name) for name in data[f"gating_{table}"].values]
    area, gap = (data[f"{name}_{table}"].values for name in ("published_area", "published_gap"))
    best, nearest, raced = int(np.argmin(area)), int(np.argmin(gap)), int(np.isfinite(area).sum())
    source = "after P2 Proposition 4.2 and appendix F, by P2's protocol"
    text = f"{table}, {raced} gatings with a common pathway: the patterns of the winner ({AREA}) are those that ReLU "
    claim.finding(source, f"{text}networks use.")
    _used(claim, data, table, PUBLISHED, best)
    claim.finding(source, f"{table}: the loss of that winner is that of the ReLU networks.")
    claim.at_most("normalized L1", gap[best], p2.L1, form=".3f")
    claim.detail(f"nearest {names[nearest]}, {gap[nearest]:.3f}")
    claim.fails(FAILED.get((table, PUBLISHED_LOSS)))


def _used(claim: Claims, data: xarray.Dataset, table: str, way: str, won: int, more: str = "") -> None:
    """That ReLU networks use the patterns of the gating that won in one way."""
    share, name = 100 * float(data[f"used_{table}"][won]), str(data[f"gating_{table}"].values[won])
    claim.at_least("share of strength in neurons with a pattern of the winner", share, 90, " %", form=".0f")
    claim.detail(f"winner {name}{more}")
    claim.fails(FAILED.get((table, way)))


def draw(data: xarray.Dataset) -> Figure:
    """How many patterns there are, the rates of the fastest modules, and the small races beside ReLU networks."""
    raced = tables(data)
    figure, (patterns, rates, *races) = new_panels(2 + len(raced), columns=2, height=3.9)
    places = np.arange(data.sizes["table"])
    for index, kind in enumerate(("gated", "relu")):
        bars = data["patterns"].values[:, index]
        patterns.bar(places + 0.4 * index, bars, 0.4, color=COLORS[kind], label=str(data["kind"].values[index]))
    patterns.set_yscale("log")
    patterns.set_xticks(places + 0.2, [str(name) for name in data["table"].values])
    title = "A  neurons can have more gate patterns than the lemma allows"
    label_axes(patterns, title, "items x contexts", "patterns")
    rates.barh([str(kind) for kind in data["module"].values], data["module_rate"].values, color=COLORS["gated"])
    title = "B  after the common module, those that part items are the fastest"
    label_axes(rates, title, "first singular value of what is left", "on for")
    for axis, letter, table in zip(races, "CD", raced, strict=True):
        _draw_race(axis, data, table, letter)
    return figure


def _draw_race(axis: Axes, data: xarray.Dataset, table: str, letter: str) -> None:
    """Every gating that was raced, in dashes, by family; the winner in black; the ReLU networks on top."""
    time = data[f"moment_{table}"].values
    seen: set[str] = set()
    for kind, curve in zip(data[f"family_{table}"].values, data[f"raced_{table}"].values, strict=True):
        label = None if kind in seen else f"theory {kind}"
        axis.plot(time, curve, "--", color=FAMILIES[kind], linewidth=0.7, alpha=0.7, label=label)
        seen.add(kind)
    fastest = int(np.argmin(data[f"area_{table}"].values))
    theory_line(axis, time, data[f"raced_{table}"].values[fastest], "theory, the fastest")
    relu = data[f"relu_{table}"].values
    training_band(axis, time, relu, "relu", "ReLU networks")
    learned = np.flatnonzero(relu.mean(axis=0) < LEARNED * relu[0, 0])
    axis.set_xlim(0, 2 * time[learned[0]] if len(learned) and learned[0] else time[-1])
    axis.set_ylim(bottom=0)
    items, contexts = table.split("x")
    raced = f"{data.sizes[f'gating_{table}']} gatings of {items} items in {contexts} contexts"
    loss_axis(axis, f"{letter}  {raced}: the networks are not the fastest")


def tables(data: xarray.Dataset) -> list[str]:
    """The tables whose gatings were raced."""
    return [str(name).removeprefix("raced_") for name in data.data_vars if str(name).startswith("raced_")]


EXPERIMENT = Experiment(
    name="jarvis2025-race",
    full=Settings(),
    tiny=Settings.tiny(paper_rate=0.02, tables=("2x2",), most_of_all=1, most_even=1, items=2),
    compute=compute,
    check=check_tables,
    claims=claims,
    draw=draw,
    differs=f"{p2.DIFFERS} The rate is ten times the paper's, for few items are learned more slowly than many. From "
    "1e-7 (--set std=1e-7) every verdict is the same.",
    finding="A neuron can have many more gate patterns than the lemma allows, and on small tables the gating "
    "that wins the race is not the one that ReLU networks learn by.",
)
