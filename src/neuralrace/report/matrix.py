"""All claims at a glance: a row for each experiment, a mark for each claim, and filters."""

from collections.abc import Mapping, Sequence
from html import escape

from neuralrace.papers.claims import KINDS, Claim
from neuralrace.papers.experiment import Result
from neuralrace.papers.registry import heading
from neuralrace.report.verdicts import WHOSE, counted, counts, verdict

# style of a verdict -> its mark and its name; a shape for each, so that no color is needed to tell them apart
MARKS = {
    "holds": ("●", "holds"),
    "refuted": ("◆", "refuted"),
    "known": ("◇", "does not hold"),
    "fails": ("!", "other than recorded"),
    "open": ("○", "not judged"),
}


def style(claim: Claim, judged: bool) -> str:
    """Which of the marks a claim has."""
    if not judged:
        return "open"
    if not claim.as_recorded:
        return "fails"
    return "holds" if claim.holds else "refuted" if claim.kind == "paper" else "known"


def data(paper: str, claim: Claim, judged: bool) -> str:
    """What the filters go by."""
    return f'data-paper="{paper}" data-kind="{claim.kind}" data-verdict="{style(claim, judged)}"'


def mark(claim: Claim, judged: bool) -> str:
    """The mark of a claim, for reading in a line."""
    name = style(claim, judged)
    return f'<span class="mark {name}" aria-hidden="true">{MARKS[name][0]}</span>'


def render_matrix(groups: Mapping[str, Sequence[Result]]) -> str:
    """The matrix with its legend and its filters; without a script it is complete and the filters are not shown."""
    every = [(claim, result.judged) for results in groups.values() for result in results for claim in result.claims]
    used = [name for name in MARKS if any(style(*one) == name for one in every)]
    legend = " ".join(f'<span><span class="mark {n}">{MARKS[n][0]}</span> {MARKS[n][1]}</span>' for n in used)
    choices = {
        "paper": {sign: sign for sign in groups},
        "kind": {kind: WHOSE[kind] for kind in KINDS},
        "verdict": {name: MARKS[name][1] for name in used},
    }
    filters = "".join(_filter(name, values) for name, values in choices.items())
    head = "".join(f"<th>{WHOSE[kind]}</th>" for kind in KINDS)
    body = "".join(_group(paper, results) for paper, results in groups.items())
    return f"""<section class="plain" id="claims"><h2>Every claim at a glance</h2>
<p class="soft legend">{legend}</p>
<form class="filter" hidden>{filters}<button type="reset">all</button></form>
<table class="matrix"><thead><tr><th>experiment</th>{head}</tr></thead>{body}</table></section>
"""


def _filter(name: str, values: Mapping[str, str]) -> str:
    listed = "".join(f'<option value="{value}">{escape(words)}</option>' for value, words in values.items())
    return f'<label>{name} <select name="{name}"><option value="">all</option>{listed}</select></label> '


def _group(paper: str, results: Sequence[Result]) -> str:
    claims = [claim for result in results if result.judged for claim in result.claims]
    numbers = counts(claims)
    told = {kind: counted(kind, numbers[kind]) if kind in numbers else "" for kind in KINDS}
    cells = "".join(f'<th data-label="{WHOSE[kind]}">{words}</th>' for kind, words in told.items())
    rows = "".join(_row(paper, result) for result in results)
    return f'<tbody data-holder><tr class="paper"><th>{escape(heading(paper))}</th>{cells}</tr>{rows}</tbody>'


def _row(paper: str, result: Result) -> str:
    cells: dict[str, list[str]] = {kind: [] for kind in KINDS}
    name = result.experiment.name
    for number, claim in enumerate(result.claims, 1):
        words = f"{verdict(claim) if result.judged else 'not judged'}: {claim.text}"
        kind, symbol = style(claim, result.judged), MARKS[style(claim, result.judged)][0]
        cells[claim.kind].append(
            f'<a class="mark {kind}" {data(paper, claim, result.judged)} href="#{name}-{number}" '
            f'title="{escape(words)}" aria-label="{escape(words)}">{symbol}</a>'
        )
    columns = "".join(f'<td data-label="{WHOSE[kind]}">{"".join(marks)}</td>' for kind, marks in cells.items())
    source = escape(result.experiment.source)
    return (
        f'<tr data-holder><th scope="row"><a href="#{name}">{escape(result.experiment.title)}</a> '
        f'<span class="soft">{source}</span></th>{columns}</tr>'
    )
