"""P2 Fig 5: more contexts. Modules, loss, singular values and the race of gatings from three contexts up to eight."""

import math
from dataclasses import dataclass

import numpy as np
import xarray
from matplotlib.figure import Figure

from neuralrace import initial, reln, tasks
from neuralrace.analysis import Line, agreement
from neuralrace.analysis.selectivity import chance_by_groups, share_by_groups
from neuralrace.experiments.claim import HOLDS, Claim
from neuralrace.experiments.experiment import Experiment
from neuralrace.plotting import COLOURS, label_axes, new_figure, theory_line, training_band
from neuralrace.precision import float64
from neuralrace.problem import Problem
from neuralrace.task import Task
from neuralrace.tasks import NamedTask
from neuralrace.tasks.pathways import parallel_pathways
from neuralrace.tasks.structures import hierarchy_block
from neuralrace.theory import Forecast, exact, predict
from neuralrace.training import ReLUNetwork, train
from neuralrace.trajectory import Trajectory

THEORY_KEY = 1  # training has key 0
L1, LOG10 = 0.05, 0.15
OTHER_MODULES = "refuted: {} of the clusters are others; most neurons are on in fewer contexts"
TOO_FAST = "refuted: {}; the gating learns faster than the networks, which have other gates"
REFUTED = {  # claim and contexts -> the verdict on record
    ("modules", "6"): OTHER_MODULES.format("2 of 7"),
    ("modules", "8"): OTHER_MODULES.format("6 of 9"),
    ("loss", "4"): TOO_FAST.format("0.06 and 0.23"),
    ("loss", "5"): TOO_FAST.format("0.11 and 0.6"),
    ("loss", "6"): TOO_FAST.format("0.16 and 0.9"),
    ("loss", "8"): TOO_FAST.format("0.25 and 1.2"),
    ("winner", "3"): "refuted: the common pathway alone, with all neurons, is first (921 against 1002)",
    ("winner", "6"): "refuted: the clusters are no gating by context",
    ("winner", "8"): "refuted: the clusters are no gating by context",
}


@dataclass(frozen=True)
class Settings:
    """The parameters of the paper, which has 3, 4 and 5 contexts and sums its loss over the examples.

    Its rate is multiplied by their number here. most: gatings with more pathways are left out of the race, but for that
    of the paper. mixed: race the mixed task too.
    """

    contexts: tuple[int, ...] = (3, 4, 5, 6, 8)
    seeds: int = 3
    gated_seeds: int = 1
    hidden: int = 700
    paper_rate: float = 0.001
    std: float = 0.005 / 700
    steps: int = 8000
    every: int = 100
    most: int = 25
    mixed: bool = True

    @property
    def epochs(self) -> np.ndarray:
        """The steps that are recorded."""
        return np.arange(0, self.steps + 1, self.every)

    def rate(self, task: Task) -> float:
        """The paper's rate, for a loss that is a mean."""
        return self.paper_rate * len(task)


def compute(settings: Settings) -> xarray.Dataset:
    """For each number of contexts train, find modules, forecast and race the gatings; race the mixed task too."""
    parts = []
    for count in settings.contexts:
        named = tasks.contextual(count, "hierarchy")
        parts.append(xarray.merge([_relu(settings, named), _race(settings, named), _singular_values(settings, named)]))
    if settings.mixed:
        named = tasks.contextual(3, "mixed")
        parts.append(xarray.merge([_relu(settings, named), _race(settings, named)]).assign_coords(mode=[0]))
    labels = [str(count) for count in settings.contexts] + ["mixed"] * settings.mixed
    return xarray.concat(parts, "contexts", join="outer").assign_coords(contexts=labels)


def _contexts(named: NamedTask) -> int:
    return int(named.groups["context"].max()) + 1


