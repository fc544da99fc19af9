"""P1 Fig 9: the same as Fig 8 with leaky ReLU hidden layers."""

from neuralrace.papers.saxe2022._routed import OverPairs
from neuralrace.papers.saxe2022._routed_figure import PANELS, RoutedFigure, declare

DIGITS = "on digits 40 % are needed, as with linear layers; at 30 % untrained pairs miss a third of all images more"

EXPERIMENT = declare(
    RoutedFigure(
        pairs={**PANELS, "mnist": ("permuted-40", "rotated-40")},
        sources=("P1 Fig 9", ""),
        letters=("9", ""),
        about=(0.15, 0.35),
        said="25 %",
        on_record={"transfer": {"digits": DIGITS}},
    ),
    name="saxe2022-fig9",
    full=OverPairs(slope=0.01),
    finding="With leaky ReLU untrained pairs work as well, once enough pairs are trained: on digits 40 %, as "
    "with linear layers, and not the 25 % of the paper.",
)
