"""The report of experiments: one self-contained page with every figure beside its claims.

"Refuted" is said of a paper's sentence alone. What does not hold and is on record as such is a finding, and no fault.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from neuralrace._page import document, panels, render
from neuralrace.io import write_text
from neuralrace.papers.claims import KINDS, Claim, by_kind
from neuralrace.papers.experiment import Result, as_json
from neuralrace.papers.registry import by_paper, heading, papers

__all__ = ["WHOSE", "counted", "counts", "render_report", "render_section", "tally", "verdict", "write_report"]

WHOSE = {"paper": "Sentences of the paper", "finding": "Findings", "check": "Checks of code and algebra"}
FAILED = {"paper": "refuted", "finding": "does not hold", "check": "does not hold"}
# style of a verdict -> its mark and its name; a shape for each, so that no color is needed to tell them apart
MARKS = {
    "holds": ("●", "holds"),
    "refuted": ("◆", "refuted"),
    "known": ("◇", "does not hold"),
    "fails": ("!", "other than recorded"),
    "open": ("○", "not judged"),
}


def counts(claims: Iterable[Claim]) -> dict[str, dict[str, int]]:
    """Count, for each kind, the claims that hold, that do not, and that came out other than recorded."""
    return {
        kind: {
            "hold": sum(claim.holds for claim in chosen),
            "do_not": sum(not claim.holds for claim in chosen),
            "other_than_recorded": sum(not claim.as_recorded for claim in chosen),
        }
        for kind, chosen in by_kind(claims).items()
    }


def counted(kind: str, numbers: Mapping[str, int]) -> str:
    """Write one kind's counts: "30 hold, 11 refuted"."""
    held, failed = numbers["hold"], numbers["do_not"]
    parts = [f"{held} hold{'s' if held == 1 else ''}"] if held or not failed else []
    if failed:
        parts.append(f"{failed} {FAILED[kind] if failed == 1 else FAILED[kind].replace('does', 'do')}")
    return ", ".join(parts)


def recorded(claims: Sequence[Claim]) -> str:
    """Say whether all verdicts came out as recorded."""
    other = sum(not claim.as_recorded for claim in claims)
    return f"{other} came out other than recorded." if other else "All came out as recorded."


def tally(claims: Sequence[Claim]) -> str:
    """Write all counts in one line, and whether all came out as recorded."""
    text = "; ".join(f"{kind}: {counted(kind, numbers)}" for kind, numbers in counts(claims).items())
    return f"{text}. {recorded(claims)}"


def verdict(claim: Claim) -> str:
    """Write the verdict on a claim."""
    word = ("holds" if claim.holds else FAILED[claim.kind]) + (", near its threshold" if claim.near else "")
    return word if claim.as_recorded else f"{word}, other than recorded"


def write_report(results: Sequence[Result], path: Path, drawn: Mapping[str, str] | None = None) -> Path:
    """Write the report of some results to one file."""
    return write_text(path, render_report(results, drawn))


def render_report(results: Sequence[Result], drawn: Mapping[str, str] | None = None) -> str:
    """Write the report as HTML that needs no other file and no network, and is complete without its script.

    drawn: name -> its section, of experiments that `render_section` was called for before, in other processes.
    """
    found = {result.experiment.name: result for result in results}
    groups: list[dict[str, Any]] = []
    for sign, names in by_paper(list(found)).items():
        chosen = [found[name] for name in names]
        judged = [claim for result in chosen if result.judged for claim in result.claims]
        numbers = {kind: counted(kind, count) for kind, count in counts(judged).items()}
        rows = [{"result": result, "claims": _judged(result)} for result in chosen]
        sections = [(drawn or {}).get(name) or render_section(found[name]) for name in names]
        groups.append(
            {"sign": sign, "heading": heading(sign), "tally": tally(judged) if judged else "", "counts": numbers}
            | {"rows": rows, "sections": sections}
        )
    judged = [claim for result in results if result.judged for claim in result.claims]
    used = {claim["style"] for group in groups for row in group["rows"] for claim in row["claims"]}
    values = {
        "results": results,
        "judged": judged,
        "recorded": recorded(judged) if judged else "",
        "counts": {kind: counted(kind, count) for kind, count in counts(judged).items()},
        "groups": groups,
        "papers": {group["sign"]: papers()[group["sign"]] for group in groups},
        "kinds": {kind: WHOSE[kind] for kind in KINDS},
        "marks": {style: mark for style, mark in MARKS.items() if style in used},
    }
    return document("neuralrace: predicted and trained", render("neuralrace.report", "report.html", values))


def render_section(result: Result) -> str:
    """Write the section of one result: what was found, its panels and claims, how to run it again."""
    drawn, claims = panels(result.laid_out), _judged(result)
    for claim in claims:
        letters = set(claim["claim"].panel.replace(" ", "").split(","))
        claim["panels"] = [i for i, panel in enumerate(drawn) if len(drawn) == 1 or letters & set(panel.letters)]
    pictures = [
        {"panel": panel, "claims": [claim["number"] for claim in claims if place in claim["panels"]]}
        for place, panel in enumerate(drawn)
    ]
    first = [claim for claim in claims if claim["style"] in ("fails", "refuted")]  # which a reader should not miss
    folds = []
    for kind, chosen in by_kind(result.claims).items():
        rest = [claim for claim in claims if claim["claim"].kind == kind and claim not in first]
        summary = counted(kind, counts(chosen)[kind]) if result.judged else f"{len(chosen)}, not judged"
        above = len(chosen) - len(rest)
        folds.append((WHOSE[kind], f"{summary}, {above} shown above" if above else summary, rest))
    values = {
        "name": result.experiment.name,
        "experiment": result.experiment,
        "size": result.size,
        "settings": json.dumps(json.loads(as_json(result.settings)), indent=1),
        "pictures": pictures,
        "first": first,
        "folds": folds,
        "marks": MARKS,
    }
    return render("neuralrace.report", "section.html", values)


def _judged(result: Result) -> list[dict[str, Any]]:
    found = []
    for number, claim in enumerate(result.claims, 1):
        style = "holds" if claim.holds else "refuted" if claim.kind == "paper" else "known"
        style = "open" if not result.judged else style if claim.as_recorded else "fails"
        said = verdict(claim) if result.judged else "not judged"
        paper = result.experiment.paper
        found.append({"number": number, "claim": claim, "style": style, "verdict": said, "paper": paper})
    return found
