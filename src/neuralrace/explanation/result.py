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
from neuralrace.errors import option
from neuralrace.explanation.panels import draw
from neuralrace.io import make_folder, write_text, write_whole
from neuralrace.movement import ROWS, loss_at
from neuralrace.plotting import lay_out
from neuralrace.problem import side_by_side
from neuralrace.reln import Match, Modular, Module, Ranking, Replay, match
from neuralrace.reln.discover import largest_curvature
from neuralrace.reln.modules import examples_of
from neuralrace.reln.replay import NEAR_L1, NEAR_LOG, REPRODUCED, distance_learned, near
from neuralrace.task import Task
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

Rows = list[dict[str, Any]]


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
        return theory | ({} if self.found.agreement is None else {"reconstruction": self.found.agreement})

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
        """Whether the networks learned, and few modules explain them: in a replay, or imposed on what was trained."""
        return not self.failure and self.found.chosen.explains

    @property
    def failure(self) -> str:
        """Why there is little to explain, and what would help; empty if the networks learned.

        They must have lost a fifth of the loss, and answer better than a constant.
        """
        if self.run.settings["rule"].get("activation", "ReLU") != "ReLU":
            return (
                "These are no ReLU networks: their weights moved as those of "
                f"{self.run.settings['rule']['activation']} networks do, so what follows describes networks that were "
                "not trained. Train them with ReLUs."
            )
        classes, reached = self._classes[0], self._worth()[1]
        constant = 0.0 if classes is None else float(np.bincount(classes, self._task.weights).max())
        told = (
            f"The networks answer no better than a constant: {self._measure} {reached:.3f}, not above {constant:.3f}."
        )
        if self.remaining > 0.8:
            told = f"The networks hardly learned: {self.remaining:.0%} of the initial loss is left."
        elif reached > constant:
            return ""
        rows, advice = side_by_side(self._task.inputs), []

        def flag(name: str) -> str:  # tables alone have these options
            return f" ({option(name)})" if "targets" in self.settings["task settings"] else ""

        mean, spread = np.abs(rows.mean(axis=0)), rows.std(axis=0)
        sizes, varied = np.sqrt(np.mean(rows**2, axis=0)), spread > 1e-9 * np.maximum(mean, 1e-300)
        if varied.any() and (sizes[varied].max() > 30 * sizes[varied].min() or (mean > 3 * spread)[varied].any()):
            advice.append(f"standardize the inputs{flag('standardize')}")
        if not self.found.network.biases and (varied | (mean == 0)).all():
            advice.append(f"add a constant input{flag('bias')}")
        if (self.run.status == "running").any():
            more = f" ({option('steps', 4 * int(self.run.settings['steps']))})" if self.before else ""
            advice.append(f"train for more steps{more}")
        return f"{told} What may help: {', '.join(advice or ['a larger network', 'inputs that tell more'])}."

    @property
    def verdict(self) -> str:
        """The answer in a few sentences."""
        sentences = []
        if self.held is not None:
            made = "before any training" if self.before else "without using the training"
            held = "held" if self.held else "did not hold"
            sentences.append(f"The forecast, made {made}, {held}: {_distances(self.agreements['forecast'])}.")
        if not self.modules:
            return " ".join([self.failure or "No neuron is on for any example.", *sentences])
        if self.predicted is not None:
            expected, there, same = np.sum(
                [(one.first is not None, one.second is not None, one.same) for one in self.matches], axis=0
            )
            sentences.append(f"Modules predicted: {expected}; found: {there}; the same: {same}.")
        first = [self.failure] if self.failure else []
        return " ".join([*first, of_modules(self.found.tried, self.found.chosen), *sentences])

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
        found["Other examples"] = [
            {"examples": name, "curve": label, **_on_others(curve, name)}
            for label, curve in (("networks", run), ("forecast", self.forecast))
            if curve is not None
            for name in curve.evaluated
        ]
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
        for one in tried:
            measured: dict[str, Any] = {"modules": one.modules}
            title = "What fidelity costs" if one.agreement else "What gates reproduce"
            if one.agreement is None:
                measured["R^2 of the outputs"] = one.fit
            else:
                measured |= {"stretches": one.stretches, **vars(one.agreement)}
            measured |= {self._measure: self._score(list(one.outputs)), "explains": one.explains}
            found.setdefault(title, []).append(measured | {"chosen": one is self.found.chosen})
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
            agree = sum(one.share * one.consistency for one in own)
            silent = 1 - sum(one.members.mean() for one in own)
            flips = (samples[:, 1:] != samples[:, :-1]).mean(axis=(0, 2, 3)).sum()
            held[f"neurons of {layer} gate like their module"] = f"for {agree:.1%} of what they carry (consistency)"
            held[f"neurons of {layer} belong to a module"] = f"{silent:.1%} are on for nothing"
            held[f"gates of {layer} do not change"] = f"a gate turns {flips:.3g} times in the mean"
        if run.settings["learning_rate"] is not None:
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
        classes, names = self._task.classes, self._task.class_names
        return classes, names if classes is not None and len(np.unique(classes)) == len(names) <= 12 else ()

    @property
    def _measure(self) -> str:
        return "R^2" if self._classes[0] is None else "accuracy"

    def _score(self, outputs: Sequence[np.ndarray], inside: np.ndarray | float = 1.0) -> float:
        """The mean score of networks on some of the examples."""
        targets, classes, amount = side_by_side(self._task.targets), self._classes[0], self._task.weights * inside
        middle = 0.0 if self.run.settings["loss"] == "cross-entropy" else None  # outputs are logits
        return float(np.mean([score(one, targets, classes, amount, middle) for one in outputs]))

    def _worth(self, without: Module | None = None) -> list[float]:
        """Loss, score, and score of each class of the networks without one module; means over the networks."""
        network, outputs, (classes, names) = self.found.network, [], self._classes
        losses, kind = [], self.run.settings["loss"]
        for seed in range(len(self.run.loss)):
            weights = dict(self.run.weights(seed))
            if without is not None:
                for edge in network.architecture.outgoing[without.layer]:
                    weights[edge] = np.where(without.members[seed], 0.0, weights[edge])
            outputs.append(side_by_side(network.forward(weights)))
            losses.append(loss_at(network, weights, kind if kind in ROWS else "squared"))
        scores = [self._score(outputs, classes == place) for place in range(len(names))]
        return [float(np.mean(losses)), self._score(outputs), *scores]

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

    def _repr_html_(self) -> str:
        """The page without its figure, as notebooks show it."""
        return self._body([])

    def _body(self, panels: Sequence[_page.Panel]) -> str:
        values = {"title": f"neuralrace: {self.name} explained", "explanation": self, "tables": self.tables()}
        return _page.render("neuralrace.explanation", "explanation.html", values | {"shown": shown, "panels": panels})

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
        page = _page.document(f"neuralrace: {self.name} explained", self._body(_page.panels(figure)))
        return write_text(out / "report.html", page)


