"""Runs side by side: groups, the first layer at which they part, flipping, and the thresholds."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.analysis import across_runs
from fa_core.formats import scan
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.screens.compare import CompareScreen, scales_of
from fa_tui.session import SCALAR_LIMIT, Session, mask_of
from fa_tui.views.comparison import (
    MARKED,
    Group,
    agreement,
    column_labels,
    compared_lines,
    groups_of,
    place_of,
    spread_words,
)
from fa_tui.views.names import told_apart
from fa_tui.widgets.compared_text import half_bar
from fa_tui.widgets.glyphs import ASCII, UNICODE
from fa_tui.widgets.layer_charts import layer_chart
from fa_tui.widgets.numbers import short
from fa_tui.widgets.scale import Scale
from tests.conftest import REPOSITORY
from tests.fa_tui.looks import app_on, opened, screen_text, settled
from tests.fa_tui.waiting import until


@pytest.fixture
def app(published_table: Path) -> ExplorerApp:
    return app_on(Session(scan([published_table]).rows))


def _row(method: str, seed: int | None, *norms: float) -> AuditRow:
    report = DiagnosticReport(residual_norms=list(norms), bp_grad_norms=[1e-3] * len(norms))
    return AuditRow(source="a.json", key=f"{method}_{seed}", method=method, seed=seed, report=report)


def test_without_marks_every_method_over_its_seeds_is_a_group(published_table: Path) -> None:
    groups = groups_of(Session(scan([published_table]).rows))
    assert [group.name for group in groups] == ["bp", "dfa", "state_bridge", "credit_bridge", "ep"]
    assert [len(group.rows) for group in groups] == [3] * 5


def test_two_marks_are_a_group_of_their_own_and_one_is_not() -> None:
    session = Session([_row("bp", seed, 1.0, 2.0) for seed in range(3)])
    session.marked = {1}
    assert [group.name for group in groups_of(session)] == ["bp"]
    session.marked = {0, 2}
    assert groups_of(session)[0] == (MARKED, (0, 2), "")


def _ten_seeds() -> Session:
    """Ten seeds, of which only the last one explodes at layer 2."""
    return Session([_row("bp", seed, 1.0, 2.0, 4000.0 if seed == 10 else 3.0 + seed / 100) for seed in range(1, 11)])


async def test_every_seed_of_a_method_comes_on_screen_six_at_a_time() -> None:
    app = app_on(_ten_seeds())
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "C")
        title, names, *_ = screen_text(app).splitlines()
        assert "1-6 of 10 runs" in title
        assert names.split() == ["s1", "s2", "s3", "s4", "s5", "s6", "›", "max/min"]
        await pilot.press("greater_than_sign")
        title, names, *_ = screen_text(app).splitlines()
        assert "5-10 of 10 runs" in title
        assert names.split() == ["‹", "s5", "s6", "s7", "s8", "s9", "s10", "max/min"]
        await pilot.press("less_than_sign", *["right"] * 6)
        assert "2-7 of 10 runs" in screen_text(app).splitlines()[0]
        await pilot.press(*["left"] * 6)
        assert "1-6 of 10 runs" in screen_text(app).splitlines()[0]


async def test_ratio_spread_and_parting_are_of_all_seeds_on_screen_or_not() -> None:
    app = app_on(_ten_seeds())
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C")
        text = screen_text(app)
        assert "s10" not in text.splitlines()[1] and "4000" not in text
        assert "part at layer 2" in text and "×1329" in text
        assert "seeds disagree: a fires on 1 of 10" in text
        spread = next(line.spread for line in screen.view.lines if line.kind == "h" and line.label == "2")
        assert spread is not None and len(spread.values) == 10 and spread.mean == pytest.approx(402.745)
        await pilot.press("down", "down", "down", *["right"] * 10)
        await settled(pilot, screen)
        assert "largest s10 (4000), smallest s1 (3.01)   max/min and mean ± std are over all 10" in screen_text(app)


async def test_six_runs_have_nothing_to_turn_to(app: ExplorerApp) -> None:
    app.session.marked = set(range(6))
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(pilot, "C")
        await pilot.press("greater_than_sign", "less_than_sign", "shift+right")
        assert screen.view.window.first == 0
        assert "6 runs" in screen_text(app).splitlines()[0]
        assert "Runs after" not in screen_text(app)


async def test_the_runs_on_screen_stay_in_place_from_method_to_method() -> None:
    rows = [_row(method, seed, 1.0, 2.0) for method in ("bp", "dfa") for seed in range(1, 15)]
    app = app_on(Session([*rows, _row("ep", 1, 1.0), _row("ep", 2, 1.0)]))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C", "greater_than_sign", "n")
        assert "7-12 of 14 runs" in screen_text(app).splitlines()[0] and screen.group.name == "dfa"
        await pilot.press("n")
        assert " ep " in screen_text(app).splitlines()[0] and "2 runs" in screen_text(app).splitlines()[0]


async def test_the_copied_comparison_has_all_runs() -> None:
    app = app_on(_ten_seeds())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot, "C")
        table = screen.shared().table
        assert table is not None
        (grid,) = table.blocks
        assert grid.headings == ("", *(f"s{seed}" for seed in range(1, 11)), "max/min")
        assert grid.rows[0][10] == "✗a-··"


async def test_the_charts_show_the_runs_on_screen() -> None:
    app = app_on(_ten_seeds())
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(pilot, "C", "greater_than_sign")
        await settled(pilot, screen)
        assert "1 s5" in screen_text(app).splitlines()[1] and "6 s10" in screen_text(app).splitlines()[1]
        assert "s1 " not in screen_text(app).splitlines()[1]


def test_scales_of_many_runs_are_those_of_few() -> None:
    few = Session([_row("bp", seed, 0.5, 2.0 + seed, math.inf) for seed in range(10)])
    many = Session([*few.rows, *(_row("dfa", seed, 1.0, 3.0, 0.0) for seed in range(SCALAR_LIMIT))])
    assert scales_of(many, range(len(many))) == scales_of(few, range(10))


def test_labels_are_seeds_where_only_seeds_differ_and_numbered_where_names_repeat() -> None:
    session = Session([_row("bp", 1, 1.0), _row("bp", 2, 1.0), _row("bp", 1, 1.0), _row("dfa", None, 1.0)])
    assert column_labels(session, groups_of(session)[0]) == [("", "s1"), ("", "s2")]
    session.marked = {0, 2, 3}
    assert column_labels(session, groups_of(session)[0]) == [("bp", " s1"), ("bp", " s1 #2"), ("dfa", "")]


def test_runs_of_one_name_are_told_apart_by_the_axes_that_differ_then_by_where_they_are() -> None:
    def on(source: str, **axes: object) -> AuditRow:
        return replace(_row("dfa", 42, 1.0), source=source, axes={"L": 4, **axes})

    def names(*rows: AuditRow) -> list[str]:
        return ["".join(name) for name in told_apart(rows)]

    sweep = [on("a.json", lam=lam, d=d) for lam, d in ((0.1, 64), (0.1, 128), (0.01, 128))]
    assert names(*sweep) == ["dfa s42 d=64 λ=0.1", "dfa s42 d=128 λ=0.1", "dfa s42 d=128 λ=0.01"]
    assert names(on("a.json", d=64), on("a.json", arch="cnn", d=64)) == ["dfa s42", "dfa s42 arch=cnn"]
    rare = names(on("a.json", d=64), on("a.json", d=32), on("a.json", arch="cnn", d=32))
    assert rare == ["dfa s42 d=64", "dfa s42 d=32", "dfa s42 d=32 arch=cnn"]
    assert names(*sweep[:2], _row("bp", 42, 1.0)) == ["dfa s42 d=64", "dfa s42 d=128", "bp s42"]
    assert names(on("x/main/dfa_s42"), on("x/wide/dfa_s42")) == ["dfa s42 (main)", "dfa s42 (wide)"]
    assert names(on("x/a.json"), on("x/b.json")) == ["dfa s42 (x/a.json)", "dfa s42 (x/b.json)"]


def test_a_spread_that_is_only_rounding_is_no_spread() -> None:
    def said(*values: float) -> str:
        return spread_words(across_runs([[value] for value in values])[0])

    assert said(1.51, math.nextafter(1.51, 2)) == "1.51 ± 0"
    assert said(1e-9, math.nextafter(1e-9, 1)) == "1e-9 ± 0"
    assert said(1.0, 3.0) == "2 ± 1"
    assert said(0.0, 0.0) == "0 ± 0" and said(2.0) == "2" and said(math.inf) == ""


def test_the_heading_names_the_first_layer_at_which_runs_part() -> None:
    reports = [_row("x", 1, *norms).report for norms in ([8.0, 9.0, 10.0], [8.0, 9.5, 1000.0])]
    headings = [line.label for line in compared_lines(reports) if line.kind == "heading"]
    assert headings[0].endswith("part at layer 2")
    assert headings[1].endswith("part at block 1→2")
    assert "together, at most ×1 apart" in headings[2]
    assert [line.label for line in compared_lines(reports) if line.parts] == ["2", "1→2"]


def test_runs_agree_on_letters_that_all_fire_or_all_pass() -> None:
    calm, burst = (mask_of(""), mask_of("ab")), (mask_of("ac"), mask_of("abc"))
    assert agreement([calm, burst, burst]) == ("bc", {"a": (2, 3)})
    assert agreement([]) == ("", {})


def test_a_run_that_is_not_finite_is_compared_and_drawn_without_a_bar() -> None:
    reports = [_row("x", 1, 1.0, 2.0).report, _row("x", 2, 1.0, math.nan).report]
    layer = next(line for line in compared_lines(reports) if line.kind == "h" and line.label == "1")
    assert layer.spread is not None and layer.spread.ratio == math.inf


@pytest.mark.parametrize("glyphs", [UNICODE, ASCII])
def test_a_longer_bar_is_a_larger_value_and_none_is_invisible(glyphs: Any) -> None:
    lengths = [len(half_bar(step / 20, 10, glyphs)) for step in range(21)]
    assert lengths == sorted(lengths)
    assert (lengths[0], lengths[-1]) == (1, 10)


async def test_c_opens_on_the_method_under_the_cursor_and_n_and_p_flip(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("down")
        screen = await opened(pilot, "C")
        assert " dfa " in screen_text(app).splitlines()[0]
        assert "seeds disagree: c fires on 1 of 3" in screen_text(app)
        await pilot.press("n")
        assert "state_bridge" in screen_text(app).splitlines()[0]
        await pilot.press("p", "p", "p")
        await settled(pilot, screen)
        assert " ep " in screen_text(app).splitlines()[0]
        assert "seeds agree: ✓abc·" in screen_text(app)
        await pilot.press("escape")
        assert app.screen is app.explorer


async def test_marked_runs_come_first_and_a_slider_rejudges_every_column(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("space", *["down"] * 4, "right", "space")
        screen = await opened(pilot, "C")
        assert "bp s42" in screen_text(app) and "ep s123" in screen_text(app)
        assert "runs agree: ✓abc·" in screen_text(app)
        await pilot.press("a", "5", "enter")
        await settled(pilot, screen)
        assert "runs disagree: a fires on 1 of 2" in screen_text(app)
        await pilot.press("escape", "escape")
        await pilot.pause()
        assert app.screen is app.explorer
        assert app.explorer.sliders is not None
        assert app.explorer.sliders.thresholds.h_norm_explosion_ratio == 5.0
        assert "11 of 15 walk back" in screen_text(app)


async def test_bars_keep_their_scale_when_methods_are_flipped_until_z(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "C")
        bp = screen_text(app).splitlines()[4]
        await pilot.press("n", "p")
        await pilot.pause()
        assert screen_text(app).splitlines()[4] == bp
        await pilot.press("z")
        await pilot.pause()
        own = screen_text(app).splitlines()[4]
        assert own.count("━") > bp.count("━")


async def test_a_single_run_says_how_to_compare_it() -> None:
    app = app_on(Session([_row("bp", 1, 1.0, 2.0)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "C")
        assert "nothing to compare it with" in screen_text(app)
        assert "max/min" not in screen_text(app).splitlines()[1]


async def test_no_runs_and_unmeasured_runs_are_said_not_drawn() -> None:
    for rows, words in (
        ([], "nothing to compare"),
        ([AuditRow(source="x", key=f"x{n}", method="x", seed=n) for n in range(2)], "none of these runs is measured"),
    ):
        app = app_on(Session(rows))
        async with app.run_test(size=(80, 24)) as pilot:
            await opened(pilot, "C")
            assert words in screen_text(app)
            await pilot.press("n", "z", "down", "right")


async def test_a_measured_run_appears_and_the_method_stays(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C", "n")
        index = next(n for n, row in enumerate(app.session.rows) if row.key == "dfa_s42")
        row = app.session.rows[index]
        app.session.replace_rows({index: replace(row, report=_row("dfa", 42, 1.0, 2.0).report)})
        screen.runs_changed()
        await settled(pilot, screen)
        assert " dfa " in screen_text(app).splitlines()[0]
        assert "part at layer 0" in screen_text(app)


def test_no_screen_of_the_explorer_imports_torch() -> None:
    code = (
        "import sys; import fa_tui.screens.compare, fa_tui.screens.timeline, fa_tui.screens.analysis;"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=False).returncode == 0


async def test_a_click_on_a_cell_says_its_value_and_source(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C")
        await pilot.click("CompareView", offset=(40, 3))
        await settled(pilot, screen)
        h_0 = next(row for row in app.session.rows if row.key == "bp_s123").report.residual_norms[0]
        assert f"bp s123: ‖h_0‖ = {short(h_0, 6)}" in screen_text(app)


async def test_six_runs_fit_eighty_columns_and_stay_told_apart(app: ExplorerApp) -> None:
    app.session.marked = set(range(6))
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "C")
        names = screen_text(app).splitlines()[1]
        for name in ("bp s42", "s42", "bp s123"):
            assert name in names
        assert "state_bridge" not in names


def test_the_charts_hold_every_layer_of_every_run_on_the_scale_of_the_bars() -> None:
    chart = layer_chart([[1.0, 10.0], [2.0, math.nan, 4.0]], Scale(1.0, 10.0, log=True))
    assert [curve.mark for curve in chart.curves] == ["1", "2"]
    assert chart.curves[0].points == [(0.0, 1.0), (1.0, 10.0)]
    assert (chart.x, chart.y) == (Scale(0.0, 2.0), Scale(1.0, 10.0, log=True))
    assert layer_chart([[math.nan]], None).curves == []


async def test_a_large_screen_has_charts_that_name_the_runs_by_number(app: ExplorerApp) -> None:
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(pilot, "C", "n")
        text = screen_text(app)
        assert "1 s42" in text and "3 s456" in text
        assert "3" in re.findall("[\u2801-\u28ff]([123])", text), "a curve ends in its number"
        await pilot.resize_terminal(120, 40)
        await settled(pilot, screen)
        assert "1 s42" not in screen_text(app) and " s42" in screen_text(app)


def _deep() -> Session:
    """A shallow run and one of 200 layers that jumps at block 77."""
    norms = [10.0 * 1.01**layer * (300 if layer > 77 else 1) for layer in range(201)]
    session = Session([_row("a", 1, 10.0, 10.1, 10.2, 10.3), _row("b", 1, *norms), _row("c", 1)])
    session.marked = {0, 1, 2}
    return session


async def test_brackets_go_to_where_deep_runs_part_and_grow() -> None:
    app = app_on(_deep())
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C")
        assert "depth L = 3, 200" in screen_text(app)
        places = []
        for _ in range(len(screen.view.landmarks()) - 1):
            await pilot.press("right_square_bracket")
            entry = screen.view.lines[screen.view.line]
            places.append((entry.kind, entry.label))
        assert places[:3] == [("h", "0"), ("growth", "0→1"), ("growth", "77→78")]
        await pilot.press("left_square_bracket")
        assert screen.view.lines[screen.view.line].kind in ("growth", "g")


async def test_a_layer_that_a_run_does_not_have_is_said_to_be_missing() -> None:
    app = app_on(_deep())
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(pilot, "C")
        await pilot.press(*["down"] * 5)
        await pilot.pause()
        assert "a s1: no ‖h_4‖ in this run" in screen_text(app)


async def test_six_runs_and_their_ratio_fit_eighty_columns(published_table: Path) -> None:
    session = Session(scan([published_table]).rows)
    session.marked = set(range(6))
    app = app_on(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(pilot, "C")
        header = screen_text(app).splitlines()[1]
        assert header.count("s42") == 5 and "max/min" in header and "›" not in header


async def test_p_means_presets_on_a_slider_and_the_method_before_elsewhere(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "C")
        await pilot.press("p")
        assert " ep " in screen_text(app).splitlines()[0]
        await pilot.press("a", "p")
        await until(pilot, lambda: "Thresholds" in screen_text(app) and "protocol" in screen_text(app))
        await pilot.press("escape")
        await until(pilot, lambda: app.screen is screen)


async def test_the_copied_command_prints_just_the_runs_compared(
    published_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    app = ExplorerApp(Session(scan([published_table]).rows), paths=[published_table])
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("down")
        screen = await opened(pilot, "C")
        words = shlex.split(next(piece for piece in screen.shared().pieces if piece.key == "l").text())
    capsys.readouterr()
    assert main([*words[1:], "--format", "json"]) == 0
    assert [row["key"] for row in json.loads(capsys.readouterr().out)] == ["dfa_s42", "dfa_s123", "dfa_s456"]


async def test_a_filter_on_verdicts_follows_the_thresholds(app: ExplorerApp) -> None:
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.explorer.sliders is not None)
        await pilot.press("slash", *"flag:b", "enter")
        await until(pilot, lambda: app.explorer.shown is not None)
        screen = await opened(pilot, "C")
        assert " dfa " in screen_text(app).splitlines()[0]
        for key, typed, words in (
            ("b", "1e-12", "nothing to compare: no run passes the filter"),
            ("b", "1e-7", " dfa   3 runs"),
        ):
            await pilot.press(key, *typed, "enter")
            await settled(pilot, screen)
            assert words in screen_text(app).splitlines()[0]
            passing = [row for row, flags in enumerate(app.session.flags) if flags & mask_of("b")]
            assert isinstance(screen, CompareScreen)
            assert bool(screen.view.line_count()) == bool(passing)
            assert set(screen.group.rows if screen.group else ()) <= set(passing)


def test_a_group_is_found_again_by_name_then_by_a_run_then_by_its_place() -> None:
    dfa, dfa_apart, bp = Group("dfa", (0, 1)), Group("dfa lam=0.1", (1,)), Group("bp", (2, 3))
    assert place_of(dfa, [bp, dfa], 0) == 1
    assert place_of(dfa, [bp, dfa_apart], 0) == 1
    assert place_of(dfa, [bp], 3) == 0
    assert place_of(dfa, [], 3) == 0
