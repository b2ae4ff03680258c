"""Export: every kind of file, by a name that was typed, and never over a file that is there."""

from __future__ import annotations

import json
import shlex
from functools import partial
from pathlib import Path

import pytest

from fa_core.errors import UsageError
from fa_core.formats import scan
from fa_core.formats.row_baselines import with_assumed_baseline
from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.cli import main
from fa_tui.sharing.export import (
    KINDS,
    SCREEN,
    Kind,
    export,
    export_text,
    free_name,
    in_the_way,
    name_problem,
    target,
)
from fa_tui.sharing.pieces import Shared, baseline_text, command_line

STRICT = DiagnosticThresholds(h_norm_explosion_ratio=5)
REPORTS = [kind for kind in KINDS if kind is not SCREEN]
BY_KEY = {kind.key: kind for kind in KINDS}


@pytest.fixture
def rows(published_table: Path) -> list[AuditRow]:
    return scan([published_table]).rows


@pytest.mark.parametrize("kind", REPORTS, ids=lambda kind: kind.key)
def test_every_kind_is_written_and_told(tmp_path: Path, rows: list[AuditRow], kind: Kind) -> None:
    files = export(kind, str(tmp_path / "out"), Shared([], rows, "runs", STRICT))
    assert files[0] == tmp_path / f"out{kind.ending}"
    assert sorted(files) == sorted(tmp_path.iterdir())
    assert all(file.stat().st_size for file in files)


def test_the_ending_of_a_figures_name_says_what_it_is(tmp_path: Path, rows: list[AuditRow]) -> None:
    (file,) = export(BY_KEY["f"], str(tmp_path / "out.pdf"), Shared([], rows, "runs", STRICT))
    assert file.name == "out.pdf" and file.read_bytes().startswith(b"%PDF")
    assert "must end in .svg or .pdf or .png" in name_problem(BY_KEY["f"], "out.jpg")


def test_a_report_is_judged_by_the_sliders(tmp_path: Path, rows: list[AuditRow]) -> None:
    export(BY_KEY["c"], str(tmp_path / "out.csv"), Shared([], rows, "runs", STRICT))
    assert (tmp_path / "out.csv").read_text().count("needs walk-back") == 9 + 11


def test_an_audit_table_opens_again_with_the_verdicts_that_were_shown(
    tmp_path: Path, rows: list[AuditRow]
) -> None:
    export(BY_KEY["j"], str(tmp_path / "out"), Shared([], rows, "runs", STRICT))
    written = json.loads((tmp_path / "out.json").read_text())["reports"].values()
    assert sum(report["verdict"] != "trustworthy" for report in written) == 11
    assert [row.key for row in scan([tmp_path / "out.json"]).rows] == [row.key for row in rows]


@pytest.mark.parametrize("kind", REPORTS, ids=lambda kind: kind.key)
def test_nothing_is_ever_overwritten(tmp_path: Path, rows: list[AuditRow], kind: Kind) -> None:
    path = tmp_path / f"out{kind.ending}"
    path.write_text("precious")
    with pytest.raises(UsageError, match="is there already"):
        export(kind, str(tmp_path / "out"), Shared([], rows, "runs", STRICT))
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]
    first, taken = tmp_path / f"{kind.name}{kind.ending}", partial(in_the_way, kind)
    assert free_name(first, taken) == first
    first.touch()
    assert free_name(first, taken) == tmp_path / f"{kind.name}-2{kind.ending}"


def test_a_markdown_report_does_not_write_over_anybodys_figures(
    tmp_path: Path, rows: list[AuditRow]
) -> None:
    (tmp_path / "out-methods-1.svg").write_text("precious")
    with pytest.raises(UsageError, match=r"out-methods-1\.svg is there already"):
        export(BY_KEY["m"], str(tmp_path / "out.md"), Shared([], rows, "runs", STRICT))
    assert [path.name for path in tmp_path.iterdir()] == ["out-methods-1.svg"]


def test_a_picture_of_the_screen_is_not_written_over_another(tmp_path: Path) -> None:
    assert export_text(SCREEN, str(tmp_path / "a"), "<svg/>") == [tmp_path / "a.svg"]
    with pytest.raises(UsageError):
        export_text(SCREEN, str(tmp_path / "a.svg"), "<svg>other</svg>")
    assert (tmp_path / "a.svg").read_text() == "<svg/>"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (" ", "a file needs a name"),
        ("/", "a file needs a name"),
        ("no/..", "a file needs a name"),
        ("x" * 400, "cannot be: File name too long"),
        ("report.txt", "must end in .md"),
        ("no/such/folder/report", "no folder no/such/folder"),
        ("report.MD", ""),
    ],
)
def test_a_name_that_cannot_be_is_refused_while_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, problem: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert problem in name_problem(BY_KEY["m"], text)
    assert bool(name_problem(BY_KEY["m"], text)) == bool(problem)


def test_a_tilde_is_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert target(BY_KEY["m"], "~/x") == tmp_path / "x.md"
    assert target(BY_KEY["m"], "~nobody-here") == Path("~nobody-here.md")


def test_no_runs_are_told_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no runs to export"):
        export(BY_KEY["h"], str(tmp_path / "out"), Shared([], [], "no runs", STRICT))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("thresholds", "baseline", "walked_back"),
    [
        (DiagnosticThresholds(), None, 9),
        (STRICT, None, 11),
        (
            DiagnosticThresholds(g_norm_floor=0.0, frozen_acc_margin_pp=-12.5),
            FrozenBaseline(0.349, {"bp": 0.6}),
            None,
        ),
        (
            DiagnosticThresholds(
                h_norm_explosion_ratio=1 / 3, stability_drift_ceiling=float("inf")
            ),
            None,
            None,
        ),
    ],
)
def test_the_copied_command_line_shows_the_same_verdicts(
    published_table: Path,
    rows: list[AuditRow],
    capsys: pytest.CaptureFixture[str],
    thresholds: DiagnosticThresholds,
    baseline: FrozenBaseline | None,
    walked_back: int | None,
) -> None:
    command = shlex.split(command_line([published_table], thresholds, baseline))
    assert main([*command[1:], "--format", "json"]) == 0
    shown = [record["verdict"] for record in json.loads(capsys.readouterr().out)]
    assumed = with_assumed_baseline(rows, baseline) if baseline else rows
    assert shown == [row.report.with_thresholds(thresholds).verdict for row in assumed]
    if walked_back is not None:
        assert sum(verdict.startswith("needs") for verdict in shown) == walked_back


def test_a_command_line_is_quoted_for_a_shell() -> None:
    command = command_line(
        [Path("my runs"), Path("-x.json")],
        DiagnosticThresholds(),
        FrozenBaseline(None, {"ep": 0.3}),
    )
    assert command == "fa-tui show 'my runs' ./-x.json --frozen-baseline ep=0.3"
    assert baseline_text(FrozenBaseline()) == ""
