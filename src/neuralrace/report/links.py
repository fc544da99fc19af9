"""Which panel shows a claim: by the letters that the one names and the other is titled with."""

import re
from collections.abc import Sequence

from neuralrace._page import Panel
from neuralrace.experiments.claim import Claim

FIGURE = re.compile(r"Figs? (\d+)([a-h](?:-[a-h])?)?(?:, ([a-h])\b)?")

ROWS = re.compile(r"rows? (\d)(?: and (\d))?")  # of a figure whose panels have no letters


def letters(claim: Claim) -> set[str]:
    """What a claim calls its panels: letters of its own, or those of its source, or the number of its figure."""
    if claim.panel:
        return set(claim.panel.replace(" ", "").split(","))
    found = {number for pair in ROWS.findall(claim.source) for number in pair if number}
    for number, first, second in FIGURE.findall(claim.source):
        if "-" in first:
            found |= {chr(code) for code in range(ord(first[0]), ord(first[-1]) + 1)}
        found |= {part for part in (first, second) if len(part) == 1} or (set() if first else {number})
    return found


def linked(claims: Sequence[Claim], panels: Sequence[Panel]) -> tuple[list[list[int]], list[list[int]]]:
    """For each claim the places of its panels, and for each panel the places of its claims."""
    asked = [letters(claim) for claim in claims]
    alone = len(panels) == 1  # then it shows all there is
    of_claims = [[i for i, panel in enumerate(panels) if alone or set(panel.letters) & named] for named in asked]
    of_panels = [[place for place, own in enumerate(of_claims) if panel in own] for panel in range(len(panels))]
    return of_claims, of_panels
