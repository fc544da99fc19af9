"""The report of one task as a page."""

import json
from collections.abc import Iterable, Sequence
from html import escape

from neuralrace.explanation.drawing import draw
from neuralrace.explanation.findings import Findings
from neuralrace.report import document, picture


def render(report: Findings) -> str:
    """HTML that needs no other file and no network."""
    title = f"neuralrace: {report.name} explained"
    verdict = "holds" if report.explained else "fails"
    body = f"""<header><h1>{escape(title)}</h1>
<p class="verdict {verdict}">{escape(report.verdict)}</p>
<p class="soft">ReLU networks were trained; their modules were found from their gates; the theory forecast the gated
network of these modules from its statistics and raced it against other gatings. Nothing was fitted.</p></header>
<section><figure>{picture(draw(report), "learning, modules, race and selectivity")}</figure></section>
<section><h2>Modules</h2>{_modules(report)}</section>
<section><h2>Agreement with training</h2>{_agreement(report)}</section>
<section><h2>The race of gatings</h2><p>No network is trained for this: {escape(report.winner)}.</p>
{_race(report)}</section>
{_selectivity(report)}
<section><h2>How far the assumptions held</h2>{_assumptions(report)}
<details><summary>Settings</summary><pre>{escape(json.dumps(report.settings, indent=1))}</pre></details></section>"""
    return document(title, body)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    lines = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<div class="wide"><table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>'


def _modules(report: Findings) -> str:
    head = ("module", "neurons", "consistency", "on for", "writes", "singular values of its data", "learned at")
    return _table(
        head,
        (
            (
                module.name,
                f"{module.neurons:.0f}",
                f"{module.consistency:.2f}",
                module.responds,
                module.writes,
                ", ".join(f"{value:.3g}" for value in module.singular_values),
                "never" if module.learned == float("inf") else f"{module.learned:.3g}",
            )
            for module in report.modules
        ),
    )


def _agreement(report: Findings) -> str:
    rows = (
        (name, f"{apart.normalised_l1:.3f}", f"{apart.log10_gap:.3f}", f"{apart.max_gap:.3f}")
        for name, apart in report.agreements.items()
    )
    return _table(("forecast", "normalised L1", "log10 gap", "largest gap over first loss"), rows)


def _race(report: Findings) -> str:
    finish = f"time to loss {report.race.criterion:.3g}"
    rows = (
        (r.name, "never" if r.time == float("inf") else f"{r.time:.4g}", f"{r.rate:.4g}", f"{r.final:.3g}")
        for r in report.race.runners
    )
    return _table(("gating", finish, "first rate", "final loss"), rows)


def _selectivity(report: Findings) -> str:
    parts = []
    for one in report.selectivity:
        head = ("groups in which a neuron is active", *(str(count) for count in range(len(one.share))))
        kinds = (
            ("neurons", one.share),
            ("counted by strength", one.share_of_strength),
            ("before training", one.before),
        )
        rows = ((kind, *(f"{share:.1%}" for share in shares)) for kind, shares in kinds)
        parts.append(f"<section><h2>Selectivity of {escape(one.layer)}</h2>{_table(head, rows)}</section>")
    return "".join(parts)


def _assumptions(report: Findings) -> str:
    return _table(("assumption", "measured"), ((held.assumption, held.measured) for held in report.assumptions))
