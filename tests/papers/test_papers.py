"""Every experiment computes, claims and draws; the store reuses only what still fits."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

import neuralrace as nr
from neuralrace.errors import RangeError, UnknownNameError
from neuralrace.papers import experiment as experiments
from neuralrace.papers.claims import Claims
from neuralrace.papers.experiment import Experiment, override
from neuralrace.papers.registry import figures
from neuralrace.plotting import new_panels

# those that take a few seconds at full size, at which verdicts are judged; `make verdicts` runs all
QUICK = ("jarvis2025-fig2", "saxe2022-contextual", "saxe2022-fig3", "saxe2022-linear", "views-law")


@pytest.mark.parametrize("name", nr.papers.names())
def test_a_figure_claims_and_shows_what_it_should(name: str) -> None:
    experiment = nr.papers.get(name)
    assert type(experiment.full) is type(experiment.tiny)
    assert dataclasses.is_dataclass(experiment.full)
    assert experiment.finding.endswith(".")
    assert 40 < len(experiment.finding) < 260
    result = nr.papers.run(name, size="full" if name in QUICK else "tiny")
    assert [claim for claim in result.claims if result.judged and not claim.as_recorded] == []
    axes = result.figure().axes
    named = {letter for axis in axes for letter in str(axis.get_label()).split(", ")}
    assert result.claims
    for claim in result.claims:
        assert claim.text.endswith(".")
        assert all((claim.source, claim.asked, claim.shown))
        # each names panels that are there; what is algebra may be a number alone
        assert not claim.panel or set(claim.panel.split(", ")) <= named, claim.text
        assert claim.panel or claim.kind == "check" or len(axes) == 1, claim.text
    for axis in axes:
        assert axis.get_xlabel()
        assert axis.get_title()
        low, high = sorted(axis.get_ylim())
        for line in (line for line in axis.lines if line.get_transform() == axis.transData):
            values = np.asarray(line.get_ydata(), dtype=float)
            values = values[np.isfinite(values)]
            # error bars and bands may be cut by no more than rounding
            assert len(values) == 0 or (values.min() >= low - 1e-9 and values.max() <= high + 1e-9)


def counting(calls: list[int]) -> Experiment:
    @dataclasses.dataclass(frozen=True)
    class Settings:
        seeds: int = 2
        rate: float = 0.5
        shape: tuple[int, ...] = (1, 2)
        quick: bool = False

    def compute(settings: Settings) -> xarray.Dataset:
        calls.append(settings.seeds)
        return xarray.Dataset({"value": ("seed", [settings.rate] * settings.seeds)})

    def claims(data: xarray.Dataset) -> Claims:
        claim = Claims()
        claim.paper("here", "It is half.")
        claim.within("its value", data["value"][0], (0.5, 0.5))
        return claim

    def draw(data: xarray.Dataset) -> Figure:
        return new_panels(1)[0]

    code = {"compute": compute, "claims": claims, "draw": draw}
    return Experiment(**vars(figures()["saxe2022-fig3"]), full=Settings(), tiny=Settings(seeds=1), **code)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    made: list[int] = []
    experiment = counting(made)
    monkeypatch.setattr(nr.papers, "get", lambda name: experiment)
    return made


def test_finished_work_is_reused_until_settings_code_or_file_change(
    calls: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nr.papers.run("saxe2022-fig3", out=tmp_path, reuse=True)
    again = nr.papers.run("saxe2022-fig3", out=tmp_path, reuse=True)
    assert calls == [2]
    assert again.claims[0].holds
    nr.papers.run("saxe2022-fig3", out=tmp_path, reuse=True, changes={"seeds": "3"})
    assert calls == [2, 3]
    monkeypatch.setattr(experiments, "code_version", lambda: "another")
    nr.papers.run("saxe2022-fig3", out=tmp_path, reuse=True, changes={"seeds": "3"})
    path = tmp_path / "saxe2022-fig3" / "data.nc"
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1  # netCDF still reads it
    path.write_bytes(damaged)
    nr.papers.run("saxe2022-fig3", out=tmp_path, reuse=True, changes={"seeds": "3"})
    assert calls == [2, 3, 3, 3]


def test_a_verdict_other_than_recorded_shows_where_it_is_judged(calls: list[int]) -> None:
    result = nr.papers.run("saxe2022-fig3")
    assert result.as_recorded
    assert json.loads(json.dumps(result.summary()))["claims"][0]["holds"] is True
    other = nr.papers.run("saxe2022-fig3", changes={"rate": 0.25})
    assert not other.as_recorded
    assert "1 of 1 verdicts are others here" in other.figure().get_suptitle()
    assert not result.figure().get_suptitle()
    assert nr.papers.run("saxe2022-fig3", "tiny", changes={"rate": 0.25}).as_recorded  # computed and not judged


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"sedes": 1}, UnknownNameError, "'sedes'"),
        ({"seeds": 1.5}, RangeError, "'seeds' must be a whole number"),
        ({"rate": "fast"}, RangeError, "'rate' must be a number"),
        ({"quick": "maybe"}, RangeError, "'quick' must be true or false"),
    ],
)
def test_settings_read_text_and_refuse_what_they_cannot_be(
    changes: dict[str, object], error: type[Exception], words: str
) -> None:
    settings = counting([]).full
    changed = override(settings, {"shape": "3,4,5", "quick": "true", "rate": "1e-3"})
    assert (changed.shape, changed.quick, changed.rate) == ((3, 4, 5), True, 1e-3)
    with pytest.raises(error, match=words):
        override(settings, changes)


def test_unknown_names() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'saxe2022-fig3'"):
        nr.papers.get("saxe2022-fig33")
    with pytest.raises(UnknownNameError, match="size must be one of full, tiny"):
        nr.papers.run("saxe2022-fig3", size="huge")