def of_modules(rows: Sequence[Replay], chosen: Replay) -> str:
    """Say how many modules explain the networks, and how few would with gates that change."""

    def named(row: Replay) -> str:
        count = f"{row.modules} module{'s' if row.modules > 1 else ''}{' in each layer' * (len(row.gatings[-1]) > 1)}"
        changing = f"change between {row.stretches} stretches of time"
        return f"{count} with gates that {'never change' if row.stretches == 1 else changing}"

    apart = f"{_distances(chosen.agreement)}; at most {NEAR_L1} and {NEAR_LOG} are allowed" if chosen.agreement else ""
    if chosen.agreement is None or not math.isnan(chosen.fit):
        can = "reproduce" if chosen.fit >= REPRODUCED else "do not reproduce"
        told = f"The gates of {named(chosen).partition(' with gates')[0]}, imposed on the trained networks, {can} their"
        told += f" outputs (R^2 {chosen.fit:.2f}; at least {REPRODUCED} is required)."
        if chosen.agreement is None:
            return told
        alike = "alike" if chosen.explains else "otherwise"
        return f"{told} Trained again with gates that never change, they learn {alike} ({apart})."
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


def _on_others(curve: Trajectory, name: str) -> dict[str, Any]:
    """Loss and accuracy on other examples at the end, and where training should stop for these."""
    stop, found = curve.best_stop(name), curve.evaluated[name]
    row: dict[str, Any] = {str(kind): float(values[:, -1].mean()) for kind, values in found.items()}
    row |= {"best stop at step": stop.step, "time": stop.time, "loss there": stop.loss, "at the end": stop.last}
    return row | ({} if stop.accuracy is None else {"accuracy there": stop.accuracy})


def score(
    outputs: np.ndarray,
    targets: np.ndarray,
    classes: np.ndarray | None,
    weights: np.ndarray,
    middle: float | None = None,
) -> float:
    """Return accuracy or R^2; NaN if all outputs are close to zero. middle: between two classes, for one output."""
    if np.abs(outputs).max(initial=0.0) <= 1e-3 * np.abs(targets).max(initial=0.0):
        return float("nan")
    if classes is not None:
        middle = 0.5 * (targets.min() + targets.max()) if middle is None else middle
        answers = outputs.argmax(axis=1) if targets.shape[1] > 1 else outputs[:, 0] > middle
        return float(np.average(answers == classes, weights=weights))
    spread = weights @ np.sum((targets - np.average(targets, axis=0, weights=weights)) ** 2, axis=1)
    return float(1 - (weights @ np.sum((outputs - targets) ** 2, axis=1)) / spread) if spread > 0 else float("nan")
