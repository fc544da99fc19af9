"""The papers, and the figures made again, in the order in which their papers speak of them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Paper(NamedTuple):
    """A text: its name, a short form of it, its authors, where it appeared, what it says, and the verdict."""

    name: str
    short: str
    authors: str
    place: str
    says: str
    found: str


PAPERS = {
    "P1": Paper(
        "The Neural Race Reduction: Dynamics of Abstraction in Gated Networks",
        "The Neural Race Reduction (Saxe, Sodhani, Lewallen 2022)",
        "A. M. Saxe, S. Sodhani, S. Lewallen",
        "Proceedings of the 39th International Conference on Machine Learning, PMLR 162, 2022. arXiv:2207.10430",
        "In networks of linear layers that gates switch on and off, pathways race: those that most of the data "
        "share learn first and take the solution, so that the network works where it was never trained.",
        "So it is. Forecasts from the statistics of a task follow training to a few per cent, and shared pathways win.",
    ),
    "P2": Paper(
        "Make Haste Slowly: A Theory of Emergent Structured Mixed Selectivity in Feature Learning ReLU Networks",
        "Make Haste Slowly (Jarvis, Klein, Rosman, Saxe 2025)",
        "D. Jarvis, R. Klein, B. Rosman, A. M. Saxe",
        "International Conference on Learning Representations, 2025",
        "A ReLU network learns as such a gated network does: its neurons form a few modules, those that win the race.",
        "In part. The modules are found, and with the published settings outputs agree and losses nearly do; but "
        "this needs initial scales set by hand, and neurons have many more gate patterns than its lemma allows, of "
        "which many grow faster than its modules.",
    ),
    "P3": Paper(
        "The race of views: a summary of P1, with a race equation of its own and predictions for data with several "
        "views",
        "The race of views (a lab 2026)",
        "A lab",
        "unpublished, 2026",
        "The views by which a class can be told race by one simple law, and a single one takes all.",
        "The race equation is right, the outcome rarely: at depth two shares stay as they start, and beyond it losers "
        "keep what they gained.",
    ),
}


class Listed(NamedTuple):
    """A figure in the listing.

    source: its place in the paper. module: where `EXPERIMENT` is declared (default: as the name says), or module:name.
    seconds: roughly what it takes.
    """

    paper: str
    source: str
    title: str
    module: str = ""
    seconds: float = 10.0


FIGURES: Mapping[str, Listed] = {
    "saxe2022-fig3": Listed("P1", "P1 Fig 3", "XOR in a gated network and in ReLU networks"),
    "saxe2022-contextual": Listed(
        "P1", "P1 appendix A.2", "Contextual classification: what a linear network cannot do"
    ),
    "saxe2022-fig4": Listed("P1", "P1 Fig 4", "Routing: one hidden matrix shared by all domains", seconds=21),
    "saxe2022-fig5": Listed(
        "P1", "P1 Fig 5", "The race: pathways that share learn faster and take the solution", seconds=27
    ),
    "saxe2022-fig6": Listed("P1", "P1 Fig 6", "Initial scale: from the race to the lazy regime"),
    "saxe2022-fig7": Listed(
        "P1",
        "P1 Fig 7",
        "Real images: zero-shot transfer to pairs of domains that were never trained",
        "saxe2022.images:FIG7",
    ),
    "saxe2022-fig8": Listed(
        "P1", "P1 Fig 8", "Real images: zero-shot error over the part of pairs that is trained", "saxe2022.images:FIG8"
    ),
    "saxe2022-fig9": Listed(
        "P1",
        "P1 Fig 9",
        "Real images with leaky ReLU: zero-shot error over the part of pairs that is trained",
        "saxe2022.images:FIG9",
    ),
    "saxe2022-fig10": Listed(
        "P1", "P1 Fig 10", "Real images: zero-shot error over the scale of the initial weights", "saxe2022.images:FIG10"
    ),
    "pairs": Listed(
        "P1",
        "beyond P1 Figs 5 and 7",
        "Which pairs are trained: the race of the modes of their graph",
        "beyond.pairs",
        seconds=60,
    ),
    "jarvis2025-fig2": Listed("P2", "P2 Fig 2", "From XOR to a linear margin: which gating a ReLU network learns by"),
    "jarvis2025-fig3": Listed(
        "P2",
        "P2 Fig 3, Definition 3.1, appendix H",
        "The data set, ReLU networks as gated networks, and the least width",
        seconds=25,
    ),
    "jarvis2025-fig4": Listed(
        "P2", "P2 Fig 4", "Mixed contexts: four modules, their losses and their modes", seconds=36
    ),
    "jarvis2025-race": Listed(
        "P2",
        "P2 Lemma 4.1 and Proposition 4.2",
        "Which gates a neuron can have, and how fast modules of each kind grow",
    ),
    "jarvis2025-proposition": Listed(
        "P2",
        "P2 Proposition 4.2, appendix E",
        "Proposition 4.2 step by step, on the task and on trained networks",
        seconds=22,
    ),
    "jarvis2025-fig5": Listed(
        "P2", "P2 Fig 5", "More contexts: modules, losses, singular values and the race", seconds=190
    ),
    "jarvis2025-fig6": Listed(
        "P2", "P2 section 6 and Fig 6", "Two hidden layers: gates, spread and the shared first layer", seconds=330
    ),
    "saxe2022-linear": Listed(
        "P2", "P2 Fig 7", "Canary, salmon, rose and oak: a linear network learns its modes in order"
    ),
    "jarvis2025-fig8": Listed(
        "P2",
        "P2 Figs 8 and 9, Algorithm 1",
        "Modules by clustering gates, their number, and mixed selectivity",
        seconds=27,
    ),
    "modules-predicted": Listed(
        "P2", "beyond P2 section 4", "Modules of ReLU networks, predicted before training", "beyond.modules", seconds=50
    ),
    "views-law": Listed("P3", "P3, P1 eq. 10", "The race of views: its law derived, solved and held against training"),
    "views-winner": Listed("P3", "P3", "Who wins the race of views, and how well the initial advantage tells"),
    "views-gated": Listed("P3", "P3", "The race of views: every prediction measured on gated networks"),
}


def heading(paper: str) -> str:
    """The sign of a paper with its short name."""
    return f"{paper}: {PAPERS[paper].short}"


def by_paper(chosen: Sequence[str]) -> dict[str, list[str]]:
    """Group names of figures by their paper, in its order; papers without any are left out."""
    found = {paper: [name for name in FIGURES if FIGURES[name].paper == paper and name in chosen] for paper in PAPERS}
    return {paper: own for paper, own in found.items() if own}
