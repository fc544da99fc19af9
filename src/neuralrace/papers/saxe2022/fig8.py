"""P1 Fig 8: trained and untrained pairs of domains, over the part of pairs that is trained, on real images."""

from neuralrace.papers.saxe2022._routed import OverPairs
from neuralrace.papers.saxe2022._routed_figure import PANELS, RoutedFigure, declare

EXPERIMENT = declare(
    RoutedFigure(pairs=PANELS, sources=("P1 section 5.1, Figs 7b, 7c and 8", ""), letters=("8", "")),
    name="saxe2022-fig8",
    full=OverPairs(),
    finding="On real images untrained pairs of domains are near chance when few pairs are trained, and work "
    "once about 40 % are.",
)
