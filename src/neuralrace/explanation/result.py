"""The result of `explain`."""

import dataclasses
import io
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from neuralrace import _page, reln
from neuralrace.analysis import Agreement, Line
from neuralrace.explanation.panels import draw
from neuralrace.io import make_folder, write_text, write_whole
from neuralrace.plotting import lay_out
from neuralrace.problem import side_by_side
from neuralrace.reln import Match, Modular, Module, Ranking, Replay, match
from neuralrace.reln.discover import largest_curvature
from neuralrace.reln.modules import examples_of
from neuralrace.reln.replay import NEAR_L1, NEAR_LOG, distance_learned, near
from neuralrace.task import Task
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

Rows = list[dict[str, Any]]


def along_gradient(run: Trajectory) -> float:
    """Return the cosine between how the weights moved and the gradient; 1 for a training by a rule of ours."""
    return float(run.settings["rule"].get("cosine", 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The result of `explain`. Print, draw or save it.

    run: the trained ReLU networks. found: the modules found in them, with the replays that were tried. predicted: the
    forecast and the modules predicted without using the training, None if there are none; before: whether that was
    before the training. groups: a label for each example. inputs, outputs: names of columns. race: the gatings
    that respect the groups, and the one that was found, in the order in which theory lets them finish. warnings:
    cautions, and changes that reading made to the data.
    """

    name: str
    settings: dict[str, Any]
    run: Trajectory
    found: Modular
    predicted: Modular | None
    before: bool
    groups: np.ndarray | None
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    race: Ranking | None
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        return f"Explanation(name={self.name!r})"

    @property
    def modules(self) -> tuple[Module, ...]:
        """The modules found in the networks, at the end of the training."""
        return self.found.modules

    @property
    def forecast(self) -> Forecast | None:
        """The predicted loss."""
        return None if self.predicted is None else self.predicted.forecast

    @property
    def matches(self) -> tuple[Match, ...]:
        """Pairs of predicted and found modules."""
        return () if self.predicted is None else match(self.predicted, self.found)

    @property
    def agreements(self) -> dict[str, Agreement]:
        """The distance of the forecast, and of the chosen replay, from the mean of the trained networks."""
        theory = {} if self.forecast is None else {"forecast": distance_learned(self.forecast, self.run)}
        return theory | {"reconstruction": self.found.agreement}

    @property
    def held(self) -> bool | None:
        """Whether the forecast is as close to training as a replay must be; None without a forecast."""
        return None if self.forecast is None else near(self.agreements["forecast"])

    @property
    def remaining(self) -> float:
        """The mean loss at the end over that at the start."""
        mean = self.run.loss.mean(axis=0)
        return float(mean[-1] / mean[0])

    @property
    def explained(self) -> bool:
        """Whether the networks learned (to at most 80 % of the loss) and are matched by a replay with few modules."""
        return self.remaining <= 0.8 and self.found.chosen.explains

    @property
    def verdict(self) -> str:
        """The answer in a few sentences."""
        sentences = []
        if self.held is not None:
            made = "before any training" if self.before else "without using the training"
            held = "held" if self.held else "did not hold"
            sentences.append(f"The forecast, made {made}, {held}: {_distances(self.agreements['forecast'])}.")
        if self.remaining > 0.8:
            advice = "Read the warnings first." if self.warnings else "Give more steps, or a larger network."
            left = f"{self.remaining:.0%} of the initial loss is left, so there is little to explain."
            return " ".join([f"The networks hardly learned: {left} {advice}", *sentences])
        classes, reached = self._classes[0], self._worth()[1]
        constant = 0.0 if classes is None else float(np.bincount(classes, self._task.weights).max())
        if reached <= constant:
            sentences.append(
                f"But the networks answer no better than a constant: {self._measure} {reached:.3f}, and {constant:.3f} "
                "without inputs."
            )
        if self.predicted is not None:
            expected, there, same = np.sum(
                [(one.first is not None, one.second is not None, one.same) for one in self.matches], axis=0
            )
            sentences.append(f"Modules predicted: {expected}; found: {there}; the same: {same}.")
        return " ".join([of_modules(self.found.tried, self.found.chosen), *sentences])

    def words(self, module: Module) -> tuple[str, str]:
        """Describe when a module is on and what it writes."""
        pattern, rows = module.pattern, side_by_side(self._task.inputs)
        on = f"{int(pattern.sum())} of {len(pattern)} examples"
        if pattern.all():
            on = "every example"
        elif self.groups is not None:
            names = np.unique(self.groups)
            listed = [f"{name}: {pattern[self.groups == name].mean():.0%}" for name in names[:8]]
            on = f"{on}; by group {', '.join(listed)}{' ...' * (len(names) > 8)}"
        else:
            more = rows[pattern].mean(axis=0) - rows[~pattern].mean(axis=0)
            on = f"{on}; more of {_columns(more, self.inputs, 'input')}" if (more > 0).any() else on
        if module.written is None:
            return on, "all modules of the next layer"
        return on, _columns(np.abs(module.written).mean(axis=0), self.outputs, "output")

    def singular_values(self, module: Module) -> np.ndarray:
        """The singular values of the input-output correlation of the examples that a module is on for (5 at most)."""
        task = self._task
        correlation = side_by_side(task.targets).T * (task.weights * module.pattern) @ side_by_side(task.inputs)
        values = np.linalg.svd(correlation, compute_uv=False)[:5]
        return values[values >= 1e-12 * values[0]]  # a class that it is never on for has only rounding

    def tables(self) -> dict[str, Rows]:
        """All numbers, as rows of plain values, by the title of their table."""
        run, tried, classes = self.run, self.found.tried, self._classes[1]
        distances = dict(self.agreements)
        if len(run.loss) > 1:
            apart = [
                distance_learned(Line(run.time, loss), Line(run.time, np.delete(run.loss, seed, axis=0)))
                for seed, loss in enumerate(run.loss)
            ]
            distances["the network farthest from the others"] = max(apart, key=lambda one: one.normalized_l1)
        found = {"Distance from training": [{"curve": name, **vars(apart)} for name, apart in distances.items()]}
        rows: Rows = []
        for module in self.modules:
            on, writes = self.words(module)
            row = {"module": module.name, "neurons": module.neurons, "consistency": module.consistency}
            row |= {"share": module.share, "on for": on, "writes": writes}
            row["singular values"] = self.singular_values(module).tolist()
            if module.size is not None:  # since when it has had at least half of its final size
                grew, half = module.size[-1] > 2 * module.size[0], int(np.argmax(module.size >= module.size[-1] / 2))
                row["half grown at"] = float(run.time[half]) if grew else math.inf
                row["in step"] = int(run.data["step"].values[half]) if grew else math.inf
            rows.append(row)
        found["Modules"] = rows
        found["Modules predicted"] = [
            {
                "predicted": one.first and one.first.name,
                "on for": one.first and self.words(one.first)[0],
                "found": one.second and one.second.name,
                "alike": one.alike,
                "same": one.same,
            }
            for one in self.matches
        ]
        head = ("loss", self._measure, *classes)
        found["What modules are worth"] = [
            {
                "networks": f"without {out.name}" if out else "as trained",
                **dict(zip(head, self._worth(out), strict=True)),
            }
            for out in (None, *self.modules)
        ]
        found["What fidelity costs"] = [
            {"modules": row.modules, "stretches": row.stretches, **vars(row.agreement)}
            | {
                self._measure: self._score(list(row.outputs)),
                "explains": row.explains,
                "chosen": row is self.found.chosen,
            }
            for row in tried
        ]
        if self.race is not None:
            found["The race of gatings"] = [
                {"gating": name, f"time to loss {self.race.criterion:.3g}": time}
                | {
                    "in step": float(np.rint(time / run.settings["learning_rate"])),
                    "first rate": rate,
                    "final loss": final,
                }
                for name, time, rate, final in self.race.table.itertuples()
            ]
        found["How far the assumptions held"] = self._assumptions()
        return {title: rows for title, rows in found.items() if rows}

    def _assumptions(self) -> Rows:
        """Measure the assumptions of the description by modules."""
        run, layers, held = self.run, self.found.network.architecture.hidden, {}
        for layer in layers:
            samples, own = reln.gate_samples(run, layer), [one for one in self.modules if one.layer == layer]
            agree = np.concatenate([samples[:, -1][one.members] == one.pattern for one in own] or [np.ones((1, 1))])
            silent = 1 - sum(one.members.mean() for one in own)
            flips = (samples[:, 1:] != samples[:, :-1]).mean(axis=(0, 2, 3)).sum()
            held[f"neurons of {layer} gate like their module"] = f"{agree.mean():.1%} of gates agree at the end"
            held[f"neurons of {layer} belong to a module"] = f"{silent:.1%} are on for nothing"
            held[f"gates of {layer} do not change"] = f"a gate turns {flips:.3g} times in the mean"
        bound = run.settings["learning_rate"] * largest_curvature(self._task, len(layers) + 1)
        held["descent follows its flow"] = (
            f"learning rate times a bound on the curvature is {bound:.2g}; 2 would be unstable"
        )
        return [{"assumption": name, "measured": measured} for name, measured in held.items()]

    @property
    def _task(self) -> Task:
        return examples_of(self.found.network)

    @property
    def _classes(self) -> tuple[np.ndarray | None, tuple[str, ...]]:
        return classes_of(side_by_side(self._task.targets), self.outputs)

    @property
    def _measure(self) -> str:
        return "R^2" if self._classes[0] is None else "accuracy"

    def _score(self, outputs: Sequence[np.ndarray], inside: np.ndarray | float = 1.0) -> float:
        """The mean score of networks on some of the examples."""
        targets, classes, amount = side_by_side(self._task.targets), self._classes[0], self._task.weights * inside
        return float(np.mean([score(one, targets, classes, amount) for one in outputs]))

    def _worth(self, without: Module | None = None) -> list[float]:
        """Loss, score, and score of each class of the networks without one module; means over the networks."""
        network, outputs, (classes, names) = self.found.network, [], self._classes
        for seed in range(len(self.run.loss)):
            weights = dict(self.run.weights(seed))
            if without is not None:
                for edge in network.architecture.outgoing[without.layer]:
                    weights[edge] = np.where(without.members[seed], 0.0, weights[edge])
            outputs.append(side_by_side(network.forward(weights)))
        errors = np.sum((np.array(outputs) - side_by_side(self._task.targets)) ** 2, axis=2).mean(axis=0)
        scores = [self._score(outputs, classes == place) for place in range(len(names))]
        return [0.5 * float(self._task.weights @ errors), self._score(outputs), *scores]

    def __str__(self) -> str:
        text = io.StringIO()
        console = Console(file=text, width=110)
        console.print(f"{self.name}: {self.verdict}", *(f"- {one}" for one in self.warnings), sep="\n", markup=False)
        for title, rows in self.tables().items():
            table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", show_edge=False)
            for name in rows[0]:
                table.add_column(Text(name))
            for row in rows:
                table.add_row(*(Text(shown(value)) for value in row.values()))
            console.print("", table, sep="\n")
        return text.getvalue()

    def summary(self) -> dict[str, Any]:
        """The explanation in plain values, as JSON can hold them; None for what is not finite."""
        kept = "settings", "explained", "verdict", "warnings"
        values: dict[str, Any] = {name: getattr(self, name) for name in kept}
        values |= {"status": self.run.status.tolist(), "held": self.held, "before_training": self.before}
        if self.forecast is not None:
            values["certificate"] = str(self.forecast.certificate).splitlines()
        for title, rows in self.tables().items():
            values[title] = [
                {
                    name: None if isinstance(value, float) and not math.isfinite(value) else value
                    for name, value in row.items()
                }
                for row in rows
            ]
        for row, module in zip(values.get("Modules", ()), self.modules, strict=True):
            row |= {"layer": module.layer, "pattern": module.pattern.tolist()}
        return {"task": self.name, **values}

    def figure(self) -> Figure:
        """All panels side by side."""
        return draw(self)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, summary.json, figure.png and the networks, run.nc, which has no weights over time."""
        out, figure = make_folder(folder), lay_out(self.figure())
        over_time = [name for name in self.run.data.data_vars if str(name).startswith("weights[")]
        dataclasses.replace(self.run, data=self.run.data.drop_vars(over_time)).save(out / "run.nc")
        write_text(out / "summary.json", json.dumps(self.summary(), indent=2))
        write_whole(out / "figure.png", lambda part: figure.savefig(part, dpi=150))
        title = f"neuralrace: {self.name} explained"
        values = {"title": title, "explanation": self, "tables": self.tables(), "shown": shown}
        values["panels"] = _page.panels(figure)
        body = _page.render("neuralrace.explanation", "explanation.html", values)
        return write_text(out / "report.html", _page.document(title, body))


def of_modules(rows: Sequence[Replay], chosen: Replay) -> str:
    """Say how many modules explain the networks, and how few would with gates that change."""

    def named(row: Replay) -> str:
        count = f"{row.modules} module{'s' if row.modules > 1 else ''}{' in each layer' * (len(row.gatings[-1]) > 1)}"
        changing = f"change between {row.stretches} stretches of time"
        return f"{count} with gates that {'never change' if row.stretches == 1 else changing}"

    apart = f"{_distances(chosen.agreement)}; at most {NEAR_L1} and {NEAR_LOG} are allowed"
    if not chosen.explains:
        return (
            f"At most {max(row.modules for row in rows)} modules were tried and none explain these networks: the "
            f"nearest reconstruction, {named(chosen)}, is off by {apart}."
        )
    fewer = [row for row in rows if row.explains and row.modules < chosen.modules]
    also = f" So do {named(min(fewer, key=lambda row: (row.modules, row.stretches)))}." if fewer else ""
    explain = "explain" if chosen.modules > 1 else "explains"
    return f"{named(chosen)} {explain} these networks: trained again with these, they learn alike ({apart}).{also}"


def _distances(apart: Agreement) -> str:
    return f"normalized L1 {apart.normalized_l1:.4g}, log10 gap {apart.log10_gap:.4g}"


def _columns(sizes: np.ndarray, labels: Sequence[str], kind: str) -> str:
    """The columns with the largest positive numbers, by name or number."""
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:4] if sizes[i] > 0.1 * sizes.max()]
    return ", ".join(labels[i] if labels else f"{kind} {i + 1}" for i in order if sizes[i] > 0) or "nothing"


