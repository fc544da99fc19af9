"""The page of verdicts: a small record of all claims, made from a folder of results, and the page made from the record.

python -m docs.verdicts results     # after `neuralrace reproduce --out results`; `make records` does both
python -m docs.verdicts --larger FOLDER...   # runs with other settings than the default, such as a paper's own sizes
"""

import argparse
import io
import itertools
import json
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image

import neuralrace as nr
from neuralrace.errors import FileFormatError
from neuralrace.io import write_text, write_whole
from neuralrace.papers.claims import Claim, by_kind
from neuralrace.papers.experiment import as_json
from neuralrace.papers.registry import by_paper, heading
from neuralrace.report import WHOSE, counted, counts, verdict

RECORDS = Path(__file__).parent / "records"
FILE = RECORDS / "verdicts.json"
LARGER = RECORDS / "larger.json"  # runs at sizes that need a GPU or patience, beside the default ones
WIDTH, SCALE = 1000, 2 / 3  # pixels of a picture, at most; a figure is saved at 150 to the inch and shown at 100
KEPT = ("settings", "differs", "claims")

Record = Mapping[str, Any]


def collect(results: Path, names: Sequence[str]) -> list[dict[str, Any]]:
    """What the claims.json of every experiment says, or which one is missing or was not judged."""
    found = []
    for name in names:
        path = results / name / "claims.json"
        if not path.is_file():
            raise FileFormatError(f"{path} is missing: run `neuralrace reproduce --out {results}` first")
        told = json.loads(path.read_text(encoding="utf-8"))
        if not told["judged"]:
            raise FileFormatError(
                f"{path} is of size {told['size']!r}, at which nothing is judged: run it at full size"
            )
        listed = nr.papers.figures()[name]
        head = {"name": name, "title": listed.title, "source": listed.source}
        found.append(head | {key: told[key] for key in KEPT})
    return found


def write(results: Path, folder: Path = RECORDS) -> Path:
    """Write the record and a small picture of every figure."""
    records = collect(results, nr.papers.names())
    for record in records:
        picture = results / record["name"] / "figure.png"
        data = _shrunk(picture)
        write_whole(folder / f"{record['name']}.webp", lambda part, data=data: part.write_bytes(data))
    return write_text(folder / FILE.name, json.dumps(records, indent=1, ensure_ascii=False) + "\n")


