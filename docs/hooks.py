"""Fill in what the registries and records know, and turn formulas into MathML: the pages need no network, no script."""

import json
import re
import shutil
from collections.abc import Callable, Mapping
from html import escape, unescape
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import stories  # beside this file
import verdicts
import xarray
from latex2mathml.converter import convert

import neuralrace as nr
from neuralrace.io import load_dataset
from neuralrace.papers.registry import by_paper, heading
from neuralrace.report import counted, counts

FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)
FONT = "STIXTwoMath-Regular.ttf"  # with the table of a maths font, so that roots and brackets grow
CLAIMS = re.compile(r"<!-- claims of ([\w-]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Fill in the listings that the registries know, and what is on record."""
    markdown = CLAIMS.sub(lambda match: claims_of(match[1]), markdown)
    for name, make in TABLES.items():
        if f"<!-- {name} -->" in markdown:
            markdown = markdown.replace(f"<!-- {name} -->", make())
    return markdown


def experiments() -> str:
    """All figures, as a table."""
    rows = (f"| `{name}` | {entry.title} | {entry.source} |" for name, entry in nr.papers.figures().items())
    return "\n".join(["| name | what it shows | source |", "|---|---|---|", *rows])


def named_tasks() -> str:
    """All named tasks, as a table."""
    rows = (f"| `{name}` | {summary} |" for name, summary in nr.tasks.summaries().items())
    return "\n".join(["| name | what it is |", "|---|---|", *rows])


def cards() -> str:
    """A card for each experiment, in the order of the papers: picture, finding, counts of its claims, command."""
    kept = {record["name"]: record for record in verdicts.read()}
    parts = []
    for sign, chosen in by_paper(nr.papers.names()).items():
        shown = "\n".join(_card(name, kept.get(name)) for name in chosen)
        parts.append(f'## {heading(sign)}\n\n<div class="gallery">\n{shown}\n</div>')
    return "\n\n".join(parts)


def _card(name: str, record: Mapping[str, Any] | None) -> str:
    """One experiment; what is not on record yet has no picture and no counts."""
    experiment = nr.papers.get(name)
    picture = f'<a href="../records/{name}.webp"><img alt="" loading="lazy" src="../records/{name}.webp"></a>'
    claims = verdicts.claims_of([record]) if record else []
    told = "; ".join(f"{kind}: {counted(kind, numbers)}" for kind, numbers in counts(claims).items())
    shown = f'<p><a href="../verdicts/#{name}">{escape(told)}</a></p>' if record else ""
    return (
        f'<div id="{name}">{picture if (verdicts.RECORDS / f"{name}.webp").is_file() else ""}'
        f"<h4>{escape(experiment.source)}: {escape(experiment.title)}</h4><p>{escape(experiment.finding)}</p>{shown}"
        f"<p><code>neuralrace run {name} --out results</code></p></div>"
    )


def claims_of(name: str) -> str:
    """The claims of one experiment as they are on record, as a table."""
    records = [record for record in verdicts.read() if record["name"] == name]
    lines = ["| claim | asked | measured | holds |", "|---|---|---|---|"]
    for claim in verdicts.claims_of(records):
        cells = (
            claim.text,
            claim.asked,
            claim.shown,
            ("yes" if claim.holds else "no") + (", near its threshold" if claim.near else ""),
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def predictions() -> str:
    """The record of forecasts that were written down before their networks were trained, as a table."""
    record = json.loads((Path(__file__).parent / "records" / "forecasts.json").read_text(encoding="utf-8"))
    lines = [
        "| task | neurons | followed | forecast: L1, log10 | networks among themselves: L1, log10 |",
        "|---|---|---|---|---|",
    ]
    keys = ("normalized_l1", "log10_gap")
    for row in record["rows"]:
        found, apart = row["forecast"], row["networks_apart"]
        predicted = ", ".join(f"{found[key]:.4f}" for key in keys)
        others = ", ".join(f"{apart[key][0]:.4f} to {apart[key][1]:.4f}" for key in keys)
        followed = f"{row['neurons']:,}" + ", every step" * row["finer"]
        lines.append(f"| {row['task']} | {row['width']:,} | {followed} | {predicted} | {others} |")
    counts = []
    for width, finer in dict.fromkeys((row["width"], row["finer"]) for row in record["rows"]):
        rows = [row for row in record["rows"] if (row["width"], row["finer"]) == (width, finer)]
        judged = [row for row in rows if row["task"] != "mixed"]  # on which the rules were fixed
        near = [all(row["forecast"][key] <= row["networks_apart"][key][1] for key in keys) for row in judged]
        new = [found for found, row in zip(near, judged, strict=True) if not row["seen"]]
        kind = f"{width:,} neurons" + ", every step" * finer
        counts.append(f"| {kind} | {sum(near)} of {len(near)} | {sum(new)} of {len(new)} |")
    said = [
        "Tasks whose forecast is as near as one of the ten networks, in both measures:",
        "",
        "| | all but the mixed task | those on which no rule was chosen |",
        "|---|---|---|",
        *counts,
    ]
    return "\n".join([*lines, "", *said])


def presets() -> str:
    """The scenes that stand for the figures of the papers, as a table with links to a running explorer."""
    from neuralrace.explorer.presets import about
    from neuralrace.explorer.server import PORT

    rows = [
        f"| {one['source']} | [{one['title']}](http://127.0.0.1:{PORT}/#preset={one['name']}) | {one['note']} |"
        for one in about()["presets"]
    ]
    return "\n".join(["| figure | scene | how it differs |", "|---|---|---|", *rows])


def on_post_build(config: Any, **_: Any) -> None:
    """Put the scenes of the explorer beside the pages, and the maths font that comes with ziamath."""
    stories.install(Path(config["site_dir"]))
    package = find_spec("ziamath")  # only its font is used; without it formulas are set in a font of the reader's
    if package is not None and package.origin is not None:
        folder = Path(config["site_dir"]) / "fonts"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(package.origin).parent / "fonts" / FONT, folder / FONT)


def pairs_of_mnist() -> str:
    """Test errors on MNIST for pairs of every kind, as a table, from the dataset on record."""
    data = load_dataset(verdicts.RECORDS / "images" / "mnist-pairs.nc")
    errors = data["image_error"].mean("image_seed").transpose("graph", "objective", "kind")
    names = [f"{name}: trained, untrained" for name in data["objective"].values]
    lines = [f"| pairs | K/M | g2/g1 | {' | '.join(names)} |", "|---|---|---|" + "---|" * len(names)]
    for graph, row in enumerate(errors.values):
        cells = " | ".join(", ".join(f"{100 * error:.1f} %" for error in pair) for pair in row)
        kind, trained = str(data["image_pairs"][graph].values), int(data["image_trained"][graph])
        ratio, share = float(data["image_ratio"][graph]), 100 * trained / data.attrs["image_domains"]
        lines.append(f"| {kind}, K = {trained} | {share:g} % | {ratio:.3f} | {cells} |")
    return "\n".join(lines)


def curves_of_mnist() -> str:
    """Squared errors of routed MNIST from moments, beside training, as a table."""
    data = load_dataset(verdicts.RECORDS / "images" / "mnist-pairs.nc")
    lines = [
        "| pairs | time | trained pairs: moments, training | untrained pairs: moments, training |",
        "|---|---|---|---|",
    ]
    for curve in data["curve"].values:
        for look in (3, 6, 9, 15):
            here = data.sel(curve=curve).isel(image_time=look)
            cells = [
                ", ".join(f"{float(here[name].sel(kind=kind).mean()):.3f}" for name in ("curve_flow", "curve_trained"))
                for kind in ("trained", "untrained")
            ]
            lines.append(f"| {curve} | {float(here['image_time']):,.0f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def routed_images() -> str:
    """Test errors on real images at the paper's sizes, from the datasets on record: one table for each panel."""
    found = []
    for path in sorted((verdicts.RECORDS / "images").glob("*-*-*-*.nc")):
        data = load_dataset(path)
        scan = json.loads(data.attrs["scan"])
        gains = len({gain for _, gain in scan["conditions"]}) > 1
        order = (scan["data"] == "features", scan["slope"] != 1, gains, scan["steps"], scan["inputs"], -scan["domains"])
        found.append((order, _panel(data, scan, gains)))
    return "\n\n".join(table for _, table in sorted(found))


def _panel(data: xarray.Dataset, scan: Mapping[str, Any], gains: bool) -> str:
    """Means and standard errors over seeds at the end of training."""
    kind = "linear" if scan["slope"] == 1 else "leaky ReLU"
    name = "CIFAR-10 features, rotated" if scan["data"] == "features" else f"MNIST, {scan['inputs']}"
    head = f"**{name}, M = {scan['domains']}, {kind}{', over gains' if gains else ''}**"
    lines = ["| K/M | gain | time | trained pairs | untrained pairs |", "|---|---|---|---|---|"]
    end, count = data["error"].isel(moment=-1), data.sizes["seed"]
    means, spreads = end.mean("seed").values, end.std("seed", ddof=1).values / count**0.5
    for (trained, gain), mean, spread, time in zip(
        scan["conditions"], means, spreads, data["time"].values[:, -1], strict=True
    ):
        cells = " | ".join(f"{100 * m:.1f} ± {100 * e:.1f} %" for m, e in zip(mean, spread, strict=True))
        lines.append(f"| {trained}/{scan['domains']} | {gain:g} | {time:,.0f} | {cells} |")
    return "\n".join([f"{head}, {count} seeds, {scan['steps']:,} steps:", "", *lines])


def on_page_content(html: str, **_: Any) -> str:
    """Replace each formula that arithmatex has marked."""

    def mathml(match: re.Match[str]) -> str:
        display = "block" if match[2] == "[" else "inline"
        return f'<{match[1]} class="formula">{convert(unescape(match[3]).strip(), display=display)}</{match[1]}>'

    return FORMULA.sub(mathml, html)


TABLES: Mapping[str, Callable[[], str]] = {  # what a comment in a page is replaced with
    "experiments": experiments,
    "tasks": named_tasks,
    "gallery": cards,
    "presets": presets,
    "predictions": predictions,
    "pairs of MNIST": pairs_of_mnist,
    "curves of MNIST": curves_of_mnist,
    "routed images": routed_images,
    "verdict counts": lambda: verdicts.render_counts(verdicts.read()),
    "verdicts": lambda: verdicts.render(verdicts.read()),
}
