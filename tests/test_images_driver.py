"""The driver of the figures at the paper's sizes: panels are trained once, shared, and a complete figure is judged."""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray

from neuralrace.papers import get
from neuralrace.papers.saxe2022 import _routed
from neuralrace.papers.settings import override

ROOT = Path(__file__).parent.parent
SPEC = importlib.util.spec_from_file_location("images_driver", ROOT / "docs/images.py")
assert SPEC is not None
assert SPEC.loader is not None
driver = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(driver)


@pytest.fixture
def trained(monkeypatch, tmp_path):
    """Calls of the driver from a command line, and the scans that it trained; training is a made-up result."""
    scans = []

    def measure(scan):
        scans.append(scan)
        shape = (len(scan.conditions), 2, scan.seeds, 2)
        return xarray.Dataset(
            {
                "error": (("condition", "kind", "seed", "moment"), np.full(shape, 0.1)),
                "loss": (("condition", "seed", "moment"), np.ones((shape[0], *shape[2:]))),
                "trained": ("condition", [trained for trained, _ in scan.conditions]),
                "gain": ("condition", [gain for _, gain in scan.conditions]),
                "domains": ((), scan.domains),
            },
            {"kind": list(_routed.KINDS)},
        )

    monkeypatch.setattr(_routed, "measure", measure)

    def call(*words):
        scans.clear()
        monkeypatch.setattr(sys, "argv", ["images", "--data", "digits", "--out", str(tmp_path), *words])
        driver.main()
        return [(scan.inputs, len(scan.conditions)) for scan in scans]

    return call, tmp_path


def test_panels_are_trained_once_and_shared(trained):
    call, out = trained
    assert call("--dry") == []
    assert call("--only", "saxe2022-fig8", "--panels", "rotated-10") == [("rotated", 6)]
    assert not (out / "results").exists()  # a panel is missing
    assert call("--only", "saxe2022-fig8") == [("permuted", 6)]
    assert call("--only", "saxe2022-fig7") == [("permuted", 5)]  # the gains; its pairs are those of Fig 8
    assert call("--only", "saxe2022-fig8", "saxe2022-fig7") == []
    told = json.loads((out / "results/saxe2022-fig7/claims.json").read_text())
    assert told["settings"]["data"] == "digits"
    assert len(told["claims"]) == 5
    assert (out / "results/saxe2022-fig8/figure.png").is_file()


def test_the_verdicts_on_record_are_those_of_the_datasets_on_record():
    """Every panel of the paper's sizes is there under the name that its present settings give it."""
    folder, judged = ROOT / "docs/records/images", 0
    for record in json.loads((ROOT / "docs/records/larger.json").read_text(encoding="utf-8")):
        experiment = get(record["name"])
        if record["name"] not in driver.FIGURES:
            continue
        settings, figure = override(experiment.full, record["settings"]), getattr(experiment.compute, "__self__", None)
        if isinstance(figure, driver.RoutedFigure):
            data = driver.panels(folder, figure, settings, "", dry=True)
        else:
            data = driver.whole(folder, experiment, settings, dry=True)
        claims = experiment.claims(data)
        assert [(claim.text, claim.holds) for claim in claims] == [
            (told["text"], told["holds"]) for told in record["claims"]
        ]
        judged += 1
    assert judged >= 6