def shown(value: Any) -> str:
    """Format a cell of a table."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(f"{entry:.3g}" for entry in value)
    if isinstance(value, float):
        return f"{value:.3g}" if math.isfinite(value) else "none"
    return "" if value is None else str(value)


def classes_of(targets: np.ndarray, names: Sequence[str]) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Return the class of each example, None where targets are no classes, and names of at most 12 classes."""
    values = np.unique(targets)
    if targets.shape[1] > 1 and np.isin(targets, (0, 1)).all() and bool((targets.sum(axis=1) == 1).all()):
        classes = targets.argmax(axis=1)
        titles = tuple(names) or tuple(f"class {i + 1}" for i in range(targets.shape[1]))
        return classes, titles if len(np.unique(classes)) == len(titles) <= 12 else ()
    if targets.shape[1] == 1 and len(values) == 2:
        title = names[0] if names else "target"
        return np.searchsorted(values, targets[:, 0]), tuple(f"{title} {value:g}" for value in values)
    return None, ()


def score(outputs: np.ndarray, targets: np.ndarray, classes: np.ndarray | None, weights: np.ndarray) -> float:
    """Return accuracy or R^2; NaN if all outputs are close to zero."""
    if np.abs(outputs).max(initial=0.0) <= 1e-3 * np.abs(targets).max(initial=0.0):
        return float("nan")
    if classes is not None:
        middle = 0.5 * (targets.min() + targets.max())
        answers = outputs.argmax(axis=1) if targets.shape[1] > 1 else outputs[:, 0] > middle
        return float(np.average(answers == classes, weights=weights))
    spread = weights @ np.sum((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=1)
    return float(1 - (weights @ np.sum((outputs - targets) ** 2, axis=1)) / spread) if spread > 0 else float("nan")
