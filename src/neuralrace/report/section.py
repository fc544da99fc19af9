"""One experiment: what was found, its panels, its claims, how to run it again, what differs from the paper."""

import json
import re
from collections.abc import Sequence
from html import escape

from neuralrace._page import Panel, panels, set_maths
from neuralrace.papers.claims import Claim, by_kind
from neuralrace.papers.experiment import Result
from neuralrace.papers.registry import FIGURES
from neuralrace.papers.settings import as_json
from neuralrace.report.matrix import data, mark, style
from neuralrace.report.verdicts import WHOSE, counted, counts, verdict

EXPLORER = "http://127.0.0.1:8642/"  # where `neuralrace explore` answers unless told otherwise
ONE = r"(?:\d+[a-h]?(?:-[a-h])?|[a-h]\b)"  # 4, 4c, 2a-c, or a further letter
NAMED = re.compile(rf"Figs? ({ONE}(?:(?:, | and ){ONE})*)")  # Fig 4c; Figs 7b, 7c and 8
PARTS = re.compile(r"(\d*)([a-h]?)(?:-([a-h]))?")


def render_section(result: Result) -> str:
    """The section of a result."""
    experiment, claims, paper = result.experiment, result.claims, FIGURES[result.experiment.name].paper
    drawn = panels(result.laid_out)
    of_claims, of_panels = linked(claims, drawn)
    shown = "".join(_panel(experiment.name, place, panel, of_panels[place]) for place, panel in enumerate(drawn))
    items = {
        number: _claim(result, paper, number, claim, [drawn[place] for place in of_claims[number - 1]], of_claims)
        for number, claim in enumerate(claims, 1)
    }
    settings = json.dumps(json.loads(as_json(result.settings)), indent=1)
    differs = f"<p>What differs from the paper: {set_maths(experiment.differs)}</p>" if experiment.differs else ""
    found = f'<p class="finding">{set_maths(experiment.finding)}</p>' if experiment.finding else ""
    size = "" if result.size == "full" else f" --size {result.size}"
    return f"""<section id="{experiment.name}" data-holder>
<h3>{escape(experiment.title)}</h3>
<p class="soft">{escape(experiment.source)} &middot;
<a href="{EXPLORER}#preset={experiment.name}">in the explorer</a>, while <code>neuralrace explore</code> runs</p>
{found}
<div class="figures">{shown}</div>
{_claims(result, items)}
{differs}
<p class="again">Run it again: <code>neuralrace run {experiment.name}{size} --out results</code></p>
<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>
</section>
"""


def _panel(name: str, place: int, panel: Panel, claims: Sequence[int]) -> str:
    letter = f"<strong>{', '.join(panel.letters)}</strong> " if panel.letters else ""
    links = ", ".join(f'<a href="#{name}-{number + 1}">{number + 1}</a>' for number in claims)
    told = f' <span class="soft">claim{"s" if len(claims) > 1 else ""} {links}</span>' if claims else ""
    title = f"{letter}{set_maths(panel.title)}{told}"
    return f'<figure id="{name}-panel-{place + 1}"><figcaption>{title}</figcaption>{panel.image()}</figure>'


def _claims(result: Result, items: dict[int, str]) -> str:
    """First what a reader should not miss, then each kind, folded."""
    numbered = dict(enumerate(result.claims, 1))
    first = {
        number
        for number, claim in numbered.items()
        if result.judged and (not claim.as_recorded or (claim.kind == "paper" and not claim.holds))
    }
    parts = [f'<ul class="claims">{"".join(items[number] for number in sorted(first))}</ul>'] if first else []
    for kind, claims in by_kind(result.claims).items():
        rest = [number for number, claim in numbered.items() if claim.kind == kind and number not in first]
        count = counted(kind, counts(claims)[kind]) if result.judged else f"{len(claims)}, not judged"
        above = sum(numbered[number].kind == kind for number in first)
        told = f"{count}, {above} of them above" if above and rest else f"{count}, shown above" if above else count
        listed = "".join(items[number] for number in rest)
        body = f'<ul class="claims">{listed}</ul>' if rest else ""
        summary = f'{WHOSE[kind]} <span class="soft">({told})</span>'
        fold = f'<details class="claims" data-holder><summary>{summary}</summary>{body}</details>'
        parts.append(fold if rest else f'<p class="kind">{summary}</p>')
    return "\n".join(parts)


def _claim(
    result: Result, paper: str, number: int, claim: Claim, drawn: Sequence[Panel], places: Sequence[Sequence[int]]
) -> str:
    name, judged, known = result.experiment.name, result.judged, claim.fails
    word = verdict(claim).capitalize() if judged else "Not judged"
    why = f"<dt>why</dt><dd>{set_maths(known)}</dd>" if known else ""
    firsts: dict[str, int] = {}  # of panels with the same letter the first, beside which the others stand
    for panel, place in zip(drawn, places[number - 1], strict=True):
        firsts.setdefault(", ".join(panel.letters) or "the figure", place)
    links = (f'<a href="#{name}-panel-{place + 1}">{words}</a>' for words, place in firsts.items())
    shown = ", ".join(links) or "none: a number alone"
    return f"""<li id="{name}-{number}" {data(paper, claim, judged)}>{mark(claim, judged)} {number}.
<span class="verdict {style(claim, judged)}">{word}.</span> {set_maths(claim.text)}
<dl><dt>place</dt><dd>{set_maths(claim.source)}</dd><dt>asked</dt><dd>{set_maths(claim.asked)}</dd>
<dt>measured</dt><dd>{set_maths(claim.shown)}</dd>{why}<dt>panel</dt><dd>{shown}</dd></dl></li>
"""


def letters(claim: Claim) -> set[str]:
    """What a claim calls its panels: letters of its own, or those of its source, or the number of its figure."""
    if claim.panel:
        return set(claim.panel.replace(" ", "").split(","))
    listed = [one for found in NAMED.findall(claim.source) for one in re.split(", | and ", found)]
    names: set[str] = set()
    for number, first, last in (match.groups() for one in listed if (match := PARTS.fullmatch(one))):
        names |= {chr(code) for code in range(ord(first), ord(last or first) + 1)} if first else {number}
    return names


def linked(claims: Sequence[Claim], panels: Sequence[Panel]) -> tuple[list[list[int]], list[list[int]]]:
    """For each claim the places of its panels, and for each panel the places of its claims."""
    asked = [letters(claim) for claim in claims]
    alone = len(panels) == 1  # then it shows all there is
    of_claims = [[i for i, panel in enumerate(panels) if alone or set(panel.letters) & named] for named in asked]
    of_panels = [[place for place, own in enumerate(of_claims) if panel in own] for panel in range(len(panels))]
    return of_claims, of_panels