def _relu(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Trained ReLU networks, the modules found in them, and in how many contexts their neurons are on at the end."""
    context, task, count = named.groups["context"], named.task, _contexts(named)
    law, network = initial.gaussian(settings.std), ReLUNetwork(task, hidden=(settings.hidden,))
    rate = settings.rate(task)
    run = train(network, law, rate, settings.steps, seeds=settings.seeds, record="gate_patterns", every=settings.every)
    samples = reln.gate_samples(run)
    found = {tuple(row) for row in reln.find_modules(samples, count + 1).patterns}
    wanted = {size: {tuple(row) for row in _gating(context, size)} for size in (1, count - 1)}
    strength = reln.neuron_strengths(run, "h1")
    return xarray.Dataset(
        {
            "relu": (("seed", "epoch"), run.loss),
            "found": ((), len(found & wanted[count - 1])),
            "used": ((), next((size for size, gating in wanted.items() if gating == found), -1)),
            "share": ("active", share_by_groups(samples[:, -1], context)),
            "share_of_strength": ("active", share_by_groups(samples[:, -1], context, strength)),
            "chance": ("active", chance_by_groups(task.inputs["x"], context, key=THEORY_KEY)),
        },
        coords={"epoch": settings.epochs, "active": np.arange(count + 1)},
    )


def _gating(context: np.ndarray, size: int) -> np.ndarray:
    return list(reln.gatings_of_groups(context, [size]).values())[-1]


def _race(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Forecasts of the gatings by context, each with as many neurons as the ReLU network; nothing is trained.

    race_time: epochs to half of the first loss. race_late: to half of what the common pathway alone cannot learn.
    """
    count, rate = _contexts(named), settings.rate(named.task)
    sizes = [m for m in range(1, count) if m == count - 1 or math.comb(count, m) < settings.most]
    gatings = reln.gatings_of_groups(named.groups["context"], sizes)
    found = reln.race(
        named.task,
        gatings,
        initial=initial.gaussian(settings.std),
        times=rate * settings.epochs,
        neurons=settings.hidden,
        draws=1,
        key=THEORY_KEY,
    )
    runners = [found[name] for name in gatings]
    late = 0.25 * np.mean(np.sum(_left_over(named.task) ** 2, axis=1))
    return xarray.Dataset(
        {
            "race": (("size", "epoch"), np.array([runner.forecast.loss for runner in runners])),
            "race_time": ("size", np.array([runner.time for runner in runners]) / rate),
            "race_late": ("size", np.array([runner.forecast.time_to(late) for runner in runners]) / rate),
        },
        coords={"size": [0, *sizes], "epoch": settings.epochs},
    )


def _left_over(task: Task) -> np.ndarray:
    """What no linear map learns: the targets less their best linear fit."""
    inputs, targets = task.inputs["x"], task.targets["y"]
    return np.asarray(targets - inputs @ np.linalg.lstsq(inputs, targets, rcond=None)[0])


def _singular_values(settings: Settings, named: NamedTask) -> xarray.Dataset:
    """Singular values of common and contextual pathways, by two theories and by three ways of training.

    joint: all pathways descend one loss. published: the contextual ones, which see items only, descend what the common
    one leaves at the moment. assumed: what it leaves at the end, as the closed form has it.
    """
    count, rate, times = _contexts(named), settings.rate(named.task), settings.rate(named.task) * settings.epochs
    law, width = initial.gaussian(settings.std), settings.hidden // (count + 1)
    problems = {
        "joint": named.problem("common + all-but-one", hidden=width),
        "published": named.problem("common + all-but-one, items only", hidden=width),
        "assumed": _assumed(named, width),
    }
    forecast = predict(problems["joint"], law, times, method="aligned", draws=1, key=THEORY_KEY)
    assert forecast.initial_strength is not None
    strength = forecast.initial_strength.law["common"][0]  # the mean over the law of the initial weights
    theory = exact.contextual_statistics(hierarchy_block(8), count)
    values = _forecast_values(forecast) | _closed_form(theory, times, strength)
    for name, problem in problems.items():
        run = train(
            problem,
            law,
            rate,
            settings.steps,
            seeds=settings.gated_seeds,
            coupling="residual" if name == "published" else "joint",
            record="path_singular_values",
            every=settings.every,
        )
        values |= _trained_values(name, problem, run)
    data = xarray.Dataset(coords={"epoch": settings.epochs, "mode": np.arange(8 + count)})
    for name, array in values.items():
        data[name] = (("epoch", "mode"), np.pad(array, ((0, 0), (0, 8 + count - array.shape[1]))))
    data["closed_loss"] = ("epoch", np.asarray(exact.contextual_loss(times, theory, strength, strength)))
    return data


def _assumed(named: NamedTask, width: int) -> Problem:
    left_over = Task({"item": np.eye(8)[named.groups["item"]]}, {"y": _left_over(named.task)})
    context = named.groups["context"]
    return parallel_pathways(left_over, {f"without{c}": context != c for c in range(_contexts(named))}, width)


def _closed_form(theory: exact.ContextualStatistics, times: np.ndarray, strength: float) -> dict[str, np.ndarray]:
    """Both kinds of modes, the largest first; (T, modes)."""
    moments, common = times[:, None], (theory.common_singular_value, theory.common_input_variance)
    contextual = (theory.contextual_singular_value, theory.contextual_input_variance, theory.contexts)
    found = {
        "closed_common": exact.two_layer_mode(moments, *common, strength),
        "closed_contextual": exact.contextual_mode(moments, *contextual, strength),
    }
    return {name: -np.sort(-np.asarray(values), axis=1) for name, values in found.items()}


@float64
def _forecast_values(forecast: Forecast) -> dict[str, np.ndarray]:
    weights = forecast.weights_at(forecast.time)
    maps = {n: np.array([w[n, "y"] @ w["x", n] for w in weights]) for n in forecast.architecture.hidden}
    return _by_kind("aligned", {node: np.linalg.svd(array, compute_uv=False) for node, array in maps.items()})


def _trained_values(name: str, problem: Problem, run: Trajectory) -> dict[str, np.ndarray]:
    paths = {problem.architecture.target(path.edges[0]): path for path in problem.architecture.paths()}
    return _by_kind(name, {n: run.values(f"path_singular_values[{p}]").mean(axis=0) for n, p in paths.items()})


def _by_kind(name: str, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The common pathway, and the mean over the contextual ones; (T, modes)."""
    common = {f"{name}_common": array for node, array in values.items() if node == "common"}
    return common | {f"{name}_contextual": np.mean([a for node, a in values.items() if node != "common"], axis=0)}


def claims(data: xarray.Dataset) -> list[Claim]:
    """What figure and text say, for each number of contexts, and over all of them."""
    found = []
    for label in map(str, data["contexts"].values):
        chosen = data.sel(contexts=label)
        found += [_winner(chosen, label)] if label == "mixed" else [*_of_relu(chosen, label), _winner(chosen, label)]
    numbered = data.sel(contexts=[label for label in data["contexts"].values if label != "mixed"])
    return [*found, *_of_gatings(numbered), *_of_modes(numbered), *_of_neurons(numbered)]


def _of_relu(data: xarray.Dataset, label: str) -> list[Claim]:
    source = "P2 Fig 5 and section 5" if int(label) <= 5 else "P2 section 5, beyond its contexts"
    apart = _apart(data, data["race"].sel(size=int(label) - 1).values)
    return [
        Claim(
            f"{label} contexts: the modules are one that is always open and {label} that are closed in one context.",
            source,
            "paper",
            f"the {int(label) + 1} clusters of gate patterns have exactly these patterns",
            f"{int(data['found'])} of {int(label) + 1} found",
            int(data["found"]) == int(label) + 1,
            REFUTED.get(("modules", label), HOLDS),
        ),
        Claim(
            f"{label} contexts: the loss of the ReLU networks is forecast from that gating.",
            source,
            "paper",
            f"exact flow: normalised L1 at most {L1} and log10 gap at most {LOG10}, nothing set by hand",
            "normalised L1 {:.3f}, log10 gap {:.3f}".format(*apart),
            apart[0] <= L1 and apart[1] <= LOG10,
            REFUTED.get(("loss", label), HOLDS),
        ),
    ]


def _apart(data: xarray.Dataset, loss: np.ndarray) -> tuple[float, float]:
    """Normalised L1 and log10 gap of a forecast from the mean ReLU network."""
    epochs = data["epoch"].values.astype(float)
    found = agreement(Line(epochs, loss), Line(epochs, data["relu"].values))
    return found.normalised_l1, found.log10_gap


def _winner(data: xarray.Dataset, label: str) -> Claim:
    times, used = data["race_time"].dropna("size"), int(data["used"])
    won = int(times["size"].values[np.argmin(times.values)])
    order = ", ".join(f"{size}: {time:.0f}" for size, time in zip(times["size"].values, times.values, strict=True))
    return Claim(
        f"{label if label != 'mixed' else '3 mixed'} contexts: the predicted winner of the race is the gating found.",
        "P2 Proposition 4.2 and section 5",
        "paper",
        "of the common pathway alone (0) or with pathways open in m contexts, the first to half of the first loss is "
        "the gating of the clusters",
        f"winner {won}, found {used if used >= 0 else 'none of them'}; epochs {order}",
        won == used,
        REFUTED.get(("winner", label), HOLDS),
    )


def _of_gatings(data: xarray.Dataset) -> list[Claim]:
    labels = [str(label) for label in data["contexts"].values]
    late, area, near, closed = [], [], [], []
    for label in labels:
        chosen = data.sel(contexts=label)
        ran = chosen.dropna("size", subset=["race_time"])
        curves, sizes = ran["race"].values, ran["size"].values
        late.append(sizes[np.argmin(ran["race_late"].values)])
        area.append(sizes[np.argmin(np.trapezoid(curves, axis=1))])
        gaps = [_apart(chosen, curve)[0] for curve in curves]
        near.append((int(sizes[np.argmin(gaps)]), min(gaps)))
        closed.append(_apart(chosen, chosen["closed_loss"].values))
    wanted = [int(label) - 1 for label in labels]
    return [
        Claim(
            "What the common pathway leaves is learned fastest by pathways that are closed in one context.",
            "P2 Proposition 4.2 and section 5",
            "paper",
            "for every number C of contexts the gating with C - 1 is first to half of what the common pathway cannot "
            "learn, and has the least area under its loss",
            ", ".join(f"{label}: {a} and {b}" for label, a, b in zip(labels, late, area, strict=True)),
            late == wanted and area == wanted,
        ),
        Claim(
            "Of the gatings by context, that with pathways closed in one context comes nearest to the ReLU networks.",
            "P2 section 5",
            "paper",
            "for every number C of contexts the gating with C - 1 has the least normalised L1",
            ", ".join(f"{label}: {size} ({gap:.3f})" for label, (size, gap) in zip(labels, near, strict=True)),
            [size for size, _ in near] == wanted,
            "refuted: of 5 contexts that with 3 and of 6 that with 4 comes nearest, as most neurons are on in so many",
        ),
        Claim(
            "The loss of the ReLU networks follows in closed form.",
            "P2 Fig 5 (caption)",
            "paper",
            f"normalised L1 at most {L1} and log10 gap at most {LOG10} for every number, nothing set by hand",
            ", ".join(f"{label}: {a:.2f} and {b:.2f}" for label, (a, b) in zip(labels, closed, strict=True)),
            all(a <= L1 and b <= LOG10 for a, b in closed),
            "refuted: 0.3 and more; it holds for contextual pathways that start when the common one has learned, and "
            "they start at once",
        ),
    ]


def _of_modes(data: xarray.Dataset) -> list[Claim]:
    cases = (
        (
            "The singular values of both kinds of pathways are forecast for joint training (aligned theory).",
            (("aligned", "joint", "common"), ("aligned", "joint", "contextual")),
            "refuted: 0.07 for the common pathway of 8 contexts, from another draw than training has; below 0.04 "
            "for fewer contexts, and at most 0.01 for contextual pathways",
        ),
        (
            "The closed form holds for a common pathway alone and contextual ones on what it leaves at the end.",
            (("closed", "published", "common"), ("closed", "assumed", "contextual")),
            HOLDS,
        ),
        (
            "The closed form of contextual pathways holds as published, on what the common one leaves at the moment.",
            (("closed", "published", "contextual"),),
            "refuted: 0.6 to 0.7; until the common pathway has learned, its targets drive the others too",
        ),
    )
    labels, found = [str(label) for label in data["contexts"].values], []
    for text, pairs, record in cases:
        gaps = [[_gap(data.sel(contexts=label), *pair) for pair in pairs] for label in labels]
        shown = (f"{label}: " + " and ".join(f"{g:.3f}" for g in row) for label, row in zip(labels, gaps, strict=True))
        expected = f"normalised L1 over all singular values at most {L1} for every number of contexts, "
        expected += " and ".join(kind for _, _, kind in pairs)
        found.append(
            Claim(text, "P2 Fig 5, rows 2 and 3", "paper", expected, ", ".join(shown), bool(np.max(gaps) <= L1), record)
        )
    return found


def _gap(data: xarray.Dataset, theory: str, training: str, kind: str) -> float:
    trained = data[f"{training}_{kind}"].values
    return float(np.nansum(np.abs(data[f"{theory}_{kind}"].values - trained)) / np.nansum(trained))


def _of_neurons(data: xarray.Dataset) -> list[Claim]:
    """In how many contexts neurons are on at the end: in all but one, and in the mean."""
    labels, names = [str(label) for label in data["contexts"].values], ("share", "share_of_strength", "chance")
    tables = [data.sel(contexts=label)[list(names)].to_array().values for label in labels]
    most = np.array([table[:, int(label) - 1] for label, table in zip(labels, tables, strict=True)])
    mean = np.array([np.nansum(table * data["active"].values, axis=1) for table in tables])
    return [
        Claim(
            "Neurons are on in all contexts but one more often than chance has it.",
            "P2 section 5 (mixed selectivity)",
            "paper",
            "share of neurons and share of strength above that of random neurons, for every number of contexts",
            "; ".join(
                f"{label}: {100 * a:.1f} % ({100 * b:.1f} % of strength) against {100 * c:.1f} %"
                for label, (a, b, c) in zip(labels, most, strict=True)
            ),
            bool((most[:, :2] > most[:, 2:]).all()),
            "refuted: so it is up to 5 contexts; of 6 and 8 it is few, and most strength is in 4 of 6 and 5 of 8",
        ),
        Claim(
            "As the number of contexts increases, so does the number of contexts that a neuron is active for.",
            "P2 Fig 5 (caption)",
            "paper",
            "the mean number rises with every step, by neurons and by strength, and is above that of random neurons",
            "; ".join(
                f"{label}: {a:.2f} ({b:.2f} by strength) against {c:.2f}"
                for label, (a, b, c) in zip(labels, mean, strict=True)
            ),
            bool((np.diff(mean[:, :2], axis=0) > 0).all() and (mean[:, :2] > mean[:, 2:]).all()),
        ),
    ]


def draw(data: xarray.Dataset) -> Figure:
    """A column for each number of contexts: loss, common and contextual singular values, contexts of neurons."""
    labels = [str(label) for label in data["contexts"].values if label != "mixed"]
    figure, axes = new_figure(len(labels), rows=4, width=3.4, height=2.7)
    for column, label in zip(axes.T, labels, strict=True):
        chosen = data.sel(contexts=label)
        epochs = data["epoch"].values
        training_band(column[0], epochs, chosen["relu"].values, "relu", "ReLU networks")
        theory_line(column[0], epochs, chosen["race"].sel(size=int(label) - 1).values, "theory, all but one")
        theory_line(column[0], epochs, chosen["closed_loss"].values, "closed form", dotted=True)
        column[0].set_yscale("log")
        label_axes(column[0], f"{label} contexts", "epoch", "loss")
        for axis, kind in zip(column[1:3], ("common", "contextual"), strict=True):
            modes = {name: chosen[f"{name}_{kind}"].dropna("mode").values for name in ("joint", "aligned", "closed")}
            axis.plot(epochs, modes["joint"], color=COLOURS["gated"], linewidth=1.8)[0].set_label("gated, joint")
            theory_line(axis, epochs, modes["aligned"][:, 0], "theory, joint")
            theory_line(axis, epochs, modes["aligned"][:, 1:], None)
            theory_line(axis, epochs, modes["closed"][:, 0], "closed form", dotted=True)
            theory_line(axis, epochs, modes["closed"][:, 1:], None, dotted=True)
            axis.set_ylim(-0.1, 1.5 * max(float(values.max()) for values in modes.values()))
            label_axes(axis, f"{kind} pathway", "epoch", "singular value")
        for shift, (name, words) in enumerate((("share_of_strength", "strength"), ("chance", "random neurons"))):
            colour = COLOURS["relu" if shift == 0 else "reference"]
            column[3].bar(data["active"].values + 0.4 * shift - 0.2, chosen[name], 0.4, color=colour, label=words)
        label_axes(column[3], "ReLU neurons at the end", "contexts in which a neuron is on", "share")
    for axis in axes[:, 1:].flat:
        axis.get_legend().remove()
    return figure


EXPERIMENT = Experiment(
    name="jarvis2025-fig5",
    title="More contexts: modules, losses, singular values and the race",
    source="P2 Fig 5",
    full=Settings(),
    tiny=Settings(
        contexts=(3,),
        seeds=1,
        hidden=40,
        paper_rate=0.002,
        std=0.01,
        steps=60,
        every=20,
        most=1,
        mixed=False,
    ),
    compute=compute,
    claims=claims,
    draw=draw,
)
