"""Sections as text: aligned where they fit, row by row where they do not."""

from neuralrace.explanation.rendering import WIDE, render_text
from neuralrace.explanation.sections import Section


def test_a_table_that_fits_is_aligned():
    section = Section("Race", "A note.", ("gating", "time"), (("common", "3"), ("common + all", "12")))
    assert render_text("lead", [section]).splitlines() == [
        "lead",
        "",
        "race",
        "  A note.",
        "  gating        time",
        "  common        3",
        "  common + all  12",
    ]


def test_a_table_without_rows_has_no_head():
    assert render_text("lead", [Section("Race", "A note.", ("gating", "time"), ())]).splitlines()[2:] == [
        "race",
        "  A note.",
    ]


def test_a_table_that_does_not_fit_is_written_row_by_row():
    section = Section("Modules", "", ("module", "on for"), (("m0", "x " * 60),))
    lines = render_text("lead", [section]).splitlines()[2:]
    assert lines[:2] == ["modules", "  m0"]
    assert lines[2].startswith("      on for: x x")
    assert lines[3].startswith("        x")
    assert max(map(len, lines)) <= WIDE
