"""The report of experiments: its opening, what came out at a glance, then by paper every figure beside its claims."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from neuralrace._page import document, set_maths
from neuralrace.datafiles import write_text
from neuralrace.papers.experiment import Result
from neuralrace.papers.registry import PAPERS, by_paper, heading
from neuralrace.report.matrix import render_matrix
from neuralrace.report.section import render_section
from neuralrace.report.verdicts import WHOSE, compared_with_record, counted, counts, tally

TITLE = "neuralrace: predicted and trained"
WORDS = {
    "theory": "What is computed from the statistics of a task and the law of the first weights, before and without any "
    "training; nothing in it is fitted. Black dashes in every figure.",
    "training": "Gradient descent on the examples. In color: the mean over the seeds, and a band from the lowest to "
    "the highest.",
    "reconstruction": "What is computed with anything read off a trained network. It describes and forecasts nothing; "
    "violet, dash and dot.",
    "seeds": "Networks trained from different first weights. Theory has draws of its own and never those of training.",
    "time": "Learning rate times step. Epochs are steps over all examples.",
    "normalized L1": "The area between two loss curves over the area under the trained one: 0.05 can hardly be seen in "
    "a printed figure.",
    "log10 gap": "The mean distance of log10 of two losses: it also sees the end of learning, where L1 sees nothing.",
    "holds": "Measured, and within the limit that stands beside it.",
    "refuted": "Said of a paper's sentence alone, under that paper's own conditions: measured, and outside the limit.",
    "does not hold": "The same of what we asked ourselves. A finding, with its reason, and no fault of the software.",
    "other than recorded": "The verdict differs from the one on record: that would be a fault, of code or of record.",
}


def write_report(results: Sequence[Result], path: Path, drawn: Mapping[str, str] | None = None) -> Path:
    """Write the report of some results to one file."""
    return write_text(path, render_report(results, drawn))


def render_report(results: Sequence[Result], drawn: Mapping[str, str] | None = None) -> str:
    """The report as HTML that needs no other file and no network, and is complete without its script.

    drawn: name -> its section, of experiments that `render_section` was asked for before: drawing takes its time.
    """
    found = {result.experiment.name: result for result in results}
    groups = {sign: [found[name] for name in chosen] for sign, chosen in by_paper(list(found)).items()}
    papers = "".join(_paper(sign, chosen, drawn or {}) for sign, chosen in groups.items())
    body = f"{render_opening(results, groups)}{render_key()}{render_matrix(groups)}{papers}"
    return document(TITLE, body)


def _paper(sign: str, results: Sequence[Result], drawn: Mapping[str, str]) -> str:
    claims = [claim for result in results if result.judged for claim in result.claims]
    told = f'<p class="soft">{tally(claims)}</p>' if claims else ""
    sections = "".join(drawn.get(result.experiment.name) or render_section(result) for result in results)
    return f"<article data-holder><h2>{escape(heading(sign))}</h2>{told}{sections}</article>"


def render_opening(results: Sequence[Result], groups: Mapping[str, Sequence[Result]]) -> str:
    """The first screen."""
    outcome = "".join(_outcome(results))
    return f"""<header>
<h1>How gated and ReLU networks learn: predicted and trained</h1>
<p>Papers on neural networks with gates, ReLU networks among them, say what is learned first, how fast, and by which
inner parts. Here their figures are computed again in two ways that share no random number: by
<strong>theory</strong>, from the statistics of the task alone and before anything is trained, and by
<strong>training</strong> real networks. What the papers say is then measured, sentence by sentence.</p>
{outcome}
{_texts(groups)}
</header>
"""


def render_key() -> str:
    """What the words mean."""
    words = "".join(f"<dt>{word}</dt><dd>{set_maths(meaning)}</dd>" for word, meaning in WORDS.items())
    key = f'<summary>Key to the words: {", ".join(WORDS)}</summary><dl class="words">{words}</dl>'
    return f'<details class="key">{key}</details>'


def _texts(groups: Mapping[str, Sequence[Result]]) -> str:
    """The texts in full, what each says and what came of it."""
    cited = (
        f'<li id="{sign}"><strong>{sign}</strong> {escape(paper.authors)}. '
        f"<cite>{escape(paper.name)}</cite>. {escape(paper.place)}.<br>"
        f'<span class="soft">It says:</span> {escape(paper.says)}<br>'
        f'<span class="soft">What came out:</span> <strong>{escape(paper.found)}</strong></li>'
        for sign, paper in PAPERS.items()
        if sign in groups
    )
    return f'<ul class="texts">{"".join(cited)}</ul>'


def _outcome(results: Sequence[Result]) -> list[str]:
    """How many experiments and claims there are, and what came of them."""
    claims = [claim for result in results if result.judged for claim in result.claims]
    experiments = f"{len(results)} experiment{'' if len(results) == 1 else 's'}"
    if not claims:
        return [f"<p>{experiments} at the tiny size: claims are computed and not judged.</p>"]
    numbers = counts(claims)
    rows = "".join(
        f"<li><strong>{counted(kind, numbers[kind])}</strong> {WHOSE[kind][0].lower()}{WHOSE[kind][1:]}</li>"
        for kind in numbers
    )
    listed = f'<ul class="outcome">{rows}</ul>'
    return [f"<p>{experiments}, {len(claims)} claims. {compared_with_record(claims)}</p>", listed]
