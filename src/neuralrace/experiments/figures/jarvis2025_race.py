"""P2 Lemma 4.1 and the race of all gatings: the gates that a neuron can have, and which of them win."""

import itertools
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis import Line, agreement
from neuralrace.axes import Edge, Weights
from neuralrace.experiments.claim import HOLDS, Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.initial import as_key
from neuralrace.plotting import COLOURS, label_axes, loss_axis, new_figure, theory_line, training_band
from neuralrace.tasks import NamedTask
from neuralrace.theory import predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

THEORY_KEY = 1  # training has key 0
CHUNK = 20_000  # patterns whose singular values are computed at once
HALF, AREA = "first to half of the first loss", "least area under the loss"
REFUTED = {  # table and claim -> the verdict on record
    ("2x2", HALF): "refuted: the module that is always on is first by itself, and has 25 % of the strength",
    ("2x2", AREA): "refuted: modules on for all examples but one are fastest, and have 48 % of the strength",
    ("2x2", "nearest"): "refuted: the winner is far faster (0.39); nearest is a common pathway with one for an item",
    ("2x3", HALF): "refuted: modules on for all examples but one are first, and have 15 % of the strength",
    ("2x3", AREA): "refuted: modules on for all examples but one are fastest, and have 15 % of the strength",
    ("2x3", "nearest"): "refuted: the winner is far faster (0.40); nearest is a common pathway with one for each item",
}


@dataclass(frozen=True)
class Settings:
    """The initial weights of the paper; its rate times ten, since few items are learned more slowly than many.

    tables: items x contexts for which every gate pattern of one neuron is listed. all_of, even_of: tables whose gatings
    are raced, and the most modules of a gating: all there are, or those that treat items alike and contexts alike.
    items: of the task with three contexts whose every possible module is ranked.
    """

    seeds: int = 5
    hidden: int = 700
    paper_rate: float = 0.01
    std: float = 0.005 / 700
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


def _named(table: str) -> NamedTask:
    items, contexts = (int(part) for part in table.split("x"))
    return tasks.contextual(contexts, items=items)


def _patterns(settings: Settings) -> xarray.Dataset:
    """How many patterns one neuron can have, how many of them the lemma allows, and how many there are in all."""
    counts = []
    for table in settings.tables:
        items, contexts = (int(part) for part in table.split("x"))
        named = _named(table)
        patterns = reln.implementable_patterns(named.task.inputs["x"], strict=True)
        grid = patterns.reshape(-1, contexts, items)
        by_context = (grid == grid[:, :, :1]).all(axis=(1, 2))
        by_item = (grid == grid[:, :1]).all(axis=(1, 2))
        single = patterns.sum(axis=1) == 1
        board = (grid[:, :, None, :, None] & ~grid[:, :, None, None, :]) & (
            ~grid[:, None, :, :, None] & grid[:, None, :, None, :]
        )
        counts.append(
            [
                len(patterns),
                (by_context | single).sum(),
                by_item.sum(),
                board.any(axis=(1, 2, 3, 4)).sum(),
                2.0 ** len(named.task),
            ]
        )
    kinds = ["implementable", "allowed by the lemma", "by item alone", "with a checkerboard", "all"]
    return xarray.Dataset(
        {"patterns": (("table", "kind"), np.array(counts, dtype=float))},
        coords={"table": list(settings.tables), "kind": kinds},
    )


def staircases(items: int, contexts: int) -> np.ndarray:
    """Every pattern that one neuron can have on a table, (patterns, N): w.x = a_item + b_context has no checkerboard.

    With the contexts in the order of b, an item is on in the first few of them; how many is free for each item.
    """
    steps = np.array(list(itertools.product(range(contexts + 1), repeat=items)))
    ranks = np.array(list(itertools.permutations(range(contexts))))
    on = ranks[:, None, :, None] < steps[None, :, None, :]
    packed = np.unique(np.packbits(on.reshape(-1, contexts * items), axis=1), axis=0)
    return np.unpackbits(packed, axis=1, count=contexts * items).astype(bool)


