"""What was found out about one task and how far it holds."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace.analysis import Agreement
from neuralrace.datafiles import make_folder, write_text, write_whole
from neuralrace.explanation import page, panels, tables
from neuralrace.explanation.scores import Measure, Score
from neuralrace.explanation.tables import beside, so_many
from neuralrace.plotting import lay_out, new_panels
from neuralrace.problem import side_by_side
from neuralrace.reln import Match, Modular, Module, Ranking, Replay, match
from neuralrace.reln.modules import examples_of
from neuralrace.reln.replay import NEAR_L1, NEAR_LOG, distance_learned, near
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

LEARNED = 0.8  # of the initial loss: networks above it have hardly learned
ALONG = 0.9  # the cosine of a training that went down the gradient, at least


def along_gradient(run: Trajectory) -> float:
    """The cosine between how the weights moved and the gradient; 1 for a training by a rule of ours."""
    return float(run.settings["rule"].get("cosine", 1.0))


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The whole story of one task; print it, draw it, or save it.

    run: the trained ReLU networks. found: the modules found in them, with the replays that were tried. predicted: the
    forecast and the modules predicted without a look at the training, None where the initializer is not known; before:
    whether that was before the training. groups: a label for each example. inputs, outputs: names of columns. race:
    candidate gatings in the order in which theory lets them finish; entered: the names under which the gating that was
    found takes part. scores: of the networks as they are, and then with each module taken out. selectivity: layer ->
    shares of neurons by the number of groups in which they are active. assumptions: what the description rests on, and
    how far it held. warnings: cautions; notes: what was done to the data when they were read that was not asked for.
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
    entered: tuple[str, ...]
    measure: Measure
    scores: tuple[Score, ...]
    selectivity: Mapping[str, Mapping[str, np.ndarray]]
    assumptions: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

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
    def chosen(self) -> Replay:
        """The replay with the fewest modules that explain the networks."""
        assert self.found.chosen is not None
        return self.found.chosen

    @property
    def matches(self) -> tuple[Match, ...]:
        """Predicted modules beside those that were found."""
        return () if self.predicted is None else match(self.predicted, self.found)

    @property
    def agreements(self) -> dict[str, Agreement]:
        """The distance of the forecast, and of the chosen replay, from the mean of the trained networks."""
        theory = {} if self.forecast is None else {"forecast": distance_learned(self.forecast, self.run)}
        return theory | {"reconstruction": self.chosen.agreement}

    @property
    def held(self) -> bool | None:
        """Whether the forecast is as near to training as a replay has to be; None where there is none."""
        return near(self.agreements["forecast"]) if "forecast" in self.agreements else None

    @property
    def learned(self) -> bool:
        """Whether there is something to explain."""
        return self.remaining <= LEARNED

    @property
    def explained(self) -> bool:
        """Whether networks that learned are met by a replay with few modules, within NEAR_L1 and NEAR_LOG."""
        return self.learned and self.chosen.explains

    @property
    def remaining(self) -> float:
        """The mean loss at the end over that at the start."""
        mean = self.run.loss.mean(axis=0)
        return float(mean[-1] / mean[0])

    @property
    def found_wins(self) -> bool | None:
        """Whether the gating that was found wins the race by theory; None where no candidate finished."""
        if self.race is None or not np.isfinite(self.race.runners[0].time):
            return None
        return self.race.winner in self.entered

    @property
    def verdict(self) -> str:
        """The answer in a few sentences."""
        told = []
        if self.held is not None:
            made = "before any training" if self.before else "without a look at the training"
            held = "held" if self.held else "did not hold"
            told.append(f"The forecast, made {made}, {held}: {_distances(self.agreements['forecast'])}.")
        if not self.learned:
            little = (
                f"The networks hardly learned: {self.remaining:.0%} of the initial loss is left, so there is little"
            )
            advice = "Mind the warnings first." if self.warnings else "Give more steps, or a larger network."
            return " ".join([f"{little} to explain. {advice}", *told])
        score, constant = self.scores[0].score, self.measure.constant
        if score <= constant:
            told.append(
                f"But the networks answer no better than a constant: {self.measure.kind} {score:.3f}, and "
                f"{constant:.3f} without inputs."
            )
        if self.predicted is not None:
            told.append(_of_matches(self.matches))
        return " ".join([of_modules(self.found.tried, self.chosen), *told])

    def words(self, module: Module) -> tuple[str, str]:
        """What a module is on for, and what it writes."""
        rows, pattern = side_by_side(examples_of(self.found.network).inputs), module.pattern
        on = f"{int(pattern.sum())} of {len(pattern)} examples"
        if pattern.all():
            on = "every example"
        elif self.groups is not None:
            names = np.unique(self.groups)
            shares = np.array([pattern[self.groups == name].mean() for name in names])
            if np.isin(shares, (0, 1)).all():
                on = f"groups {', '.join(str(name) for name in names[shares == 1])}"
            else:
                listed = ", ".join(f"{name}: {share:.0%}" for name, share in zip(names[:8], shares[:8], strict=True))
                on = f"{on}; by group {listed}{' ...' if len(names) > 8 else ''}"
        else:
            more = rows[pattern].mean(axis=0) - rows[~pattern].mean(axis=0)
            on = f"{on}; more of {_columns(more, self.inputs, 'input')}" if (more > 0).any() else on
        if module.written is None:
            return on, "all modules of the next layer"
        return on, _columns(np.abs(module.written).mean(axis=0), self.outputs, "output")

    def singular_values(self, module: Module) -> np.ndarray:
        """The singular values of the input-output correlation of the examples that a module is on for (5 at most)."""
        task = examples_of(self.found.network)
        correlation = side_by_side(task.targets).T * (task.weights * module.pattern) @ side_by_side(task.inputs)
        values = np.linalg.svd(correlation, compute_uv=False)[:5]
        return values[values >= 1e-12 * values[0]]  # a class that it is never on for has only rounding

    def __str__(self) -> str:
        return page.render_text(f"{self.name}: {self.verdict}", tables.sections(self))

    def summary(self) -> dict[str, Any]:
        """The explanation in plain values, as JSON can hold them."""
        described = []
        for module in self.modules:
            on, writes = self.words(module)
            numbers = {name: getattr(module, name) for name in ("layer", "neurons", "share", "consistency")}
            pattern, values = module.pattern, self.singular_values(module)
            words = {"on": pattern, "responds": on, "writes": writes, "singular_values": values}
            described.append({"name": module.name, **numbers, **words})
        told: dict[str, Any] = {
            "task": self.name,
            "settings": self.settings,
            "explained": self.explained,
            "verdict": self.verdict,
            "warnings": self.warnings,
            "notes": self.notes,
            "loss": {"first": self.run.loss[:, 0].mean(), "last": self.run.loss[:, -1].mean()},
            self.measure.kind: self.scores[0].score,
            "status": self.run.status,
            "forecast": None,
            "chosen": {"modules": self.chosen.modules, "stretches": self.chosen.stretches},
            "agreement": self.agreements,
            "replays": [
                {"modules": row.modules, "stretches": row.stretches, "explains": row.explains, **vars(row.agreement)}
                | {self.measure.kind: self.score_of(row)}
                for row in self.found.tried
            ],
            "modules": described,
            "modules_predicted": None,
            "worth": {"measure": self.measure.kind, "classes": self.measure.names, "rows": self.scores},
            "race": None,
            "selectivity": self.selectivity,
            "assumptions": dict(self.assumptions),
        }
        if self.forecast is not None:
            certificate = str(self.forecast.certificate).splitlines()
            made = {"held": self.held, "before_training": self.before, "method": self.forecast.method}
            told["forecast"] = made | {"certificate": certificate}
        if self.predicted is not None:
            rows = [
                {
                    "predicted": None if one.first is None else one.first.name,
                    "found": None if one.second is None else one.second.name,
                    "alike": one.alike,
                    "same": one.same,
                }
                for one in self.matches
            ]
            told["modules_predicted"] = {"before_training": self.before, "beside_found": rows}
        if self.race is not None:
            order = [
                {
                    "gating": one.name,
                    "found": one.name in self.entered,
                    "time": one.time,
                    "rate": one.rate,
                    "final_loss": one.final,
                }
                for one in self.race.runners
            ]
            told["race"] = {"criterion": self.race.criterion, "found_wins": self.found_wins, "order": order}
        return dict(plain(told))

    def score_of(self, row: Replay) -> float:
        """Accuracy or R^2 of replayed networks, their mean."""
        targets, amount = side_by_side(self.found.network.task.targets), self.found.network.task.weights
        every = np.ones(len(targets), dtype=bool)
        return float(np.mean([self.measure.score(one, targets, amount, every) for one in row.outputs]))

    def panels(self) -> dict[str, Figure]:
        """Every panel as a figure of its own, by its title."""
        made = {}
        for title, draw in panels.drawn(self).items():
            made[title], (axis,) = new_panels(1, width=5.6, height=3.2)
            draw(axis)
        return made

    def figure(self) -> Figure:
        """All panels side by side."""
        drawn = panels.drawn(self).values()
        figure, axes = new_panels(len(drawn), width=4.6, height=3.2)
        for axis, draw in zip(axes, drawn, strict=True):
            draw(axis)
        return figure

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, summary.json, figure.png and the networks, run.nc, which has no weights over time."""
        out, figure = make_folder(folder), lay_out(self.figure())
        over_time = [name for name in self.run.data.data_vars if str(name).startswith("weights[")]
        dataclasses.replace(self.run, data=self.run.data.drop_vars(over_time)).save(out / "run.nc")
        write_text(out / "summary.json", json.dumps(self.summary(), indent=2))
        write_whole(out / "figure.png", lambda part: figure.savefig(part, dpi=150))
        return write_text(out / "report.html", page.render_page(self))


