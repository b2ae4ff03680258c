"""Diagnostics whose interval holds the threshold: in cells, on the sliders, in tables and as an exit code."""

import pytest
from msgspec.structs import replace

from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.reporting.records import record
from fa_tui.app import ExplorerApp
from fa_tui.session import Session
from fa_tui.views.columns import ordered
from fa_tui.views.filters import Filter
from fa_tui.views.glyphs import ASCII, UNICODE
from fa_tui.widgets.detail import RunPage
from tests.fa_core.rows import row_of
from tests.fa_tui.conftest import COLOURFUL, PLAIN
from tests.fa_tui.looks import cell_at_cursor, running, screen_text
from tests.fa_tui.printing import printed, printed_json
from tests.json_files import put_json

PASSES = {
    "residual_norms": [1.0, 2.0],
    "bp_grad_norms": [1e-2, 1e-3],
    "cross_batch_stability": 0.25,
    "headline_acc": 0.62,
    "frozen_baseline_acc": 0.56,
}
DOUBTFUL = {
    **PASSES,
    "intervals": {"growth": [1.9, 2.1], "stability": [0.1, 0.4], "acc": [0.61, 0.63]},
}
ALMOST = {**PASSES, "cross_batch_stability": 0.35, "intervals": {"stability": [0.2, 0.5]}}
"""Walked back by (c), which is undecided."""
FIRES = {**PASSES, "residual_norms": [1.0, 90.0], "intervals": {"growth": [80.0, 99.0]}}


def rows_of(**reports):
    return [
        row_of(key, "audit.json", seed=1, report=DiagnosticReport.from_dict(report))
        for key, report in reports.items()
    ]


def written(folder, **reports):
    path = folder / "audit.json"
    return str(put_json(path, {"reports": reports}))


async def test_a_run_is_marked_while_the_slider_is_in_its_interval():
    app = ExplorerApp(Session(rows_of(bp=DOUBTFUL, fa=PASSES)), title="runs", terminal=PLAIN)
    async with running(app) as pilot:
        shown = []
        for typed in ("0.45", "0.39", "0.09", "0.2"):
            await pilot.press("c", *typed, "enter")
            await pilot.pause()
            shown.append((cell_at_cursor(app), "1 undecided" in screen_text(app)))
        assert shown == [
            ("+----<", False),
            ("~--~-<", True),
            ("!--c-<", False),
            ("~--~-<", True),
        ]


async def test_the_interval_of_the_run_under_the_cursor_is_on_the_track_and_stays_there():
    app = ExplorerApp(Session(rows_of(bp=DOUBTFUL, fa=PASSES)), title="runs", terminal=COLOURFUL)
    async with running(app) as pilot:
        await pilot.press("c", *"0.35", "enter")
        await pilot.pause()
        slider = (
            app.explorer.sliders.sliders["c"] if app.explorer.sliders else pytest.fail("no sliders")
        )

        def lines():
            above, track = (slider.render_line(y).text for y in range(2))
            return above[:25], track[25:-36]

        label, track = lines()
        assert label.startswith("~"), "undecided at this threshold"
        drawn = [cell for cell, sign in enumerate(track) if sign == "~"]
        low, high = (slider._track.scale.cell(end, len(track)) for end in (0.1, 0.4))
        assert {drawn[0], drawn[-1]} == {low, high} and {*track[low : high + 1]} == {*"~◇●"}
        await pilot.press(*"0.6", "enter")
        await pilot.pause()
        label, moved = lines()
        assert not label.startswith("~") and {*moved[low : high + 1]} == {*"~◇"}
        await pilot.press("escape", "down")
        await pilot.pause()
        assert "~" not in "".join(lines()), "that run has no interval"


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
@pytest.mark.parametrize("width", [31, 43, 60, 90])
def test_the_detail_pane_breaks_no_interval_and_cuts_nothing(width, glyphs):
    report = replace(DiagnosticReport.from_dict(DOUBTFUL), batch_size=64)
    row = row_of("bp", "a.json", report=report)
    page = RunPage(row, width, glyphs)
    judged = Session([row])
    shown = page.lines(judged.thresholds, (judged.flags[0], judged.undecided[0]))
    lines = ["".join(text for text, _ in line) for line in shown]
    assert max(map(len, lines)) <= width
    text = " ".join("\n".join(lines[:24]).split())
    for words in ("1.9 to 2.1", "+0.100 to +0.400", "+5.00 to +7.00", "undecided on c"):
        assert words in text
    assert "it would be about +0.400" in text, "at B = 128"
    assert text.count("(") == text.count(")")


def test_orders_and_filters_that_follow_the_thresholds():
    session = Session(rows_of(bp=DOUBTFUL, fa=PASSES, dfa=ALMOST))
    assert all(Filter(term).live for term in ("flag:a", "undecided:c", "is:undecided"))
    assert ordered(session, range(3), "verdict") == [1, 0, 2]


def test_show_gives_the_intervals(tmp_path, capsys):
    path = written(tmp_path, bp=DOUBTFUL, ep=PASSES)
    assert "bp: (c) undecided: the 95% interval holds 0.3" in printed(capsys, "show", path)
    bp, ep = printed_json(capsys, "show", path)
    assert bp["intervals"]["stability"] == [0.1, 0.4] and "intervals" not in ep
    assert bp["intervals"]["margin_pp"] == pytest.approx([5.0, 7.0])


def test_an_export_has_the_ends_of_every_interval():
    (row,) = rows_of(bp=DOUBTFUL)
    found = record(row, row.report)
    ends = (found["cross_batch_stability_low"], found["cross_batch_stability_high"])
    assert (found["undecided"], *ends) == ("c", 0.1, 0.4)
    assert [found["margin_pp_low"], found["margin_pp_high"]] == pytest.approx([5.0, 7.0])
    assert found["g_L_low"] is None
