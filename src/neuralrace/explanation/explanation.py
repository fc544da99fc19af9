"""What was found out about one task and how far it holds."""

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace.analysis import Agreement
from neuralrace.datafiles import make_folder, write_text, write_whole
from neuralrace.explanation import panels, sections, verdicts
from neuralrace.explanation.foretold import Foretold, Match
from neuralrace.explanation.measures import Held, Module, Selectivity
from neuralrace.explanation.panels import Draw
from neuralrace.explanation.rendering import render_page, render_text
from neuralrace.explanation.scores import Measure, Score
from neuralrace.explanation.sections import Section
from neuralrace.plotting import lay_out, new_panels
from neuralrace.reln import Ranking
from neuralrace.reln.gating import LayerGating
from neuralrace.reln.pricing import Priced, near
from neuralrace.theory import Forecast
from neuralrace.trajectory import Trajectory

LEARNED = 0.8  # of the first loss: networks above it have hardly learned


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """The whole story of one task; print it, draw it, or save it.

    run: the trained ReLU networks. forecast: what was foreseen before they were trained, None where no law of first
    weights is known; foreseen: its distance. foretold: the modules that its neurons formed; matches: these beside those
    that were found. prices: every number of modules and stretches that was tried; chosen: the
    fewest that explain. layers: hidden layer -> its modules at the end. race: candidate gatings in the order in which
    the theory lets them finish; entered: the names under which the gating that was found takes part. scores: of the
    networks as they are, and then with each module taken out. warnings: what to mind; notes: what was done to the data
    when they were read that was not asked for. before: whether the forecast was made before the training.
    """

    name: str
    settings: dict[str, Any]
    groups: np.ndarray | None
    outputs: tuple[str, ...]
    run: Trajectory
    forecast: Forecast | None
    foreseen: Agreement | None
    foretold: Foretold | None
    matches: tuple[Match, ...]
    prices: tuple[Priced, ...]
    chosen: Priced
    layers: Mapping[str, LayerGating]
    race: Ranking | None
    entered: tuple[str, ...]
    modules: tuple[Module, ...]
    measure: Measure
    scores: tuple[Score, ...]
    selectivity: tuple[Selectivity, ...]
    assumptions: tuple[Held, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]
    before: bool

    def __repr__(self) -> str:
        return f"Explanation(name={self.name!r})"

    @property
    def agreements(self) -> dict[str, Agreement]:
        """The distance of the forecast, and of the chosen reconstruction, from the mean of the trained networks."""
        theory = {} if self.foreseen is None else {"forecast": self.foreseen}
        return theory | {"reconstruction": self.chosen.agreement}

    @property
    def held(self) -> bool | None:
        """Whether the forecast is as near to training as a reconstruction has to be; None where there is none."""
        return None if self.foreseen is None else near(self.foreseen)

    @property
    def learned(self) -> bool:
        """Whether there is something to explain."""
        return self.remaining <= LEARNED

    @property
    def explained(self) -> bool:
        """Whether networks that learned are met by a reconstruction from modules, within NEAR_L1 and NEAR_LOG."""
        return self.learned and self.chosen.meets

    @property
    def remaining(self) -> float:
        """The mean loss at the end over that at the start."""
        mean = self.run.loss.mean(axis=0)
        return float(mean[-1] / mean[0])

    @property
    def found_wins(self) -> bool | None:
        """Whether the gating that was found wins the race by theory; None where nobody finished."""
        if self.race is None or not np.isfinite(self.race.runners[0].time):
            return None
        return self.race.winner in self.entered

    @property
    def verdict(self) -> str:
        """The answer in a few sentences."""
        told = [verdicts.of_forecast(self.foreseen, self.before)] if self.foreseen is not None else []
        if not self.learned:
            return " ".join([verdicts.of_little(self.remaining, self.warnings), *told])
        score, constant = self.scores[0].score, self.measure.constant
        if score <= constant:
            told.append(verdicts.of_no_use(self.measure.kind, score, constant))
        if self.foretold is not None:
            told.append(verdicts.of_foretold(self.matches))
        return " ".join([verdicts.of_modules(self.prices, self.chosen, len(self.layers)), *told])

    @property
    def sections(self) -> tuple[Section, ...]:
        """The tables that the text and the page are made of."""
        return (
            *((sections.of_warnings(self.warnings, self.notes),) if self.warnings or self.notes else ()),
            sections.of_forecast(self.foreseen, self.forecast, self.run, self.before),
            sections.of_modules(self.modules),
            *((sections.of_foretold(self.foretold, self.matches, self.before),) if self.foretold is not None else ()),
            *sections.of_worth(self.scores, self.measure),
            sections.of_prices(self.prices, self.chosen, len(self.layers), self.measure),
            *((sections.of_race(self.race, self.entered),) if self.race is not None else ()),
            *(sections.of_selectivity(one) for one in self.selectivity),
            Section("How far the assumptions held", "", Held._fields, self.assumptions),
        )

    def __str__(self) -> str:
        return render_text(f"{self.name}: {self.verdict}", self.sections)

    def summary(self) -> dict[str, Any]:
        """The explanation in plain values, as JSON can hold them."""
        told: dict[str, Any] = plain(
            {
                "task": self.name,
                "settings": self.settings,
                "explained": self.explained,
                "verdict": self.verdict,
                "warnings": self.warnings,
                "notes": self.notes,
                "loss": {"first": self.run.loss[:, 0].mean(), "last": self.run.loss[:, -1].mean()},
                self.measure.kind: self.scores[0].score,
                "status": self.run.status,
                "forecast": None if self.forecast is None else self._forecast(),
                "chosen": {"modules": self.chosen.modules, "stretches": self.chosen.stretches},
                "agreement": self.agreements,
                "prices": [
                    {
                        "modules": r.modules,
                        "stretches": r.stretches,
                        "meets": r.meets,
                        **vars(r.agreement),
                        self.measure.kind: r.score,
                    }
                    for r in self.prices
                ],
                "modules": self.modules,
                "modules_foreseen": None if self.foretold is None else self._foretold(self.foretold),
                "worth": {"measure": self.measure.kind, "classes": self.measure.names, "rows": self.scores},
                "race": None if self.race is None else self._race(self.race),
                "selectivity": self.selectivity,
                "assumptions": self.assumptions,
            }
        )
        return told

    def _forecast(self) -> dict[str, Any]:
        assert self.forecast is not None
        told = {"held": self.held, "before_training": self.before, "method": self.forecast.method}
        return told | {"certificate": str(self.forecast.certificate).splitlines()}

    def _foretold(self, foretold: Foretold) -> dict[str, Any]:
        fewest = foretold.chosen
        number = {} if fewest is None else {"modules": fewest.modules, "stretches": fewest.stretches}
        rows = [one._asdict() | {"same": one.same} for one in self.matches]
        return {"before_training": self.before, **number, "beside_found": rows}

    def _race(self, race: Ranking) -> dict[str, Any]:
        order = [
            {"gating": r.name, "found": r.name in self.entered, "time": r.time, "rate": r.rate, "final_loss": r.final}
            for r in race.runners
        ]
        return {"criterion": race.criterion, "found_wins": self.found_wins, "order": order}

    def panels(self) -> dict[str, Figure]:
        """Every panel as a figure of its own, by its title."""
        made = {}
        for title, draw in self._panels().items():
            made[title], (axis,) = new_panels(1, width=5.6, height=3.2)
            draw(axis)
        return made

    def figure(self) -> Figure:
        """All panels side by side."""
        drawn = self._panels().values()
        figure, axes = new_panels(len(drawn), width=4.6, height=3.2)
        for axis, draw in zip(axes, drawn, strict=True):
            draw(axis)
        return figure

    def _panels(self) -> dict[str, Draw]:
        found: dict[str, Draw] = {
            "learning": lambda axis: panels.draw_losses(axis, self.run, self.forecast, self.before, self.chosen),
            "what fidelity costs": lambda axis: panels.draw_prices(axis, self.prices, self.chosen),
        }
        if self.modules:
            found["modules"] = lambda axis: panels.draw_modules(axis, self.modules, self.groups)
            found["what modules add"] = lambda axis: panels.draw_written(axis, self.modules, self.outputs)
        if self.race is not None:
            race = self.race
            found["race of gatings"] = lambda axis: panels.draw_race(axis, race, self.entered)
        if self.selectivity:
            found["selectivity"] = lambda axis: panels.draw_selectivity(axis, self.selectivity)
        return found

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, summary.json, figure.png and the trained networks, run.nc; return the page."""
        out, figure = make_folder(folder), lay_out(self.figure())
        course = verdicts.of_course(self.forecast is not None, self.before, self.race is not None)
        verdict = (self.explained, self.verdict)
        page = render_page(self.name, verdict, course, self.sections, self.panels().values(), self.settings)
        self.run.save(out / "run.nc")
        write_text(out / "summary.json", json.dumps(self.summary(), indent=2))
        write_whole(out / "figure.png", lambda part: figure.savefig(part, dpi=150))
        return write_text(out / "report.html", page)


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
