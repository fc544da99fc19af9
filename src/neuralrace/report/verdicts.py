"""What became of claims, in words and in counts; whose a claim is stays apart everywhere.

"Refuted" is said of a paper's sentence alone. What does not hold and is on record as such is a finding, and no fault.
"""

from collections.abc import Iterable, Mapping, Sequence

from neuralrace.papers.claims import Claim, by_kind

WHOSE = {"paper": "Sentences of the paper", "finding": "Findings", "check": "Checks of code and algebra"}
FAILED = {"paper": "refuted", "finding": "does not hold", "check": "does not hold"}
SEVERAL = {"refuted": "refuted", "does not hold": "do not hold"}


def counts(claims: Iterable[Claim]) -> dict[str, dict[str, int]]:
    """Kind -> how many hold, how many do not, and how many of all came out other than recorded."""
    return {
        kind: {
            "hold": sum(claim.holds for claim in chosen),
            "do_not": sum(not claim.holds for claim in chosen),
            "other_than_recorded": sum(not claim.as_recorded for claim in chosen),
        }
        for kind, chosen in by_kind(claims).items()
    }


def counted(kind: str, numbers: Mapping[str, int]) -> str:
    """One kind's counts: "30 hold, 11 refuted"."""
    held, failed = numbers["hold"], numbers["do_not"]
    parts = [f"{held} hold{'s' if held == 1 else ''}"] if held or not failed else []
    if failed:
        parts.append(f"{failed} {FAILED[kind] if failed == 1 else SEVERAL[FAILED[kind]]}")
    return ", ".join(parts)


def tally(claims: Sequence[Claim]) -> str:
    """All counts in one line: "paper: 30 hold, 11 refuted; ours: ...; check: ...", and whether it is as recorded."""
    told = "; ".join(f"{kind}: {counted(kind, entry)}" for kind, entry in counts(claims).items())
    return f"{told}. {compared_with_record(claims)}"


def compared_with_record(claims: Sequence[Claim]) -> str:
    """Whether all came out as recorded, or how many did not."""
    other = sum(not claim.as_recorded for claim in claims)
    return f"{other} came out other than recorded." if other else "All came out as recorded."


def verdict(claim: Claim) -> str:
    """The verdict in words."""
    word = "holds" if claim.holds else FAILED[claim.kind]
    return word if claim.as_recorded else f"{word}, other than recorded"
