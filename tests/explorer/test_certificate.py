"""Chips: what fails says what would change it, for every assumption that the theory can name."""

import re
from pathlib import Path

import neuralrace as nr
from neuralrace.explorer.certificate import ADVICE, certificate_data
from neuralrace.theory import Assumption
from neuralrace.theory.certificate import CHECKED, Certificate, Declined

THEORY = Path(nr.theory.__file__).parent


def test_every_assumption_of_the_theory_has_advice() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in THEORY.rglob("*.py"))
    named = set(re.findall(r'Assumption\(\s*"([^"]+)"', text))
    assert len(named) > 15
    assert named | {CHECKED} <= set(ADVICE), f"say in explorer/certificate.py what would change {named - set(ADVICE)}"


def test_the_ladder_says_what_became_of_each_rung() -> None:
    fails, holds = Assumption("balance", 0.5, 1e-6, "edge e"), Assumption("open paths", 0.0, 0.0, "2")
    found = certificate_data(Certificate("reduction", (holds,), (Declined("closed_form", fails),)), linear=True)
    states = {rung["name"]: rung["state"] for rung in found["ladder"]}
    assert states == {"closed_form": "declined", "reduction": "taken", "aligned": "not needed", "flow": "not needed"}
    assert found["ladder"][0]["failed"]["advice"] == ADVICE["balance"]
    assert found["chips"] == [
        {
            "name": "open paths",
            "holds": True,
            "needed": True,
            "residual": 0.0,
            "tolerance": 0.0,
            "detail": "2",
            "advice": "",
        }
    ]
