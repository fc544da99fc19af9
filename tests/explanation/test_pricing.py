"""Which number of modules is chosen, by the criterion alone."""

import numpy as np
import pytest

from neuralrace.analysis import Agreement
from neuralrace.explanation.pricing import Priced, fewer, fewest
from neuralrace.explanation.verdicts import of_modules


def row(modules, stretches, distance, log=0.0):
    return Priced(modules, stretches, Agreement(distance, log, 0.0), (), np.zeros((1, 1)))


def test_the_fewest_modules_with_as_few_stretches_as_any():
    rows = [row(1, 1, 0.9), row(2, 1, 0.2), row(2, 2, 0.05), row(5, 1, 0.09), row(6, 1, 0.01)]
    chosen = fewest(rows)
    assert (chosen.modules, chosen.stretches) == (5, 1)
    other = fewer(rows, chosen)
    assert (other.modules, other.stretches) == (2, 2)
    told = of_modules(rows, chosen)
    assert told.startswith("5 modules explain these networks")
    assert "2 modules would be enough with gates that change between 2 stretches" in told


@pytest.mark.parametrize("near", [row(3, 1, 0.10022), row(3, 1, 0.01, 0.31), row(3, 1, float("nan"))])
def test_the_verdict_follows_the_criterion(near):
    rows = [row(2, 1, 0.5), near]
    told = of_modules(rows, fewest(rows))
    assert told.startswith("No 3 modules or fewer explain")
    assert not fewest(rows).meets
    if near.agreement.normalised_l1 == 0.10022:
        assert "0.1002," in told  # .100 would hide why it is not enough
