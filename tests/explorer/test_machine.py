"""What is read off a network: lanes and equations, against numbers that share no code with them."""

import itertools

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.explorer.machine import race, read_machine
from neuralrace.explorer.mathml import equations_data
from neuralrace.explorer.rounding import numbers
from neuralrace.explorer.scene import Scene
from neuralrace.explorer.stage import make_stage
from neuralrace.explorer.tables import Tables
from neuralrace.tasks.named.routing import TARGETS


def test_lanes_finish_at_half_of_their_last_strength() -> None:
    time = np.linspace(0, 10, 101)
    found = race(time, {"early": np.minimum(time, 2.0), "late": np.clip(time - 5, 0, 3), "still": np.ones(101)})
    assert [lane["finish"] for lane in found["lanes"]] == [pytest.approx(1), pytest.approx(6.5), None]
    assert found["winner"] == "late"
    assert found["share"] == pytest.approx(3 / 6)


def test_a_lane_is_the_nuclear_norm_of_its_pathway() -> None:
    stage = make_stage(Scene.read({"task": "xor", "gating": "xor", "width": 4}), Tables())
    weights = nr.initial.gaussian(1.0)(stage.problem, 3)
    found = read_machine(stage, stage.problem, np.array([0.0, 1.0]), [weights, {e: 2 * w for e, w in weights.items()}])
    for lane in found["lanes"]["lanes"]:
        whole = weights[lane["label"], "y"] @ weights["x", lane["label"]]  # one output: its only singular value
        assert lane["strength"][0] == pytest.approx(np.linalg.norm(whole), rel=1e-5)
        assert lane["strength"][1] == pytest.approx(4 * np.linalg.norm(whole), rel=1e-5)
    x = stage.problem.task.inputs["x"]
    gates = np.eye(4)
    hidden = np.hstack([gates[:, [k]] * (x @ weights["x", f"h{k}"].T) for k in range(4)])
    wanted = 4 * hidden @ hidden.T  # at the second moment, which has the largest
    assert found["similarity"]["largest"] == pytest.approx(np.abs(wanted).max(), rel=1e-5)
    assert np.array(found["similarity"]["percent"][1]).reshape(4, 4) == pytest.approx(
        100 * wanted / np.abs(wanted).max(), abs=0.5
    )


def test_untrained_routes_are_those_that_no_example_takes() -> None:
    given = {"task": "routing", "settings": {"domains": 3, "trained": 2}, "gating": "shared", "depth": 3, "width": 4}
    stage = make_stage(Scene.read(given), Tables())
    weights = nr.initial.gaussian(1.0)(stage.problem, 3)
    found = read_machine(stage, stage.problem, np.array([0.0]), [weights])["untrained"]
    images, wanted = np.eye(4), np.array(TARGETS)
    taken = set(zip(*(stage.task.groups[f"{side} domain"].tolist() for side in ("input", "output")), strict=True))
    losses = []
    for i, j in set(itertools.product(range(3), repeat=2)) - taken:
        answer = images @ (weights["h2", f"y{j}"] @ weights["h1", "h2"] @ weights[f"x{i}", "h1"]).T
        losses.append(0.5 * np.sum((answer - wanted) ** 2, axis=1).mean())
    assert len(losses) == 3
    assert found == [pytest.approx(np.mean(losses), rel=1e-5)]
    flipped = make_stage(Scene.read(given | {"flips": [[0, 0]]}), Tables())
    assert read_machine(flipped, flipped.problem, np.array([0.0]), [weights])["untrained"] is None


def test_equations_are_set_with_their_numbers() -> None:
    problem = nr.tasks.xor().problem("xor", hidden=2)
    forecast = nr.predict(problem, nr.initial.gaussian(1e-3), [0.0, 1.0], draws=1)
    found = equations_data(forecast.reduction, linear=True)
    first = str(found["equations"][0])
    assert first.startswith('<math display="block"><mfrac><mrow><mi>d</mi>')
    # s = <y x> along the mode = sqrt(2)/4, d = <x^2> = 1/2 (P1 A.1)
    assert "<mn>0.3536</mn>" in first
    assert "<mn>0.5</mn>" in first
    assert "<mtext>" not in first
    assert "∂" in str(equations_data(None, linear=False)["equations"])  # the flow itself


def test_numbers_are_short_and_what_is_none_is_null() -> None:
    assert numbers([1 / 3, np.nan, np.inf, 0, 1e-20]) == [0.333333, None, None, 0.0, 1e-20]
    assert numbers(np.float64(2.0)) == 2.0
