"""Fill in what the registries and records know, and turn formulas into MathML: the pages need no network, no script."""

import json
import re
import shutil
from collections.abc import Mapping
from html import escape, unescape
from pathlib import Path
from typing import Any

import verdicts  # beside this file
from latex2mathml.converter import convert
from matplotlib import get_data_path

import neuralrace as nr
from neuralrace._page import set_maths
from neuralrace.experiments import papers
from neuralrace.report import counted, counts

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the listings that the registries know, and the verdicts on record."""
    experiments = [nr.experiments.get(name) for name in nr.experiments.names()]
    rows = "\n".join(f"| `{e.name}` | {e.title} | {e.source} |" for e in experiments)
    tasks = "\n".join(f"| `{name}` | {summary} |" for name, summary in nr.tasks.summaries().items())
    markdown = markdown.replace("<!-- experiments -->", f"| name | what it shows | source |\n|---|---|---|\n{rows}")
    markdown = markdown.replace("<!-- tasks -->", f"| name | what it is |\n|---|---|\n{tasks}")
    if "<!-- gallery -->" in markdown:
        markdown = markdown.replace("<!-- gallery -->", gallery())
    if "<!-- foreseen -->" in markdown:
        markdown = markdown.replace("<!-- foreseen -->", foreseen())
    if "<!-- verdicts -->" in markdown:
        records = verdicts.read()
        markdown = markdown.replace("<!-- verdict counts -->", verdicts.render_counts(records))
        markdown = markdown.replace("<!-- verdicts -->", verdicts.render(records))
    return markdown


def gallery() -> str:
    """A card for each experiment, in the order of the papers: picture, finding, counts of its claims, command."""
    kept = {record["name"]: record for record in verdicts.read()}
    entries = nr.experiments.listed().values()
    parts = []
    for sign, chosen in papers.by_paper(entries, lambda entry: (entry.name, entry.source)).items():
        cards = "\n".join(_card(entry.name, kept.get(entry.name)) for entry in chosen)
        parts.append(f'## {papers.heading(sign)}\n\n<div class="gallery">\n{cards}\n</div>')
    return "\n\n".join(parts)


def _card(name: str, record: Mapping[str, Any] | None) -> str:
    """One experiment; what is not on record yet has no picture and no counts."""
    experiment = nr.experiments.get(name)
    picture = f'<a href="../records/{name}.webp"><img alt="" loading="lazy" src="../records/{name}.webp"></a>'
    claims = verdicts.claims_of([record]) if record else []
    told = "; ".join(f"{kind}: {counted(kind, numbers)}" for kind, numbers in counts(claims).items())
    shown = f'<p><a href="../verdicts/#{name}">{escape(told)}</a></p>' if record else ""
    return (
        f'<div id="{name}">{picture if (verdicts.RECORDS / f"{name}.webp").is_file() else ""}'
        f"<h4>{escape(experiment.source)}: {escape(experiment.title)}</h4><p>{set_maths(experiment.finding)}</p>{shown}"
        f"<p><code>neuralrace run {name} --out results</code></p></div>"
    )


def foreseen() -> str:
    """The record of forecasts that were written down before their networks were trained, as a table."""
    record = json.loads((Path(__file__).parent / "records" / "foreseen.json").read_text(encoding="utf-8"))
    lines = ["| task | neurons | forecast: L1, log10 | networks among themselves: L1, log10 |", "|---|---|---|---|"]
    for row in record["rows"]:
        found, apart = row["forecast"], row["networks_apart"]
        foretold = ", ".join(f"{found[key]:.4f}" for key in ("normalised_l1", "log10_gap"))
        others = ", ".join(f"{apart[key][0]:.4f} to {apart[key][1]:.4f}" for key in ("normalised_l1", "log10_gap"))
        lines.append(f"| {row['task']} | {row['width']:,} | {foretold} | {others} |")
    judged = [row for row in record["rows"] if row["task"] != "mixed"]  # on which the rules were fixed
    near = [row["forecast"]["normalised_l1"] <= row["networks_apart"]["normalised_l1"][1] for row in judged]
    few = [row["width"] <= 1000 for row in judged]
    counted = sum(close and narrow for close, narrow in zip(near, few, strict=True))
    said = (
        f"In normalised L1 the forecast is as near as one of the networks in {counted} of {sum(few)} tasks of up to "
        f"1,000 neurons, and in {sum(near) - counted} of {len(few) - sum(few)} wider ones."
    )
    return "\n".join([*lines, "", said])


def on_post_build(config: Mapping[str, Any], **_: Any) -> None:
    """Put the maths font that comes with matplotlib, and its licence, beside the pages that use it."""
    folder = Path(config["site_dir"]) / "fonts"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("STIXGeneral.ttf", "LICENSE_STIX"):
        shutil.copyfile(Path(get_data_path()) / "fonts" / "ttf" / name, folder / name)


def on_page_content(html: str, **_: Any) -> str:
    """Replace each formula that arithmatex has marked."""

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return f'<{match[1]} class="formula">{convert(unescape(match[3]).strip(), display=display)}</{match[1]}>'

    return FORMULA.sub(mathml, html)
