"""The copied command line opens the explorer as it was."""

from __future__ import annotations

import random
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest
from textual.pilot import Pilot

from fa_core.audit.devices import Execution
from fa_core.audit.jobs import MeasureOptions
from fa_core.formats import scan
from fa_core.formats.audit_table_writer import write_audit_table
from fa_core.formats.rows import AuditRow
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.quantities import QUANTITIES
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui import opening
from fa_tui import settings as config
from fa_tui.app import ExplorerApp
from fa_tui.cli import main
from fa_tui.jobs.measuring import Setup
from fa_tui.session import Session
from fa_tui.settings import Loaded, Settings
from fa_tui.views.filters import Filter, ViewState, picking
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.looks import opened, screen_text
from tests.fa_tui.waiting import until

SIZE = (120, 40)
OWN = Settings(
    show="acc", thresholds=DiagnosticThresholds(g_norm_floor=1e-9, h_norm_explosion_ratio=12.0)
)
AXES = ("method", "seed", "source", "lam", "d")
FILTERS = (
    "",
    "-seed:42",
    "method:dfa,ep flag:a",
    "growth>10 -is:trustworthy",
    "lam:0.1 acc>=0.3",
    "is:marked",
)
ORDERS = ("", "growth", "-g_L", "lam", "-words", "seed")


@pytest.fixture
def table(tmp_path: Path, published_table: Path) -> Path:
    """The published runs, each with a λ and a d; its name needs quotes in a shell."""
    path = tmp_path / "my runs.json"
    rows = scan([published_table]).rows
    axes = [
        {"lam": 10.0 ** -(number % 3), "d": 64 * (1 + number % 2)} for number in range(len(rows))
    ]
    write_audit_table(
        path, [msgspec.structs.replace(row, axes=own) for row, own in zip(rows, axes, strict=True)]
    )
    return path


def reopened(words: list[str], monkeypatch: pytest.MonkeyPatch, settings: Settings) -> ExplorerApp:
    """The explorer that a command line starts on a terminal."""
    started: list[ExplorerApp] = []
    monkeypatch.setattr(opening, "on_a_terminal", lambda: True)
    monkeypatch.setattr(config, "load_settings", lambda: Loaded(settings))
    monkeypatch.setattr(ExplorerApp, "run", lambda self: started.append(self) or 0)
    assert main(words) == 0
    return started[0]


async def ready(pilot: Pilot[Any], app: ExplorerApp) -> None:
    await until(pilot, lambda: app.explorer.takes_keys and not is_due(app))
    await pilot.pause()


async def begin(app: ExplorerApp, pilot: Pilot[Any], chance: random.Random) -> None:
    """Bring the explorer into some state, by what its keys do."""
    explorer, session = app.explorer, app.session
    session.marked |= set(chance.sample(range(len(session)), 4))
    session.set_thresholds(
        DiagnosticThresholds(
            g_norm_floor=chance.choice([1e-7, 0.0, 3.3e-9]),
            h_norm_explosion_ratio=chance.choice([50.0, 12.0, 1e9, 0.1 + 0.2]),
            frozen_acc_margin_pp=chance.choice([2.0, -1.5]),
        )
    )
    session.set_baseline(
        chance.choice([None, FrozenBaseline(0.349), FrozenBaseline(None, {"ep": 0.31, "bp": 0.2})])
    )
    explorer.catch_up()
    explorer.matrix.show(chance.choice([None, *QUANTITIES]))
    for place in chance.sample(["lines", "columns"], 2):
        explorer.lay_out_along(explorer.matrix.axes.having(place, chance.choice(AXES)))
    chosen = Filter(chance.choice(FILTERS), AXES)
    session = session.but(filter=chosen)
    explorer.rows_changed()
    if chance.random() < 0.5:
        await explorer.action_toggle_table()
        assert explorer.table is not None
        explorer.table.sort_by(chance.choice(ORDERS))
    await pilot.pause()