def write_larger(folders: Sequence[Path], folder: Path = RECORDS) -> Path:
    """Add runs with other settings to their record; each folder is one `--out` of `neuralrace run NAME --set ...`.

    A run takes the place of one with the same settings. All others stay, with their pictures.
    """
    file = folder / LARGER.name
    records = {_run(record): dict(record) for record in (read(file) if file.is_file() else [])}
    for path in sorted(found for results in folders for found in results.glob("*/claims.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        name, usual = told["experiment"], json.loads(as_json(nr.papers.get(told["experiment"]).full))
        changed = {key: value for key, value in told["settings"].items() if usual.get(key) != value}
        changed.pop("folder", None)  # where the data were says nothing
        record = {"name": name, "settings": changed}
        taken = {other["picture"] for other in records.values()}
        free = next(
            one for one in (f"{name}-larger-{number}.webp" for number in itertools.count(1)) if one not in taken
        )
        record["picture"] = records.get(_run(record), {}).get("picture", free)
        data = _shrunk(path.parent / "figure.png")
        write_whole(folder / record["picture"], lambda part, data=data: part.write_bytes(data))
        records[_run(record)] = record | {"claims": [_on_its_own(claim) for claim in told["claims"]]}
    kept = sorted(records.values(), key=lambda record: (record["name"], len(record["settings"])))
    return write_text(file, json.dumps(kept, indent=1, ensure_ascii=False) + "\n")


def _run(record: Record) -> str:
    """What tells one run from another."""
    return f"{record['name']} {json.dumps(record['settings'], sort_keys=True)}"


def _on_its_own(claim: dict[str, Any]) -> dict[str, Any]:
    """What is on record of a claim is said of the usual settings; where these come out otherwise, it is left out."""
    as_recorded = claim["holds"] is (not claim["fails"])
    return claim if as_recorded else claim | {"fails": "" if claim["holds"] else "with these settings"}


def read(path: Path = FILE) -> list[Record]:
    """The record."""
    found: list[Record] = json.loads(path.read_text(encoding="utf-8"))
    return found


def claims_of(records: Sequence[Record]) -> list[Claim]:
    """All claims of some experiments."""
    return [Claim.from_values(claim) for record in records for claim in record["claims"]]


def of_papers(records: Sequence[Record]) -> dict[str, list[Record]]:
    """The experiments of each paper, in its own order."""
    found = {record["name"]: record for record in records}
    return {paper: [found[name] for name in chosen] for paper, chosen in by_paper(list(found)).items()}


def render_counts(records: Sequence[Record]) -> str:
    """A table of how many claims of each kind hold, paper by paper."""
    rows = [(f"[{paper}](#{paper.lower()})", counts(claims_of(chosen))) for paper, chosen in of_papers(records).items()]
    rows.append(("**all**", counts(claims_of(records))))
    nothing = {"hold": 0, "do_not": 0}
    lines = [f"| | {' | '.join(words.lower() for words in WHOSE.values())} |", "|---|---|---|---|"]
    for paper, numbers in rows:
        cells = (counted(kind, numbers.get(kind, nothing)) for kind in WHOSE)
        lines.append(f"| {paper} | {' | '.join(cells)} |")
    return "\n".join(lines)


def render(records: Sequence[Record]) -> str:
    """Every claim of every paper, as Markdown with tables of HTML."""
    parts = []
    for paper, chosen in of_papers(records).items():
        parts.append(f"## {heading(paper)} {{ #{paper.lower()} }}")
        parts.extend(_experiment(record) for record in chosen)
    return "\n\n".join(parts)


def _larger(record: Record) -> str:
    """A run of an experiment with other settings, folded, with its verdicts and its figure."""
    claims = claims_of([record])
    settings = ", ".join(f"{key} = {_plain(value)}" for key, value in record["settings"].items())
    told = "; ".join(f"{kind}: {counted(kind, entry)}" for kind, entry in counts(claims).items())
    tables = "".join(
        f"<p><strong>{WHOSE[kind]}</strong></p>{_table(chosen)}" for kind, chosen in by_kind(claims).items()
    )
    image = f'<img alt="the same figure" src="../records/{record["picture"]}">'
    picture = f"<p>{image}<br><em>Titles of panels speak of the usual settings.</em></p>"
    return f"<details><summary>With {escape(settings)}: {told}</summary>{picture}{tables}</details>"


def _experiment(record: Record) -> str:
    name, claims = record["name"], claims_of([record])
    numbers = counts(claims)
    told = "; ".join(f"{kind}: {counted(kind, entry)}" for kind, entry in numbers.items())
    picture = RECORDS / f"{name}.webp"
    settings = ", ".join(f"{key} = {_plain(value)}" for key, value in record["settings"].items())
    parts = [
        f"### {record['source']}: {record['title']} {{ #{name} }}",
        escape(nr.papers.get(name).finding),
        f"{told}. Data and figure: `neuralrace run {name} --out results`.",
        f"![{record['title']}](records/{name}.webp)" if picture.is_file() else "",
        f"**Where the settings are not the paper's.** {escape(record['differs'])}" if record["differs"] else "",
        f"<details><summary>Settings</summary><p><code>{escape(settings)}</code></p></details>",
        *(f"**{WHOSE[kind]}**\n\n{_table(chosen)}" for kind, chosen in by_kind(claims).items()),
        *(_larger(other) for other in read(LARGER) if other["name"] == name),
    ]
    return "\n\n".join(part for part in parts if part)


def _table(claims: Sequence[Claim]) -> str:
    return f"<table><tbody>{''.join(map(_row, claims))}</tbody></table>"


def _row(claim: Claim) -> str:
    lines = [f"{escape(claim.text)} <em>{escape(claim.source)}</em>"]
    told = {"asked": claim.asked, "measured": claim.shown, "why": claim.fails}
    lines += [f"<em>{word}:</em> {escape(words)}" for word, words in told.items() if words]
    return f"<tr><td><strong>{verdict(claim)}</strong></td><td>{'<br>'.join(lines)}</td></tr>"


def _plain(value: Any) -> str:
    return "(" + ", ".join(map(_plain, value)) + ")" if isinstance(value, list) else str(value)


def _shrunk(path: Path) -> bytes:
    """A picture of the docs' width, in few bytes."""
    with Image.open(path) as image:
        scale = min(SCALE, WIDTH / image.width)
        size = (round(scale * image.width), round(scale * image.height))
        small = image.convert("RGB").resize(size, Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    small.save(buffer, "WEBP", quality=70, method=6)
    return buffer.getvalue()


def main() -> None:
    """Write the record from a folder of results."""
    parser = argparse.ArgumentParser(description="Make docs/records from the results of `neuralrace reproduce`.")
    parser.add_argument("results", type=Path, nargs="?")
    parser.add_argument("--larger", type=Path, nargs="+", default=[])
    given = parser.parse_args()
    if given.results is not None:
        print(write(given.results))
    if given.larger:
        print(write_larger(given.larger))


if __name__ == "__main__":
    main()
