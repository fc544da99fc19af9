"""The documentation runs: every python block, page by page; and what it names, prints and links to is on record."""

import json
import re
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter
from pathlib import Path

import hero
import hooks
import numpy as np
import pytest
import verdicts
import yaml
from escaped import escaped

import neuralrace as nr
from neuralrace.errors import FileFormatError
from neuralrace.papers.experiment import as_json
from neuralrace.papers.registry import papers

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
NUMBER = re.compile(r"(?<![\w.^])\d[\d,]*\.?\d*(?!\w)")
RECORD = verdicts.read()
LARGER = verdicts.read(verdicts.LARGER)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[str]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p)], ids=lambda p: str(p.relative_to(ROOT)))
def test_every_python_block_of_a_page_runs(
    page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "docs"}
    for number, block in enumerate(blocks(page)):
        code = compile(block, f"{page.name}, block {number + 1}", "exec")
        exec(code, namespace)  # an error, or a warning, fails
    if page.name == "README.md":  # what it says that a reader gets
        method, distance = re.findall(r"# (\w+) Agreement\(normalized_l1=([\d.]+)", page.read_text(encoding="utf-8"))[0]
        printed = re.findall(r"(\w+) Agreement\(normalized_l1=([\d.]+)", capsys.readouterr().out)[0]
        assert (printed[0], f"{float(printed[1]):.3f}") == (method, distance)
    homes = {str(getattr(value, "__module__", None) or getattr(value, "__name__", "")) for value in namespace.values()}
    assert any(home.startswith("neuralrace") for home in homes), f"{page.name} never uses the package"