def _modules(settings: Settings) -> xarray.Dataset:
    """The first singular value of all that a neuron's pattern lets through: of the targets, and of what is left.

    Left is what the common pathway alone cannot learn. A module grows from small weights at twice this rate.
    """
    named = tasks.contextual(3, "mixed" if settings.items == 8 else "hierarchy", settings.items)
    inputs, targets, context = named.task.inputs["x"], named.task.targets["y"], named.groups["context"]
    left = targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0]
    patterns = staircases(settings.items, 3)
    at_start, later = (_first_values(patterns, inputs, y) for y in (targets, left))
    sums, count = patterns.sum(axis=1), settings.items
    by_context = np.all([patterns[:, context == c].std(axis=1) == 0 for c in range(3)], axis=0)
    by_item = np.all([patterns[:, named.groups["item"] == i].std(axis=1) == 0 for i in range(count)], axis=0)
    kinds = {
        "one example": sums == 1,
        "one context": by_context & (sums == count),
        "two contexts": by_context & (sums == 2 * count),
        "some items": by_item,
        "any": sums > 0,
    }
    return xarray.Dataset(
        {
            "modules": ((), len(patterns) - 1),
            "whole_ratio": ((), float(np.sort(at_start)[-2] / at_start[patterns.all(axis=1)][0])),
            "faster": ((), int(np.sum(later > later[kinds["two contexts"]].max() * (1 + 1e-9)))),
            "module_rate": ("module", np.array([later[chosen].max() for chosen in kinds.values()])),
        },
        coords={"module": list(kinds)},
    )


