"""The report of experiments: what came out at a glance, then paper by paper every figure beside its claims."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from neuralrace._page import document
from neuralrace.datafiles import write_text
from neuralrace.experiments.experiment import Result
from neuralrace.experiments.papers import by_paper, heading
from neuralrace.report.matrix import render_matrix
from neuralrace.report.opening import render_key, render_opening
from neuralrace.report.section import render_section
from neuralrace.report.verdicts import tally

TITLE = "neuralrace: predicted and trained"


def write_report(results: Sequence[Result], path: Path, drawn: Mapping[str, str] | None = None) -> Path:
    """Write the report of some results to one file."""
    return write_text(path, render_report(results, drawn))


def render_report(results: Sequence[Result], drawn: Mapping[str, str] | None = None) -> str:
    """The report as HTML that needs no other file and no network, and is complete without its script.

    drawn: name -> its section, of experiments that `render_section` was asked for before: drawing takes its time.
    """
    groups = by_paper(results, lambda result: (result.experiment.name, result.experiment.source))
    papers = "".join(_paper(sign, chosen, drawn or {}) for sign, chosen in groups.items())
    body = f"{render_opening(results, groups)}{render_key()}{render_matrix(groups)}{papers}"
    return document(TITLE, body)


def _paper(sign: str, results: Sequence[Result], drawn: Mapping[str, str]) -> str:
    claims = [claim for result in results if result.judged for claim in result.claims]
    told = f'<p class="soft">{tally(claims)}</p>' if claims else ""
    sections = "".join(drawn.get(result.experiment.name) or render_section(result) for result in results)
    return f"<article data-holder><h2>{escape(heading(sign))}</h2>{told}{sections}</article>"
