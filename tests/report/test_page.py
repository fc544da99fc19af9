"""The report stands alone, escapes what it is given, and says what came of every claim, kind by kind."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest

import neuralrace as nr
from neuralrace._page import panels
from neuralrace.papers.claims import Claim, Quantity
from neuralrace.papers.experiment import Result
from neuralrace.papers.registry import papers
from neuralrace.plotting import heat_map, new_panels
from neuralrace.report import counts, render_report, tally


@pytest.fixture(scope="module")
def tiny() -> Result:
    return nr.papers.run("saxe2022-fig3", size="tiny")


def simple():
    """A figure with two panels, the second with a color bar."""
    figure, axes = new_panels(2)
    axes[0].plot([0, 1], [0, 1])
    axes[0].set_label("c")
    axes[0].set_title("one")
    heat_map(axes[1], np.array([[0.0, 1.0]]), "two", horizontal="x", vertical="y", value="share")
    return figure


def other(tiny: Result, **changes: Any) -> Result:
    """The result of an experiment that is other in some things, and in its figure."""
    experiment = dataclasses.replace(tiny.experiment, draw=lambda data: simple(), **changes)
    return dataclasses.replace(tiny, experiment=experiment)


def judged(tiny: Result, *claims: Claim) -> Result:
    return dataclasses.replace(other(tiny, claims=lambda data: list(claims)), size="full")


def claim(holds: bool, fails: str = "", kind: str = "paper", place: int = 1, panel: str = "c") -> Claim:
    quantity = Quantity("x", (0.0 if holds else 2.0,), high=1.0)
    return Claim(str(place), kind, "a paper, Fig 3c", "It is <so> & so.", panel, (quantity,), "", fails)


def test_the_page_needs_no_other_file(tiny: Result) -> None:
    page = render_report([tiny])
    assert page.count("data:image/svg+xml,") == len(panels(tiny.figure()))
    assert not re.findall(r'(?:src|href)="(?!data:|#|http://127\.0\.0\.1:8642/#preset=)', page)
    assert "@import" not in page
    for words in (papers()["P1"]["name"], tiny.experiment.finding, "neuralrace run saxe2022-fig3 --size tiny"):
        assert words in page
    assert page.count(">Not judged.<") == len(tiny.claims)
    assert "computed and not judged" in page


def test_every_link_within_the_page_leads_somewhere(tiny: Result) -> None:
    page = render_report([judged(tiny, claim(True), claim(False, "because"))])
    ids = re.findall(r' id="([^"]*)"', page)
    assert len(set(ids)) == len(ids)
    links = re.findall(r'href="#([^"]*)"', page)
    assert {"saxe2022-fig3-1", "saxe2022-fig3-panel-1"} <= set(links)  # to claims, and from claims to panels
    assert set(links) <= set(ids)


def test_verdicts_and_tally(tiny: Result) -> None:
    claims = [claim(True), claim(False, "because"), claim(False), claim(True, "because")]
    page = render_report([judged(tiny, *claims)])
    assert "1 experiment, 4 claims. 2 came out other than recorded." in page
    assert "<strong>2 hold, 2 refuted</strong> sentences of the paper" in page
    assert page.count(">Holds.<") == 1
    assert page.count(">Refuted.<") == 1
    assert page.count(">Refuted, other than recorded.<") == 1
    assert page.count(">Holds, other than recorded.<") == 1
    assert page.count("<dt>why</dt><dd>because</dd>") == 2


def test_every_claim_has_its_mark_and_refuted_ones_are_not_folded(tiny: Result) -> None:
    failed = "so it is"
    claims = [claim(True, kind="check"), claim(False, failed, "finding"), claim(False, "so"), claim(True)]
    page = render_report([judged(tiny, *claims)])
    matrix = page[page.index('<table class="matrix">') : page.index("</table>")]
    marks = re.findall(r'<a class="mark (\w+)" data-paper="P1" data-kind="(\w+)" data-verdict="(\w+)"', matrix)
    assert marks == [
        ("refuted", "paper", "refuted"),
        ("holds", "paper", "holds"),
        ("known", "finding", "known"),
        ("holds", "check", "holds"),
    ]
    assert page.index(">Refuted.<") < page.index('<details class="claims"') < page.index(">Does not hold.<")
    places = [page.index(f"<summary>{heading}") for heading in ("Sentences of the paper", "Findings", "Checks of")]
    assert places == sorted(places)


def test_counts_keep_kinds_apart() -> None:
    claims = [claim(True, kind="finding"), claim(False, "so"), claim(True), claim(False, kind="check")]
    assert [list(found.values()) for found in counts(claims).values()] == [[1, 1, 0], [1, 0, 0], [0, 1, 1]]
    assert tally(claims) == (
        "paper: 1 holds, 1 refuted; finding: 1 holds; check: 1 does not hold. 1 came out other than recorded."
    )


def test_text_is_escaped(tiny: Result) -> None:
    page = render_report([judged(tiny, claim(True)), other(tiny, name="jarvis2025-fig2", differs="Fewer <seeds>.")])
    assert "It is &lt;so&gt; &amp; so." in page
    assert "Fewer &lt;seeds&gt;." in page
    assert "<so>" not in page
    assert "What differs from the paper" not in render_report([other(tiny, differs="")])


def test_panels_are_taken_apart_with_what_belongs_to_them() -> None:
    figure = simple()
    first, second = panels(figure)
    assert (first.letters, first.title, second.letters, second.title) == (("c",), "one", (), "two")
    for panel in (first, second):
        assert panel.svg.startswith(b"<svg")
        width = float(re.findall(rb'viewBox="0 0 ([\d.]+)', panel.svg)[0])
        assert abs(96 * width / 72 - panel.width) <= 1  # points, in which matplotlib counts, as pixels
        assert panel.width < 96 * 4.2 * 1.5  # one of two panels that are about 4.2 inches wide
    assert b"<image" in second.svg
    assert b"<image" not in first.svg
    assert all(axis.get_visible() for axis in figure.axes)
