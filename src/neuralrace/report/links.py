"""Which panel shows a claim: by the letters that the one names and the other is titled with."""

import re
from collections.abc import Sequence

from neuralrace._page import Panel
from neuralrace.experiments.claim import Claim

ONE = r"(?:\d+[a-h]?(?:-[a-h])?|[a-h]\b)"  # 4, 4c, 2a-c, or a further letter
FIGURES = re.compile(rf"Figs? ({ONE}(?:(?:, | and ){ONE})*)")  # Fig 4c; Figs 7b, 7c and 8
PARTS = re.compile(r"(\d*)([a-h]?)(?:-([a-h]))?")


def letters(claim: Claim) -> set[str]:
    """What a claim calls its panels: letters of its own, or those of its source, or the number of its figure."""
    if claim.panel:
        return set(claim.panel.replace(" ", "").split(","))
    listed = [one for found in FIGURES.findall(claim.source) for one in re.split(", | and ", found)]
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
