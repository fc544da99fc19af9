"""P1 Fig 7: real images; trained and untrained pairs over the part that is trained, and over first weights."""

from neuralrace.papers.saxe2022._routed import OverBoth
from neuralrace.papers.saxe2022._routed_figure import PANELS, RoutedFigure, declare

LARGE = {"digits": ("permuted",), "mnist": ("permuted-100",), "fashion": ("permuted-100",)}
SMALL = {"digits": ("permuted",), "mnist": ("permuted-40",), "fashion": ("permuted-40",)}

EXPERIMENT = declare(
    RoutedFigure(
        pairs={**PANELS, **LARGE},
        gains={**PANELS, **SMALL},
        sources=("P1 section 5.1, Fig 7b and 7c", "P1 section 5.1, Fig 7d"),
        letters=("b, c", "d"),
    ),
    name="saxe2022-fig7",
    full=OverBoth(),
    differs="The text does not say of which data panel d is: Fig 10's MNIST with 1,600 pairs.",
    finding="On real images pairs of domains that were never trained become as good as trained ones once about "
    "40 % of pairs are trained, and from small first weights only.",
)
