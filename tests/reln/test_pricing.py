"""Which number of modules is chosen, by the criterion alone."""

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.analysis import Agreement, Line
from neuralrace.explanation.verdicts import of_modules
from neuralrace.reln import pricing
from neuralrace.reln.pricing import Priced, deep_prices, distance_learned, fewer, fewest


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
    assert of_modules([near], near).startswith("3 modules do not explain")  # no other number was asked for
    if near.agreement.normalized_l1 == 0.10022:
        assert "0.1002," in told  # .100 would hide why it is not enough


def test_with_several_layers_every_number_of_modules_has_its_own(monkeypatch):
    """The modules that are shown are those of the row that is chosen, not of the elbow, which would be two here."""
    network, law = nr.ReLUNetwork(nr.tasks.contextual(contexts=2, items=2).task, (12, 12)), nr.initial.gaussian(0.3)
    run = nr.train(network, law, 0.1, 20, record=("gate_patterns", "weights"), every=10, progress=False)
    errors, to_try = [0.5, 0.12, 0.11, 0.09], pricing.modules_to_try

    def solved(described, curve, *_):
        mean = curve.loss.mean(axis=0)  # a curve that is off by so much of what was learned
        lines = [Line(curve.time, mean + error * (mean - mean.min())) for error in errors]
        return [(line, Agreement(error, 0.0, 0.0)) for line, error in zip(lines, errors, strict=True)]

    monkeypatch.setattr(pricing, "solve_each", solved)
    monkeypatch.setattr(pricing, "modules_to_try", lambda *a, **o: to_try(*a, most=4, **o))
    chosen = fewest(deep_prices(run, law, None, 0))
    assert (chosen.modules, chosen.meets) == (4, True)
    assert max(len(gating) for gating in chosen.gatings) == 4
    for gating in chosen.gatings:  # no module is left without a neuron
        assert set(range(len(gating))) == set(gating.members.ravel()) - {-1}
    assert chosen.agreement.normalized_l1 == pytest.approx(errors[3])
    assert of_modules([chosen], chosen, 2).startswith("4 modules in each layer explain these networks: solved from")


def test_a_curve_that_never_falls_is_far_from_one_that_falls_a_little():
    """Most of the loss is noise that no network removes; it must not count as agreement."""
    time = np.linspace(0, 10, 1001)
    run = Line(time, 0.8 + 0.2 * np.exp(-time))
    flat = distance_learned(Line(time, np.ones_like(time)), run)
    assert flat.normalized_l1 > 5  # .184 of the whole area
    assert flat.max_gap == pytest.approx(1, abs=1e-3)
    assert distance_learned(run, run).normalized_l1 == 0
