"""Each claim of P3 measured on a campaign: what was expected, what came, whether it holds."""

import xarray

from neuralrace.views import race_findings, training_findings
from neuralrace.views.finding import Finding

MEASURES = (
    race_findings.early_growth,
    race_findings.growth_at_depth,
    race_findings.prediction,
    race_findings.losers,
    race_findings.covered,
    race_findings.winners,
    race_findings.ratio,
    race_findings.deeper,
    training_findings.unsaturated,
    training_findings.entropy_race,
    training_findings.momentum,
    training_findings.distillation,
    training_findings.distillation_apart,
    training_findings.competition,
)


def findings(data: xarray.Dataset) -> list[Finding]:
    """All claims of P3 on one campaign, in the order of P3."""
    return [measure(data) for measure in MEASURES]
