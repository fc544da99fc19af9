"""Experiments come in the order of their papers, and each says what was found."""

import pytest

import neuralrace as nr
from neuralrace.papers.papers import BEYOND, ORDER, PAPERS, by_paper, heading, paper_of


def test_experiments_of_each_paper_in_its_order() -> None:
    assert set(ORDER) <= set(nr.papers.names())
    things = [("saxe2022-fig10", "P1"), ("saxe2022-fig9", "P1"), ("views-law", "P3, P1"), ("mine", "here")]
    things += [("saxe2022-fig3", "P1 Fig 3")]
    found = by_paper(things, lambda thing: thing)
    assert [name for name, _ in found["P1"]] == ["saxe2022-fig3", "saxe2022-fig9", "saxe2022-fig10"]
    assert list(found) == ["P1", "P3", BEYOND]


def test_papers_have_short_names() -> None:
    assert heading("P1") == "P1: The Neural Race Reduction (Saxe, Sodhani, Lewallen 2022)"
    assert heading(BEYOND) == "Beyond the papers"
    assert {paper_of(entry.source) for entry in nr.papers.listed().values()} <= {*PAPERS, BEYOND}


@pytest.mark.parametrize("name", nr.papers.names())
def test_every_experiment_says_what_was_found(name: str) -> None:
    finding = nr.papers.get(name).finding
    assert finding.endswith(".")
    assert 40 < len(finding) < 260
