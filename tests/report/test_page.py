"""The report stands alone, escapes what it is given, and says what came of every claim."""

import dataclasses
import re

import pytest

import neuralrace as nr
from neuralrace.experiments.claim import Claim
from neuralrace.experiments.experiment import Result
from neuralrace.report import render_report


@pytest.fixture(scope="module")
def tiny() -> Result:
    return nr.experiments.run("saxe2022-fig3", size="tiny")


def judged(tiny: Result, *claims: Claim) -> Result:
    experiment = dataclasses.replace(tiny.experiment, claims=lambda data: list(claims))
    return Result(experiment, "full", tiny.settings, tiny.data)


def claim(holds: bool, on_record: str = "holds", kind: str = "paper") -> Claim:
    return Claim("It is <so> & so.", "a paper", kind, "1 < 2", "0.5", holds, on_record)


def test_the_page_needs_no_other_file(tiny: Result) -> None:
    page = render_report([tiny])
    assert "data:image/png;base64," in page
    assert not re.findall(r'(?:src|href)="(?!data:|#|http://127\.0\.0\.1:8642/#preset=)', page)
    assert "@import" not in page
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page
    assert 'name="viewport"' in page


def test_tiny_claims_are_not_judged(tiny: Result) -> None:
    page = render_report([tiny])
    assert page.count("Not judged.") == len(tiny.claims)
    assert "computed and not judged" in page


def test_verdicts_and_tally(tiny: Result) -> None:
    claims = [claim(True), claim(False, "refuted: because"), claim(False), claim(True, "refuted: because")]
    page = render_report([judged(tiny, *claims)])
    assert "1 experiment, 4 claims." in page
    assert "paper: 2 hold, 2 refuted. 2 came out other than recorded." in page
    assert page.count(">Holds.<") == 1
    assert page.count(">Refuted.<") == 1
    assert page.count(">Refuted, other than recorded.<") == 1
    assert page.count(">Holds, other than recorded.<") == 1
    assert page.count("<dt>on record</dt><dd>because</dd>") == 2


def test_kinds_are_listed_and_counted_apart(tiny: Result) -> None:
    failed = "does not hold: so it is"
    claims = [claim(True, kind="check"), claim(False, failed, "ours"), claim(False, failed, "ours"), claim(True)]
    page = render_report([judged(tiny, *claims)])
    assert "paper: 1 holds; ours: 2 do not hold; check: 1 holds. All came out as recorded." in page
    headings = ("Sentences of the paper", "What we asked", "Checks of code and algebra")
    places = [page.index(f"<h3>{heading}") for heading in headings]
    assert places == sorted(places)
    assert page.count('<span class="verdict known">Does not hold.<') == 2  # a finding, not shown as a fault
    assert "Refuted" not in page


def test_where_settings_are_not_the_papers_is_said(tiny: Result) -> None:
    told = dataclasses.replace(tiny.experiment, differs="Fewer <seeds>.")
    assert "Fewer &lt;seeds&gt;." in render_report([dataclasses.replace(tiny, experiment=told)])
    silent = dataclasses.replace(tiny.experiment, differs="")
    assert "not the paper's:" not in render_report([dataclasses.replace(tiny, experiment=silent)])


def test_text_is_escaped(tiny: Result) -> None:
    page = render_report([judged(tiny, claim(True))])
    assert "It is &lt;so&gt; &amp; so." in page
    assert "<so>" not in page