def test_pages_in_the_navigation_are_the_pages_there_are() -> None:
    listed = set(re.findall(r":\s+([\w/]+\.md)", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in ROOT.glob("docs/**/*.md")}


def test_pages_that_name_a_text_say_where_it_is_told() -> None:
    for page in (*ROOT.glob("docs/*.md"), *ROOT.glob("docs/*/*.md")):
        text = page.read_text(encoding="utf-8")
        if page.name != "glossary.md" and re.search(rf"\b({'|'.join(papers())})\b", text):
            assert "glossary.md#texts)" in text, f"link the first text that {page.name} names to the glossary"


def test_commands_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^make (\w+)", readme, re.MULTILINE))
    assert targets == {"run", "test"}
    assert all(f"\n{target}:" in makefile for target in targets)
    for name in re.findall(r"neuralrace run ([\w-]+)", readme):
        assert name in nr.papers.names()


def test_public_names_are_in_the_reference() -> None:
    reference = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
    assert [name for name in nr.__all__ if not re.search(rf"neuralrace\.{name}\b", reference)] == []


def test_the_citation_can_be_read() -> None:
    """What the format, version 1.2, requires: https://citation-file-format.github.io."""
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert {"message", "title", "authors"} <= set(cited)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert (cited["cff-version"], cited["version"]) == ("1.2.0", project["version"])
    for work in (cited, *cited["references"]):
        assert work["type"] in {"software", "conference-paper"}
        for author in work["authors"]:
            assert set(author) in ({"name"}, {"family-names", "given-names"})
    titles = [paper["name"] for sign, paper in papers().items() if sign != "P3"]
    assert [work["title"] for work in cited["references"]] == titles


def test_the_gallery_has_every_experiment_with_its_record() -> None:
    page = hooks.cards()
    for name in nr.papers.names():
        assert page.count(f'<div id="{name}">') == 1
        assert f"neuralrace run {name} " in page
    for record in RECORD:
        held = sum(claim["holds"] for claim in record["claims"] if claim["kind"] == "paper")
        card = page[page.index(f'<div id="{record["name"]}">') :]
        told = re.findall(r'/#[\w-]+">([^<]*)<', card)[0]
        assert re.findall(r"paper: (\d+) hold", told) == ([str(held)] if held else [])


def test_averages_in_docstrings_are_not_read_as_tags() -> None:
    assert escaped("mean 0, <x x^T> = I/3, `a < b` and a < b") == "mean 0, &lt;x x^T> = I/3, `a < b` and a &lt; b"


def test_the_continuous_check_calls_the_readme_command() -> None:
    assert "make test" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_tests_that_the_errata_name_exist() -> None:
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", (ROOT / "docs/theory/errata.md").read_text(encoding="utf-8"))
    assert named
    for file, test in named:
        assert f"def {test}(" in (ROOT / "tests/theory/exact" / file).read_text(encoding="utf-8")


def test_verdicts_that_pages_link_to_exist() -> None:
    linked = {
        name for page in PAGES for name in re.findall(r"verdicts\.md#([\w-]+)\)", page.read_text(encoding="utf-8"))
    }
    assert linked
    assert linked <= set(nr.papers.names())


def numbers(text: str) -> list[str]:
    """The numbers of a text as they are written, without separators of thousands."""
    return [found.replace(",", "").rstrip(".") for found in NUMBER.findall(text) if found.strip(",.")]


def told_of(page: Path) -> list[tuple[str, set[str]]]:
    """What a page says in a paragraph or a row of a table, without code and formulas, and the experiments it names."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found = []
    for unit in (row for part in text.split("\n\n") for row in (part.split("\n") if part.startswith("|") else [part])):
        names = {*re.findall(r"verdicts\.md#([\w-]+)", unit), *re.findall(r"`([\w-]+)`", unit)}
        prose = re.sub(r"\[[^\]]*\]\([^)]*\)|\\\(.*?\\\)|`[^`]*`", "", unit, flags=re.DOTALL)
        found.append((prose, names & set(nr.papers.names())))
    return found


def test_pages_print_the_numbers_of_the_records_that_they_name() -> None:
    """Where an experiment is named, each decimal or large number, or a hundred times it, is in its record, rounded."""
    records = dict[str, str]()
    for record in (*RECORD, *LARGER):
        records[record["name"]] = records.get(record["name"], "") + json.dumps(record)
    records["pairs"] += hooks.pairs_of_mnist()  # a record of its own, as the page prints it
    compared = Counter[str]()
    for where, prose, names in [(page.name, *told) for page in PAGES for told in told_of(page)]:
        values = [float(number) for name in names for number in numbers(records[name])]
        for printed in numbers(prose) if names else ():
            half = 0.5 * 10.0 ** -len(printed.partition(".")[2]) + 1e-12
            if "." not in printed and float(printed) < 10:
                continue  # a count in words of the sentence, such as four clusters
            compared[where] += 1
            found = any(abs(scale * value - float(printed)) <= half for value in values for scale in (1, 100, 0.01))
            assert found, f"{where}: {printed} is not in the records of {', '.join(names)}: {prose[:80]}"
    assert compared["learned.md"] > 50
    assert compared["views.md"] > 20


def test_the_picture_of_the_race_is_that_of_its_record() -> None:
    record = hero.read()
    assert record["settings"] == hero.SETTINGS
    assert list(record["lanes"]) == list(hero.LANES)
    assert all(lane["normalized_l1"] < 0.1 for lane in record["lanes"].values())
    for animated, path in hero.PICTURES.items():
        drawn = hero.render(record, animated)
        ElementTree.fromstring(drawn)  # well formed
        assert path.read_text(encoding="utf-8") == drawn
    # the forecast of one lane is that of today at a few moments, to the four digits that are kept
    settings, (gating, *_), chosen = record["settings"], hero.LANES, [0, 5, 10, 20]
    problem = nr.tasks.routing(settings["domains"], settings["domains"]).problem(gating, hidden=settings["hidden"])
    times = [record["time"][place] for place in chosen]
    forecast = nr.predict(problem, nr.initial.orthogonal(settings["gain"]), times, key=1)
    kept = [record["lanes"][gating]["theory"][place] for place in chosen]
    np.testing.assert_allclose(1 - forecast.loss / forecast.loss[0], kept, atol=1e-4)


def test_every_experiment_is_on_record_with_its_present_settings() -> None:
    assert [record["name"] for record in RECORD] == list(nr.papers.names())
    for record in RECORD:
        experiment = nr.papers.get(record["name"])
        assert (record["title"], record["source"]) == (experiment.title, experiment.source)
        assert record["differs"] == experiment.differs
        assert record["settings"] == json.loads(as_json(experiment.full))
        assert all(claim["holds"] is (not claim["fails"]) for claim in record["claims"])


def test_the_page_shows_every_claim_once_with_its_verdict() -> None:
    page = verdicts.render(RECORD)
    words = re.findall(r"<strong>([^<]*)</strong></td>", page)
    shown = [claim for record in (*RECORD, *LARGER) for claim in record["claims"]]
    failed = [claim["kind"] for claim in shown if not claim["holds"]]
    words = [word.removesuffix(", near its threshold") for word in words]
    assert words.count("holds") == len(shown) - len(failed)
    assert words.count("refuted") == failed.count("paper")
    assert words.count("does not hold") == len(failed) - failed.count("paper")
    assert len(words) == len(shown)
    assert not re.search(r"\bnan\b", page)
    for record in RECORD:
        assert page.count(f"{{ #{record['name']} }}") == 1


def test_the_counts_of_the_page_are_those_of_the_record() -> None:
    claims = [claim for record in RECORD for claim in record["claims"]]
    *_, last = verdicts.render_counts(RECORD).splitlines()
    for kind in ("paper", "finding"):
        verdict = [claim["holds"] for claim in claims if claim["kind"] == kind]
        assert f"{verdict.count(True)} hold, {verdict.count(False)} {'refuted' if kind == 'paper' else 'do'}" in last


def test_a_record_is_made_of_judged_results_only(tmp_path: Path) -> None:
    name = "saxe2022-fig3"
    with pytest.raises(FileFormatError, match=r"claims.json is missing: run `neuralrace reproduce"):
        verdicts.collect(tmp_path, [name])
    told = {"size": "tiny", "judged": False, "settings": {}, "differs": "", "claims": []}
    (tmp_path / name).mkdir()
    (tmp_path / name / "claims.json").write_text(json.dumps(told))
    with pytest.raises(FileFormatError, match="at which nothing is judged"):
        verdicts.collect(tmp_path, [name])