def _first_values(patterns: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The first singular value of the mean input-output correlation over the examples of each pattern."""
    similarity = targets @ targets.T / len(inputs) ** 2
    found = []
    for first in range(0, len(patterns), CHUNK):
        rows = patterns[first : first + CHUNK, :, None] * inputs
        found.append(np.linalg.eigvalsh(rows.swapaxes(1, 2) @ (similarity @ rows))[:, -1])
    return np.sqrt(np.maximum(np.concatenate(found), 0))


def symmetries(named: NamedTask) -> np.ndarray:
    """The orders of the examples that exchanging items and contexts gives, (permutations, N)."""
    items, contexts = (int(named.groups[name].max()) + 1 for name in ("item", "context"))
    grid = np.arange(items * contexts).reshape(contexts, items)
    kinds = itertools.product(itertools.permutations(range(contexts)), itertools.permutations(range(items)))
    return np.array([grid[np.ix_(rows, columns)].ravel() for rows, columns in kinds])


def all_gatings(patterns: np.ndarray, orders: np.ndarray, most: int) -> list[np.ndarray]:
    """Every set of at most so many patterns; of those that an exchange turns into each other, one."""
    number = {row.tobytes(): i for i, row in enumerate(patterns)}
    moved = [[number[row[order].tobytes()] for row in patterns] for order in orders]
    subsets = (s for size in range(1, most + 1) for s in itertools.combinations(range(len(patterns)), size))
    first = [s for s in subsets if all(s <= tuple(sorted(to[i] for i in s)) for to in moved)]
    return [patterns[list(chosen)] for chosen in first]


def even_gatings(patterns: np.ndarray, orders: np.ndarray, most: int) -> list[np.ndarray]:
    """Every set of at most so many patterns that no exchange changes."""
    kinds = {frozenset(row[order].tobytes() for order in orders) for row in patterns}
    groups = [np.array([row for row in patterns if row.tobytes() in kind]) for kind in sorted(kinds, key=sorted)]
    unions = (u for size in range(1, len(groups) + 1) for u in itertools.combinations(groups, size))
    return [np.vstack(union) for union in unions if sum(map(len, union)) <= most]


def _small(settings: Settings, every: bool) -> xarray.Dataset:
    """Forecasts of the gatings of a small table beside ReLU networks trained on it.

    reached: the time of half of the first loss. area: under the loss. gap: normalised L1 from the ReLU networks. used:
    the share of the ReLU networks' strength, at the end, in neurons whose pattern is one of the gating's.
    """
    table, most = (settings.all_of, settings.most_of_all) if every else (settings.even_of, settings.most_even)
    named, law = _named(table), initial.gaussian(settings.std)
    patterns = reln.implementable_patterns(named.task.inputs["x"], strict=True)
    patterns = patterns[patterns.any(axis=1)]
    sets = (all_gatings if every else even_gatings)(patterns, symmetries(named), most)
    rate, network = settings.paper_rate * len(named.task), ReLUNetwork(named.task, hidden=(settings.hidden,))
    run = train(network, law, rate, settings.steps, seeds=settings.seeds, record="gate_patterns", every=settings.every)
    share = dict(zip(_codes(patterns), _shares(run, patterns), strict=True))
    problem = reln.gated_problem(named.task, patterns, settings.hidden)
    weights = law(problem, as_key(THEORY_KEY))
    found = [predict(problem, _opened(weights, patterns, gating), run.time, method="flow") for gating in sets]
    loss = np.array([forecast.loss for forecast in found])
    columns = {
        "reached": [forecast.time_to(0.5 * loss[0, 0]) for forecast in found],
        "area": np.trapezoid(loss, run.time, axis=1),
        "gap": [agreement(Line(run.time, curve), run).normalised_l1 for curve in loss],
        "used": [sum(share[code] for code in _codes(gating)) for gating in sets],
    }
    data = xarray.Dataset({name: ("gating", np.array(values)) for name, values in columns.items()})
    names = [" ".join(_written(row, named) for row in gating) for gating in sets]
    data = data.assign_coords(gating=names, pattern=[_written(row, named) for row in patterns])
    data["share"] = ("pattern", np.array(list(share.values())))
    data["relu"] = (("seed", "moment"), run.loss)
    data["best"] = ("moment", loss[int(np.argmin(columns["area"]))])
    data["near"] = ("moment", loss[int(np.argmin(columns["gap"]))])
    data["moment"] = run.time
    return data.rename({name: f"{name}_{table}" for name in {*map(str, data.variables), *map(str, data.dims)}})


def _opened(weights: Weights, patterns: np.ndarray, gating: np.ndarray) -> dict[Edge, np.ndarray]:
    """Weights of the network of all patterns in which only a gating's pathways have neurons, as many as any gating has.

    Weights of zero stay zero. One network for all gatings is compiled once.
    """
    opened: dict[Edge, np.ndarray] = {}
    for module, row in enumerate(patterns):
        first, second = weights["x", f"m{module}"], weights[f"m{module}", "y"]
        alive = (np.arange(len(first)) < len(first) // len(gating)) & (gating == row).all(axis=1).any()
        opened["x", f"m{module}"] = first * alive[:, None]
        opened[f"m{module}", "y"] = second * alive
    return opened


def _codes(patterns: np.ndarray) -> list[bytes]:
    return [row.tobytes() for row in patterns]


def _written(pattern: np.ndarray, named: NamedTask) -> str:
    """The pattern as 0 and 1, item by item, with a bar between contexts."""
    context = named.groups["context"]
    return "|".join("".join(str(int(bit)) for bit in pattern[context == c]) for c in np.unique(context))


def _shares(run: Trajectory, patterns: np.ndarray) -> np.ndarray:
    """The share of all strength, at the end, in neurons that have each pattern."""
    last = reln.gate_samples(run)[:, -1].astype(bool)
    strength = reln.neuron_strengths(run, "h1")
    return np.array([strength[(last == row).all(axis=-1)].sum() for row in patterns]) / strength.sum()


def claims(data: xarray.Dataset) -> list[Claim]:
    """Lemma 4.1, the modules that are possible, and the races of gatings made of them."""
    tables = [str(name).removeprefix("best_") for name in data.data_vars if str(name).startswith("best_")]
    return [*_lemma(data), *_fastest_modules(data), *(claim for table in tables for claim in _of_race(data, table))]


def _lemma(data: xarray.Dataset) -> list[Claim]:
    possible, allowed, _, boards, _ = data["patterns"].values.T
    names = [str(name) for name in data["table"].values]
    shown = "; ".join(f"{n}: {p:.0f} against {a:.0f}" for n, p, a in zip(names, possible, allowed, strict=True))
    return [
        Claim(
            "No neuron is on for item 1 in context 1 and item 2 in context 2 but off for the other two pairs.",
            "P2 Lemma 4.1, first step of the proof",
            "paper",
            "no implementable pattern of any table holds such a checkerboard",
            f"{boards.sum():.0f} of {possible.sum():.0f} patterns",
            bool(boards.sum() == 0),
        ),
        Claim(
            "Every gate pattern of a neuron depends on the context alone or is on for a single example.",
            "P2 Lemma 4.1",
            "paper",
            "items x contexts: as many implementable patterns as the lemma allows",
            shown,
            bool((possible == allowed).all()),
            "refuted: every pattern without a checkerboard is implementable, such as on for all examples but one, or "
            "on for an item in every context; the proof excludes only the checkerboard",
        ),
    ]


def _fastest_modules(data: xarray.Dataset) -> list[Claim]:
    ratio, count = float(data["whole_ratio"]), int(data["modules"])
    rates = zip(data["module"].values, data["module_rate"].values, strict=True)
    return [
        Claim(
            "A module that is always on is faster than any other that a neuron can be in.",
            "P2 Proposition 4.2 (the common pathway is the fastest possible module)",
            "paper",
            f"of all {count:,} patterns of the mixed task it alone has the largest first singular value",
            f"the next has {ratio:.4f} of it",
            ratio < 1,
        ),
        Claim(
            "Once the common pathway has learned, modules that are on in two contexts are the fastest.",
            "P2 Proposition 4.2 (edge case and exhaustion)",
            "paper",
            f"of all {count:,} patterns none has a larger first singular value of what is left",
            f"{int(data['faster']):,} have; the largest are " + ", ".join(f"{kind} {rate:.3f}" for kind, rate in rates),
            int(data["faster"]) == 0,
            "refuted: two contexts have 0.090, as one context has; patterns that part items as well have up to 0.156",
        ),
    ]


def _of_race(data: xarray.Dataset, table: str) -> list[Claim]:
    names = [str(name) for name in data[f"gating_{table}"].values]
    area, gap, used = (data[f"{name}_{table}"].values for name in ("area", "gap", "used"))
    first, best, nearest = int(np.argmin(data[f"reached_{table}"].values)), int(np.argmin(area)), int(np.argmin(gap))
    share, patterns = data[f"share_{table}"].values, data[f"pattern_{table}"].values
    most = ", ".join(f"{patterns[i]} {100 * share[i]:.0f} %" for i in np.argsort(-share)[:5])
    text = f"{table}, {len(names)} gatings: the patterns of the predicted winner are those that ReLU networks use"
    source = "P2 Proposition 4.2 (wins the race of all implementable gatings)"
    return [
        *(
            Claim(
                f"{text} ({words}).",
                source,
                "paper",
                "at least 90 % of the strength of trained networks is in neurons with a pattern of the winner",
                f"winner {names[won]}: {100 * used[won]:.0f} %; the strongest patterns are {most}",
                bool(used[won] >= 0.9),
                REFUTED.get((table, words), HOLDS),
            )
            for words, won in ((HALF, first), (AREA, best))
        ),
        Claim(
            f"{table}: the winner's loss is that of the ReLU networks, and no other gating comes as near.",
            "P2 Proposition 4.2, uniqueness",
            "paper",
            "least area: normalised L1 from the ReLU networks at most 0.05, and the least of all gatings",
            f"winner {gap[best]:.3f}; nearest {gap[nearest]:.3f} ({names[nearest]}); {int(np.sum(gap <= 0.05))} of "
            f"{len(names)} within 0.05",
            best == nearest and bool(gap[best] <= 0.05),
            REFUTED.get((table, "nearest"), HOLDS),
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """How many patterns there are, the rates of the fastest modules, and the small races beside ReLU networks."""
    figure, axes = new_figure(4, width=4.2)
    places = np.arange(data.sizes["table"])
    for index, kind in enumerate(("gated", "relu")):
        bars = data["patterns"].values[:, index]
        axes[0, 0].bar(places + 0.4 * index, bars, 0.4, color=COLOURS[kind], label=str(data["kind"].values[index]))
    axes[0, 0].set_yscale("log")
    axes[0, 0].set_xticks(places + 0.2, [str(name) for name in data["table"].values])
    label_axes(axes[0, 0], "gate patterns of one neuron", "items x contexts", "patterns")
    axes[0, 1].barh([str(kind) for kind in data["module"].values], data["module_rate"].values, color=COLOURS["gated"])
    label_axes(axes[0, 1], "the fastest module after the common one", "first singular value of what is left", "on for")
    for axis, name in zip(axes[0, 2:], [n for n in data.data_vars if str(n).startswith("best_")], strict=True):
        table = str(name).removeprefix("best_")
        time = data[f"moment_{table}"].values
        training_band(axis, time, data[f"relu_{table}"].values, "relu", "ReLU networks")
        theory_line(axis, time, data[name].values, "theory, winner")
        theory_line(axis, time, data[f"near_{table}"].values, "theory, nearest", dotted=True)
        loss_axis(axis, f"{table}: {data.sizes[f'gating_{table}']} gatings raced")
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-race",
    title="Which gates a neuron can have, and the race of all gatings",
    source="P2 Lemma 4.1 and Proposition 4.2",
    full=Settings(),
    tiny=Settings(
        seeds=1,
        hidden=28,
        paper_rate=0.02,
        std=0.01,
        steps=60,
        every=20,
        tables=("2x2",),
        most_of_all=1,
        most_even=1,
        items=2,
    ),
    compute=compute,
    claims=claims,
    draw=draw,
)
