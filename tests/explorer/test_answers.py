"""What the page shows, against the package and numbers that share no code with it."""

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import neuralrace as nr
from neuralrace.explorer.answers import ADVICE, certificate_data, equations_data
from neuralrace.explorer.problem import make_setup
from neuralrace.explorer.scene import read_scene
from neuralrace.explorer.session import Session
from neuralrace.explorer.snapshots import race, take_snapshots
from neuralrace.tasks.named.routing import TARGETS
from neuralrace.theory import Assumption
from neuralrace.theory.certificate import CHECKED, Certificate, Declined


def test_every_assumption_of_the_theory_has_advice() -> None:
    files = Path(nr.theory.__file__).parent.rglob("*.py")
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    named = set(re.findall(r'Assumption\(\s*"([^"]+)"', text))
    assert len(named) > 15
    assert named | {CHECKED} <= set(ADVICE), f"add to explorer/advice.json {named - set(ADVICE)}"


def test_the_ladder_tells_the_state_of_each_method() -> None:
    fails, holds = Assumption("modes that grow apart", 0.5, 1e-6, "edge e"), Assumption("open paths", 0.0, 0.0, "2")
    found = certificate_data(Certificate("reduction", (holds,), (Declined("closed_form", fails),)), linear=True)
    states = {rung["name"]: rung["state"] for rung in found["ladder"]}
    assert states == {"closed_form": "declined", "reduction": "taken", "aligned": "not needed", "flow": "not needed"}
    assert found["ladder"][0]["failed"]["advice"] == ADVICE["modes that grow apart"]
    assert [(chip["name"], chip["holds"], chip["advice"]) for chip in found["chips"]] == [("open paths", True, "")]


def test_lanes_finish_at_half_of_their_final_strength() -> None:
    time = np.linspace(0, 10, 101)
    found = race(time, {"early": np.minimum(time, 2.0), "late": np.clip(time - 5, 0, 3), "still": np.ones(101)})
    assert [lane["finish"] for lane in found["lanes"]] == [pytest.approx(1), pytest.approx(6.5), None]
    assert found["winner"] == "late"
    assert found["share"] == pytest.approx(3 / 6)


def test_a_lane_is_the_nuclear_norm_of_its_pathway() -> None:
    setup = make_setup(Session(), read_scene({"task": "xor", "gating": "xor", "width": 4}))
    weights = nr.initial.gaussian(1.0)(setup.problem, 3)
    history = [weights, {edge: 2 * matrix for edge, matrix in weights.items()}]
    found = take_snapshots(setup, setup.problem, np.array([0.0, 1.0]), history)
    for lane in found["lanes"]["lanes"]:
        whole = weights[lane["label"], "y"] @ weights["x", lane["label"]]  # one output: its only singular value
        assert lane["strength"] == pytest.approx([np.linalg.norm(whole), 4 * np.linalg.norm(whole)], rel=1e-5)
    x, gates = setup.problem.task.inputs["x"], np.eye(4)
    hidden = np.hstack([gates[:, [k]] * (x @ weights["x", f"h{k}"].T) for k in range(4)])
    wanted = 4 * hidden @ hidden.T  # at the second time, which has the largest
    assert found["similarity"]["largest"] == pytest.approx(np.abs(wanted).max(), rel=1e-5)
    percent = np.array(found["similarity"]["percent"][1]).reshape(4, 4)
    assert percent == pytest.approx(100 * wanted / np.abs(wanted).max(), abs=0.5)


def test_untrained_routes_are_those_without_examples() -> None:
    given = {"task": "routing", "settings": {"domains": 3, "trained": 2}, "gating": "shared", "depth": 3, "width": 4}
    setup = make_setup(Session(), read_scene(given))
    weights = nr.initial.gaussian(1.0)(setup.problem, 3)
    found = take_snapshots(setup, setup.problem, np.array([0.0]), [weights])["untrained"]
    taken = set(zip(*(setup.task.groups[f"{side} domain"].tolist() for side in ("input", "output")), strict=True))
    losses = []
    for i, j in set(itertools.product(range(3), repeat=2)) - taken:
        answer = (weights["h2", f"y{j}"] @ weights["h1", "h2"] @ weights[f"x{i}", "h1"]).T
        losses.append(0.5 * np.sum((answer - np.array(TARGETS)) ** 2, axis=1).mean())
    assert len(losses) == 3
    assert found == [pytest.approx(np.mean(losses), rel=1e-5)]


def test_equations_are_set_with_their_numbers() -> None:
    problem = nr.tasks.xor().problem("xor", hidden=2)
    found = equations_data(nr.predict(problem, nr.initial.gaussian(1e-3), [0.0, 1.0], draws=1), linear=True)
    # s = <y x> along the mode = sqrt(2)/4, d = <x^2> = 1/2 (P1 A.1)
    assert re.search("<math .*<mn>0.35", found["equations"][0])
    assert "<mn>0.5</mn>" in found["equations"][0]
    flow = nr.predict(problem, nr.initial.gaussian(1e-3), [0.0, 1.0], "flow", draws=1)
    assert "&#x02202;" in equations_data(flow, linear=False)["equations"][0]  # as of networks with activations
