"""The report of one task: its findings as a figure, as a page and as files."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from neuralrace.datafiles import make_folder, write_whole
from neuralrace.explanation.drawing import draw
from neuralrace.explanation.findings import Findings
from neuralrace.explanation.page import render


@dataclass(frozen=True, eq=False)
class Report(Findings):
    """The whole story of one task; print it, draw it, or save it."""

    def figure(self) -> Figure:
        """Losses, modules, what they write, the race, the elbow and the selectivity."""
        return draw(self)

    def save(self, out: str | os.PathLike[str]) -> Path:
        """Write report.html, summary.json, figure.png and the trained networks, run.nc; return the page."""
        folder = make_folder(out)
        text, page, figure = json.dumps(self.summary(), indent=2), render(self), self.figure()
        self.run.save(folder / "run.nc")
        write_whole(folder / "summary.json", lambda part: part.write_text(text, encoding="utf-8"))
        write_whole(folder / "figure.png", lambda part: figure.savefig(part, dpi=150))
        return write_whole(folder / "report.html", lambda part: part.write_text(page, encoding="utf-8"))
