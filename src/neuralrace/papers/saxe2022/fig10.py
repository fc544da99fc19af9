"""P1 Fig 10: trained and untrained pairs over the scale of the first weights, on real images."""

from neuralrace.papers.saxe2022._routed import OverGains
from neuralrace.papers.saxe2022._routed_figure import PANELS, RoutedFigure, declare

EXPERIMENT = declare(
    RoutedFigure(gains=PANELS, sources=("", "P1 section 5.1, Figs 7d and 10"), letters=("", "10")),
    name="saxe2022-fig10",
    full=OverGains(),
    differs="On the paper's data K is its own, 10; on digits it is 40 % of M, where zero-shot transfer sets in.",
    finding="On real images untrained pairs of domains work from small first weights only, trained ones from all.",
)
