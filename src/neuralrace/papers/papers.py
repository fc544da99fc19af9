"""The texts behind the experiments, and the order in which they speak of what is shown."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeVar

Thing = TypeVar("Thing")


class Paper(NamedTuple):
    """A text: the sign it is known by here, its name, who wrote it, where and when it appeared, what it says.

    found: what came of that, in a sentence that the claims bear out.
    """

    sign: str
    name: str
    authors: str
    place: str
    says: str
    found: str

    @property
    def short(self) -> str:
        """Name, first authors and year in a line."""
        (year,) = re.findall(r"\b20\d\d\b", self.place)[:1]
        surnames = [author.rpartition(" ")[2] for author in self.authors.split(", ")]
        who = ", ".join(surnames) if len(surnames) > 1 else self.authors.lower()
        return f"{self.name.partition(':')[0]} ({who} {year})"


PAPERS = {
    paper.sign: paper
    for paper in (
        Paper(
            "P1",
            "The Neural Race Reduction: Dynamics of Abstraction in Gated Networks",
            "A. M. Saxe, S. Sodhani, S. Lewallen",
            "Proceedings of the 39th International Conference on Machine Learning, PMLR 162, 2022. arXiv:2207.10430",
            "In networks of linear layers that gates switch on and off, pathways race: those that most of the data "
            "share learn first and take the solution, so that the network works where it was never trained.",
            "So it is. Forecasts from the statistics of a task follow training to a few per cent, and shared pathways "
            "win.",
        ),
        Paper(
            "P2",
            "Make Haste Slowly: A Theory of Emergent Structured Mixed Selectivity in Feature Learning ReLU Networks",
            "D. Jarvis, R. Klein, B. Rosman, A. M. Saxe",
            "International Conference on Learning Representations, 2025",
            "A ReLU network learns as such a gated network does: its neurons form a few modules, those that win the "
            "race.",
            "In part. The modules are found, and with the published settings outputs agree and losses nearly do; but "
            "this needs initial scales set by hand, neurons have many more gate patterns than its lemma allows, and "
            "another gating may win the race.",
        ),
        Paper(
            "P3",
            "The race of views: a summary of P1, with a race equation of its own and predictions for data with several "
            "views",
            "A lab",
            "unpublished, 2026",
            "The views by which a class can be told race by one simple law, and a single one takes all.",
            "The law is right, the outcome rarely: at depth two shares stay as they start, and beyond it losers keep "
            "what they gained.",
        ),
    )
}
BEYOND = "beyond"  # the group of experiments that name none of the papers

# Experiments as their paper speaks of them. One that is not named here comes after these, by the numbers in its name.
ORDER = (
    *("saxe2022-fig3", "saxe2022-contextual", "saxe2022-fig4", "saxe2022-fig5", "saxe2022-fig6"),
    *("jarvis2025-fig2", "jarvis2025-fig3", "jarvis2025-fig4", "jarvis2025-race", "jarvis2025-proposition"),
    *("jarvis2025-fig5", "jarvis2025-fig6", "saxe2022-linear", "jarvis2025-fig8", "jarvis2025-fidelity"),
    *("modules-foreseen",),
    *("views-law", "views-winner", "views-gated", "views-relu", "views-map"),
)


def paper_of(source: str) -> str:
    """The sign of the paper that a source names first; "beyond" if it names none."""
    return min((sign for sign in PAPERS if sign in source), key=source.index, default=BEYOND)


def heading(sign: str) -> str:
    """The sign of a paper with its short name."""
    return f"{sign}: {PAPERS[sign].short}" if sign in PAPERS else "Beyond the papers"


def by_paper(things: Iterable[Thing], named: Callable[[Thing], tuple[str, str]]) -> dict[str, list[Thing]]:
    """Things of each paper that has any, in its order; named: a thing -> its experiment's name and source."""
    place = {name: number for number, name in enumerate(ORDER)}

    def order(thing: Thing) -> tuple[int, list[tuple[int, str]]]:
        name = named(thing)[0]
        parts = re.findall(r"\d+|\D+", name)  # fig10 after fig9
        return place.get(name, len(place)), [(int(part), "") if part.isdigit() else (0, part) for part in parts]

    ordered = sorted(things, key=order)
    found = {sign: [thing for thing in ordered if paper_of(named(thing)[1]) == sign] for sign in (*PAPERS, BEYOND)}
    return {sign: chosen for sign, chosen in found.items() if chosen}