def of_modules(rows: Sequence[Replay], chosen: Replay) -> str:
    """How many modules explain the networks, and how few could otherwise."""
    apart, asked = _distances(chosen.agreement), f"at most {NEAR_L1} and {NEAR_LOG} are allowed"
    each = "" if len(chosen.gatings[-1]) == 1 else " in each layer"
    told, gates = f"{so_many(chosen.modules, 'module')}{each}", _constant(chosen)
    if not chosen.explains:
        tried, one = {row.modules for row in rows}, chosen.modules == 1
        many = f"No {so_many(max(tried), 'module')} or fewer explain"
        few = f"{so_many(chosen.modules, 'module')} {'does' if one else 'do'} not explain"
        return (
            f"{few if len(tried) == 1 else many} these networks: the nearest reconstruction, with {told} {gates}, is "
            f"off by {apart}; {asked}."
        )
    first = f"{told} explain{'s' if chosen.modules == 1 else ''} these networks: trained again {gates}, they learn "
    first += f"alike ({apart}; {asked})."
    fewer = [row for row in rows if row.explains and row.modules < chosen.modules]
    if not fewer:
        return first
    other = min(fewer, key=lambda row: (row.modules, row.stretches))
    return f"{first} {so_many(other.modules, 'module').capitalize()} would be enough {_constant(other)}."


