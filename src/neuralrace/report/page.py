"""The report of experiments: every figure beside its claims and their verdicts."""

import json
from collections.abc import Sequence
from html import escape
from pathlib import Path

from neuralrace._page import document, picture
from neuralrace.datafiles import write_text
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Result
from neuralrace.experiments.settings import as_json
from neuralrace.report.verdicts import WHOSE, by_kind, counted, counts, reason, tally, verdict

EXPLORER = "http://127.0.0.1:8642/"  # where `neuralrace explore` answers unless told otherwise


def write_report(results: Sequence[Result], path: Path) -> Path:
    """Write the report of some results to one file."""
    return write_text(path, render_report(results))


def render_report(results: Sequence[Result]) -> str:
    """The report as HTML that needs no other file and no network."""
    links = "".join(f'<li><a href="#{r.experiment.name}">{escape(r.experiment.title)}</a></li>' for r in results)
    body = f"""<header>
<h1>neuralrace: predicted and trained</h1>
{"".join(f"<p>{escape(line)}</p>" for line in _summary(results))}
<p class="soft">A sentence of a paper is judged under that paper's own conditions; what we asked beyond it, and checks
of the code and of algebra, are listed and counted apart. A claim that does not hold is a finding, with its reason
beside it, and no fault of the software; a fault would be marked "other than recorded". <code>neuralrace explore</code>
opens the explorer, where each figure has a scene.</p>
<p class="soft">Theory is drawn as black dashed lines, training in colour: the mean over seeds, and a band from the
lowest to the highest. Theory sees the task only through its statistics and is fitted to nothing.</p>
</header>
<nav><ul>{links}</ul></nav>
{"".join(_section(result) for result in results)}"""
    return document("neuralrace: predicted and trained", body)


def _summary(results: Sequence[Result]) -> list[str]:
    """How many experiments and claims there are, and what came of them."""
    claims = [claim for result in results if result.judged for claim in result.claims]
    experiments = f"{len(results)} experiment{'' if len(results) == 1 else 's'}"
    if not claims:
        return [f"{experiments} at the tiny size: claims are computed and not judged."]
    return [f"{experiments}, {len(claims)} claims.", tally(claims)]


def _section(result: Result) -> str:
    experiment = result.experiment
    settings = json.dumps(json.loads(as_json(result.settings)), indent=1)
    differs = (
        f"<p>Where the settings are not the paper's: {escape(experiment.differs)}</p>" if experiment.differs else ""
    )
    return f"""<section id="{experiment.name}">
<h2>{escape(experiment.title)}</h2>
<p class="soft">{escape(experiment.name)} &middot; {escape(experiment.source)} &middot; {escape(result.size)} size
&middot; <a href="{EXPLORER}#preset={experiment.name}">in the explorer</a>, while it runs</p>
<figure>{picture(result.figure(), experiment.title)}</figure>
{differs if experiment.differs else ""}
{"".join(_kind(kind, claims, result.judged) for kind, claims in by_kind(result.claims).items())}
<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>
</section>
"""


def _kind(kind: str, claims: Sequence[Claim], judged: bool) -> str:
    """The claims of one kind under a heading with their count."""
    count = counted(kind, counts(claims)[kind]) if judged else f"{len(claims)}, not judged"
    listed = "".join(_claim(claim, judged) for claim in claims)
    return f'<h3>{WHOSE[kind]} <span class="soft">({count})</span></h3><ul class="claims">{listed}</ul>'


def _claim(claim: Claim, judged: bool) -> str:
    word, style = _verdict(claim, judged)
    known = reason(claim)
    why = f"<dt>on record</dt><dd>{escape(known)}</dd>" if known else ""
    return f"""<li><span class="verdict {style}">{word}.</span> {escape(claim.text)}
<dl><dt>place</dt><dd>{escape(claim.source)}</dd><dt>asked</dt><dd>{escape(claim.expected)}</dd>
<dt>measured</dt><dd>{escape(claim.measured)}</dd>{why}</dl></li>
"""


def _verdict(claim: Claim, judged: bool) -> tuple[str, str]:
    """The word, and the style it is shown in."""
    if not judged:
        return "Not judged", "soft"
    style = "fails" if not claim.as_recorded else "holds" if claim.holds else "known"
    return verdict(claim).capitalize(), style