def state(app: ExplorerApp) -> dict[str, Any]:
    """What can be seen of the runs."""
    shown = app.explorer.shown_runs
    baseline = app.session.baseline
    return {
        "look": shown.look._replace(filter=""),
        "runs": app.session.scope,
        "lines": list(shown.table._shown) if shown.in_table else dict(shown.matrix._grid.places),
        "thresholds": app.session.thresholds,
        "flags": list(app.session.flags),
        "baseline": None if baseline == FrozenBaseline() else baseline,
    }


@pytest.mark.parametrize("number", range(8))
@pytest.mark.parametrize("settings", [Settings(), OWN], ids=["no settings", "own settings"])
async def test_the_copied_line_opens_the_same_view(
    table: Path, monkeypatch: pytest.MonkeyPatch, number: int, settings: Settings
) -> None:
    chance = random.Random(number)
    app = ExplorerApp(
        Session(scan([table]).rows),
        paths=[table],
        settings=Loaded(settings),
        terminal=COLOURFUL,
        title="runs",
    )
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        await begin(app, pilot, chance)
        before = state(app)
        line = next(piece for piece in app.explorer.shared().pieces if piece.key == "o").text()
    words = shlex.split(line)
    assert words[:3] == ["fa-tui", "open", str(table)]
    again = reopened(words[1:], monkeypatch, settings)
    async with again.run_test(size=SIZE) as pilot:
        await ready(pilot, again)
        assert state(again) == before


async def test_the_long_view_opens_sorted_and_filtered_with_the_focus_on_it(
    published_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [str(published_table), "--filter", "flag:a", "--sort", "-growth"]
    app = reopened(words, monkeypatch, Settings())
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        text = screen_text(app)
        assert "filter flag:a, 9 of 15 runs" in text and "by growth ↓" in text
        assert app.focused is app.explorer.page.view is app.explorer.table
        growths = [
            app.session.rows[row].report.max_per_block_growth or 0.0
            for row in app.explorer.page.view._shown
        ]
        assert growths == sorted(growths, reverse=True)
        await pilot.press("t")
        await pilot.pause()
        assert app.explorer.page.view is app.explorer.matrix
        assert app.focused is app.explorer.matrix


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--show", "growht"], "--show growht is not known; there are letters, growth, g_L,"),
        (["--rows", "lamda"], "--rows lamda is not known; there are method, seed, source"),
        (["--across", "depth"], "--across depth is not known; there are method, seed, source"),
        (
            ["--rows", "seed", "--across", "seed"],
            "--rows and --across are both seed; name two axes",
        ),
        (["--filter", "flog:a"], "--filter: flog is not known; did you mean flag?"),
        (
            ["--sort", "-growht"],
            "--sort growht is not known; there are method, seed, verdict, growth,",
        ),
    ],
)
def test_a_look_that_cannot_be_is_one_line(
    published_table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    says: str,
    terminal: bool,
) -> None:
    monkeypatch.setattr(opening, "on_a_terminal", lambda: terminal)
    assert main([str(published_table), *options]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"fa-tui: {says}")
    assert err.count("\n") == 1


def test_without_a_terminal_it_prints_what_show_prints_of_the_same_runs_in_the_same_order(
    published_table: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    look = ViewState(filter="flag:a -method:bridge", sort="-growth")
    printed = []
    for command in ("open", "show"):
        assert main([command, str(published_table), *look.options()]) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1]
    assert [line.split()[:2] for line in printed[0].splitlines()[2:5]] == [
        ["dfa", "456"],
        ["dfa", "42"],
        ["dfa", "123"],
    ]


def test_the_value_of_an_option_is_no_misspelt_command(published_table: Path) -> None:
    assert main(["open", "--filter", "seeds", str(published_table)]) == 0


async def test_marked_runs_that_no_filter_can_name_are_said_to_be_left_out(tmp_path: Path) -> None:
    report = DiagnosticReport(headline_acc=0.5)
    rows = [
        AuditRow(source=str(tmp_path), key=f"my dfa_s{n}", method="dfa", seed=n, report=report)
        for n in range(3)
    ]
    app = ExplorerApp(Session(rows), terminal=COLOURFUL, title="runs")
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        session, explorer = app.session, app.explorer
        session = session.but(marked=frozenset({1}))
        chosen = Filter("is:marked")
        session = session.but(filter=chosen)
        explorer.rows_changed()
        assert [piece.note for piece in explorer.shared().pieces if piece.key in "lo"] == [
            "of all runs: no filter names the marked ones"
        ] * 2


