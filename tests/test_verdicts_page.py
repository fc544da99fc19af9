"""The page of verdicts says what its record says, and the record has every experiment."""

import json
import re
from pathlib import Path

import pytest
import verdicts

import neuralrace as nr
from neuralrace.errors import FileFormatError
from neuralrace.papers.experiment import as_json

ROOT = Path(__file__).parent.parent

RECORD = json.loads((ROOT / "docs/records/verdicts.json").read_text(encoding="utf-8"))
CLAIMS = [claim for record in RECORD for claim in record["claims"]]
LARGER = [claim for record in verdicts.read(verdicts.LARGER) for claim in record["claims"]]


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
    shown = [*CLAIMS, *LARGER]
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
    counts = verdicts.render_counts(RECORD).splitlines()
    fails = {"paper": "refuted", "finding": "do not hold", "check": "do not hold"}
    held = {kind: [claim["holds"] for claim in CLAIMS if claim["kind"] == kind] for kind in fails}
    total = {kind: (sum(found), len(found) - sum(found)) for kind, found in held.items()}
    shown = [f"{held} hold" + (f", {failed} {fails[kind]}" if failed else "") for kind, (held, failed) in total.items()]
    assert counts[-1] == f"| **all** | {' | '.join(shown)} |"
    by_paper = [[int(n) for n in re.findall(r"(\d+) (?:hold|refuted|do)", line)] for line in counts[2:-1]]
    assert sum(sum(row) for row in by_paper) == len(CLAIMS)


def test_a_record_is_made_of_judged_results_only(tmp_path: Path) -> None:
    name = "saxe2022-fig3"
    with pytest.raises(FileFormatError, match=r"claims.json is missing: run `neuralrace reproduce"):
        verdicts.collect(tmp_path, [name])
    told = {"size": "tiny", "judged": False, "settings": {}, "differs": "", "claims": []}
    (tmp_path / name).mkdir()
    (tmp_path / name / "claims.json").write_text(json.dumps(told))
    with pytest.raises(FileFormatError, match="at which nothing is judged"):
        verdicts.collect(tmp_path, [name])
