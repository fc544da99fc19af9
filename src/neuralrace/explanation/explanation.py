"""What was found out about one task and how far it holds."""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from neuralrace.analysis import Agreement
from neuralrace.datafiles import make_folder, write_text, write_whole
from neuralrace.explanation import panels, sections
from neuralrace.explanation.measures import Held, Module, Selectivity
from neuralrace.explanation.page import render_page
from neuralrace.explanation.plain import plain
from neuralrace.explanation.sections import Section
from neuralrace.explanation.text import render_text
from neuralrace.plotting import new_figure
from neuralrace.reln import Discovery, Race, Staged
from neuralrace.trajectory import Trajectory

# a reconstruction within these explains the networks: twice what P2's mixed task, with four modules, is held to
NEAR_L1, NEAR_LOG = 0.1, 0.3
LEARNED = 0.5  # of the first loss: networks above it have hardly learned


@dataclass(frozen=True, eq=False)
class Explanation:
    """The whole story of one task; print it, draw it, or save it.

    run: the trained ReLU networks. found: their modules, with the reconstruction by one constant gating. staged: the
    reconstruction in two stretches, for one hidden layer. race: candidate gatings in the order in which the theory lets
    them finish. entered: the names under which the gating that was found takes part in it.
    """

    name: str
    settings: dict[str, Any] = field(repr=False)
    groups: np.ndarray | None = field(repr=False)
    run: Trajectory = field(repr=False)
    found: Discovery = field(repr=False)
    staged: Staged | None = field(repr=False)
    race: Race = field(repr=False)
    entered: tuple[str, ...] = field(repr=False)
    modules: tuple[Module, ...] = field(repr=False)
    selectivity: tuple[Selectivity, ...] = field(repr=False)
    assumptions: tuple[Held, ...] = field(repr=False)

    @property
    def agreements(self) -> dict[str, Agreement]:
        """Reconstruction -> its distance from the mean of the trained networks."""
        one = {} if self.found.agreement is None else {"one gating": self.found.agreement}
        return one | ({} if self.staged is None else {"two stretches": self.staged.agreement})

    @property
    def explained(self) -> bool:
        """Whether networks that learned are met by a reconstruction from modules, within NEAR_L1 and NEAR_LOG."""
        near = [a.normalised_l1 <= NEAR_L1 and a.log10_gap <= NEAR_LOG for a in self.agreements.values()]
        return any(near) and self.remaining <= LEARNED

    @property
    def remaining(self) -> float:
        """The mean loss at the end over that at the start."""
        mean = self.run.loss.mean(axis=0)
        return float(mean[-1] / mean[0])

    @property
    def found_wins(self) -> bool:
        """Whether the gating that was found wins the race by theory."""
        return self.race.winner in self.entered

    @property
    def verdict(self) -> str:
        """The answer in two sentences."""
        count = len(self.modules)
        if self.remaining > LEARNED:
            return (
                f"The networks hardly learned: {self.remaining:.0%} of the first loss is left, so there is little to "
                "explain. Give more steps, or a larger network."
            )
        name, apart = min(self.agreements.items(), key=lambda item: item[1].normalised_l1)
        distance = f"normalised L1 {apart.normalised_l1:.3f}, log10 gap {apart.log10_gap:.3f}"
        asked = f"at most {NEAR_L1} and {NEAR_LOG} are asked"
        if self.explained:
            few = "One module explains" if count == 1 else f"{count} modules explain"
            return f"{few} these networks: their reconstruction ({name}) is within {distance} of training; {asked}."
        return (
            f"A few modules do not explain these networks: with {count} the nearest reconstruction ({name}) is off by "
            f"{distance}; {asked}."
        )

    @property
    def sections(self) -> tuple[Section, ...]:
        """The tables that the text and the page are made of."""
        return (
            sections.of_modules(self.modules),
            sections.of_agreements(self.agreements),
            sections.of_race(self.race, self.entered),
            *(sections.of_selectivity(one) for one in self.selectivity),
            sections.of_assumptions(self.assumptions),
        )

    def __str__(self) -> str:
        return render_text(f"{self.name}: {self.verdict}", self.sections)

    def summary(self) -> dict[str, Any]:
        """The explanation in plain values, as JSON can hold them."""
        order = [
            {"gating": r.name, "found": r.name in self.entered, "time": r.time, "rate": r.rate, "final_loss": r.final}
            for r in self.race.runners
        ]
        told: dict[str, Any] = plain(
            {
                "task": self.name,
                "settings": self.settings,
                "explained": self.explained,
                "verdict": self.verdict,
                "loss": {"first": self.run.loss[:, 0].mean(), "last": self.run.loss[:, -1].mean()},
                "status": self.run.status,
                "agreement": self.agreements,
                "handover": None if self.staged is None else self.staged.handover,
                "modules": self.modules,
                "elbow": self.found.table,
                "race": {"criterion": self.race.criterion, "found_wins": self.found_wins, "order": order},
                "selectivity": self.selectivity,
                "assumptions": self.assumptions,
            }
        )
        return told

    def figure(self) -> Figure:
        """Losses, modules, what they write, the race, the elbow and the selectivity."""
        figure, axes = new_figure(3, rows=2, width=4.6)
        panels.draw_losses(axes[0, 0], self.run, self.found.reconstruction, self.staged)
        panels.draw_modules(axes[0, 1], self.modules, self.groups)
        panels.draw_written(axes[0, 2], self.modules)
        panels.draw_race(axes[1, 0], self.race, self.entered)
        panels.draw_elbow(axes[1, 1], self.found.table)
        panels.draw_selectivity(axes[1, 2], self.selectivity)
        return figure

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write report.html, summary.json, figure.png and the trained networks, run.nc; return the page."""
        out, figure = make_folder(folder), self.figure()
        page = render_page(self.name, self.explained, self.verdict, self.sections, figure, self.settings)
        self.run.save(out / "run.nc")
        write_text(out / "summary.json", json.dumps(self.summary(), indent=2))
        write_whole(out / "figure.png", lambda part: figure.savefig(part, dpi=150))
        return write_text(out / "report.html", page)