def _constant(row: Replay) -> str:
    changing = f"with gates that change between {row.stretches} stretches of time"
    return "with gates that never change" if row.stretches == 1 else changing


def _distances(apart: Agreement) -> str:
    return (
        f"normalized L1 {beside(apart.normalized_l1, NEAR_L1)}, that is {apart.normalized_l1:.1%} of the area "
        f"between the loss and the lowest that it reaches; log10 gap {beside(apart.log10_gap, NEAR_LOG)}"
    )


def _of_matches(matches: Sequence[Match]) -> str:
    """Whether the modules that were found are those that were predicted."""
    there = sum(one.second is not None for one in matches)
    expected, same = sum(one.first is not None for one in matches), sum(one.same for one in matches)
    told = f"{so_many(expected, 'module')} {'was' if expected == 1 else 'were'} predicted"
    if same == there == expected:
        return f"{told}, and {'the one found is this' if same == 1 else f'the {same} found are these'}."
    return f"{told}; of the {there} found {same} {'is' if same == 1 else 'are'} among them."


def _columns(sizes: np.ndarray, labels: Sequence[str], kind: str) -> str:
    """The columns with the largest positive numbers, by name or number."""
    order = [int(i) for i in np.argsort(-sizes, kind="stable")[:4] if sizes[i] > 0.1 * sizes.max()]
    return ", ".join(labels[i] if labels else f"{kind} {i + 1}" for i in order if sizes[i] > 0) or "nothing"


def plain(value: Any) -> Any:
    """Records as objects, arrays as lists, and None for a number that is not finite, such as a time never reached."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if dataclasses.is_dataclass(value):
        return {part.name: plain(getattr(value, part.name)) for part in dataclasses.fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