SETUPS = [
    (Setup(), []),
    (Setup(Execution(), MeasureOptions()), []),
    (
        Setup(
            Execution(device="cpu", jobs=2),
            MeasureOptions(data="npz:my data.npz", model="nets:small", taps=["embed", "blocks.*"]),
        ),
        [
            "--device cpu",
            "--jobs 2",
            "--data 'npz:my data.npz'",
            "--model nets:small",
            "--taps 'embed,blocks.*'",
        ],
    ),
    (
        Setup(Execution(engine="ray", address="auto", patience=40.5)),
        ["--engine ray", "--address auto"],
    ),
]


@pytest.mark.parametrize(("setup", "options"), SETUPS)
async def test_the_copied_line_measures_as_the_explorer_was_told_to(
    published_table: Path, monkeypatch: pytest.MonkeyPatch, setup: Setup, options: list[str]
) -> None:
    rows = scan([published_table]).rows
    app = ExplorerApp(
        Session(rows), paths=[published_table], terminal=COLOURFUL, title="runs", setup=setup
    )
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        line = next(piece for piece in app.explorer.shared().pieces if piece.key == "o").text()
    assert all(option in line for option in options)
    again = reopened(shlex.split(line)[1:], monkeypatch, Settings())
    assert again.setup.as_options() == setup.as_options()
    assert (again.setup.execution or Execution()) == (setup.execution or Execution())
    assert (again.setup.options or MeasureOptions()) == (setup.options or MeasureOptions())
    if not options:
        assert line == f"fa-tui open {published_table}"


@pytest.mark.parametrize(
    ("keys", "runs"),
    [
        (("C",), ["dfa_s123", "dfa_s42", "dfa_s456"]),
        (
            ("A",),
            [
                "credit_bridge_s123",
                "credit_bridge_s42",
                "credit_bridge_s456",
                "dfa_s123",
                "dfa_s42",
                "dfa_s456",
            ],
        ),
        (("A", "f"), None),
    ],
)
async def test_other_screens_give_a_line_that_opens_the_explorer_on_their_runs(
    published_table: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: tuple[str, ...],
    runs: list[str] | None,
) -> None:
    app = ExplorerApp(
        Session(scan([published_table]).rows),
        paths=[published_table],
        terminal=COLOURFUL,
        title="runs",
    )
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        await pilot.press("v", "slash", *"method:dfa,credit_bridge", "enter")
        await until(pilot, lambda: " of 15 runs" in screen_text(app))
        screen = await opened(pilot, *keys)
        line = next(piece for piece in screen.shared().pieces if piece.key == "o").text()  # type: ignore[attr-defined]
    again = reopened(shlex.split(line)[1:], monkeypatch, Settings())
    async with again.run_test(size=SIZE) as pilot:
        await ready(pilot, again)
        shown = again.session.scope
        assert (shown and sorted(again.session.rows[row].key for row in shown)) == runs
        assert "showing growth" in screen_text(again)


async def test_the_timeline_gives_the_line_of_the_matrix(
    sample_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = scan([sample_runs / "floor"])
    session = Session(found.rows, traces=found.traces)
    app = ExplorerApp(session, paths=[sample_runs / "floor"], terminal=COLOURFUL, title="runs")
    async with app.run_test(size=SIZE) as pilot:
        await ready(pilot, app)
        line = next(piece for piece in app.explorer.shared().pieces if piece.key == "o").text()
        screen = await opened(pilot, "T")
        pieces = screen.shared().pieces  # type: ignore[attr-defined]
    assert [piece.text() for piece in pieces if piece.key == "o"] == [line]


def test_runs_of_one_name_in_several_files_are_picked_each_by_itself() -> None:
    rows = [
        AuditRow(source=source, key=f"dfa_s{seed}", method="dfa", seed=seed)
        for source in ("a.json", "b.json")
        for seed in (1, 2)
    ]
    session = Session(rows)
    for wanted in ([0], [0, 3], [1, 2], [0, 1, 2], [0, 2]):
        assert Filter(picking(rows, wanted)).rows(session) == wanted
