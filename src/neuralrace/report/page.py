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


def write_report(results: Sequence[Result], path: Path) -> Path:
    """Write the report of some results to one file."""
    return write_text(path, render_report(results))


def render_report(results: Sequence[Result]) -> str:
    """The report as HTML that needs no other file and no network."""
    links = "".join(f'<li><a href="#{r.experiment.name}">{escape(r.experiment.title)}</a></li>' for r in results)
    body = f"""<header>
<h1>neuralrace: predicted and trained</h1>
<p>{escape(_tally(results))}</p>
<p class="soft">Theory is drawn as black dashed lines, training in colour: the mean over seeds, and a band from the
lowest to the highest. Theory sees the task only through its statistics and is fitted to nothing.</p>
</header>
<nav><ul>{links}</ul></nav>
{"".join(_section(result) for result in results)}"""
    return document("neuralrace: predicted and trained", body)


def _tally(results: Sequence[Result]) -> str:
    claims = [claim for result in results if result.judged for claim in result.claims]
    count = len(results)
    experiments = f"{count} experiment{'' if count == 1 else 's'}"
    if not claims:
        return f"{experiments} at the tiny size: claims are computed and not judged."
    held = sum(claim.holds for claim in claims)
    other = sum(not claim.as_recorded for claim in claims)
    surprise = f" {other} came out other than recorded." if other else " All came out as recorded."
    return f"{experiments}, {len(claims)} claims: {held} hold, {len(claims) - held} do not.{surprise}"


def _section(result: Result) -> str:
    experiment = result.experiment
    claims = "".join(_claim(claim, result.judged) for claim in result.claims)
    settings = json.dumps(json.loads(as_json(result.settings)), indent=1)
    return f"""<section id="{experiment.name}">
<h2>{escape(experiment.title)}</h2>
<p class="soft">{escape(experiment.name)} &middot; {escape(experiment.source)} &middot; {escape(result.size)} size</p>
<figure>{picture(result.figure(), experiment.title)}</figure>
<ul class="claims">{claims}</ul>
<details><summary>Settings</summary><pre>{escape(settings)}</pre></details>
</section>
"""


def _claim(claim: Claim, judged: bool) -> str:
    word, kind = _verdict(claim, judged)
    record = "" if claim.on_record == "holds" else f"<dt>on record</dt><dd>{escape(claim.on_record)}</dd>"
    return f"""<li><span class="verdict {kind}">{word}</span> {escape(claim.text)}
<dl><dt>claimed in</dt><dd>{escape(claim.source)}</dd><dt>expected</dt><dd>{escape(claim.expected)}</dd>
<dt>measured</dt><dd>{escape(claim.measured)}</dd>{record}</dl></li>
"""


def _verdict(claim: Claim, judged: bool) -> tuple[str, str]:
    if not judged:
        return "Not judged.", "soft"
    if not claim.as_recorded:
        return ("Holds, other than recorded." if claim.holds else "Does not hold, other than recorded."), "fails"
    return ("Holds.", "holds") if claim.holds else ("Does not hold, as recorded.", "known")
