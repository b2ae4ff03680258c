"""D: two of the open files or folders, run by run."""

import pytest

from fa_core.formats import scan
from fa_tui.cli import main
from fa_tui.screens import dialogs
from fa_tui.session import Session
from tests.fa_tui.looks import on_page, on_screen, running, set_a_to, shows
from tests.fa_tui.printing import printed
from tests.json_files import json_of, put_json

from .looks import app_on, screen_text
from .waiting import until


@pytest.fixture
def changed(published_table, tmp_path):
    """The published table with one run tamed."""
    document = json_of(published_table)
    run = document["reports"]["dfa_s42"]
    run["residual_norms"] = [1.0] * len(run["residual_norms"])
    path = tmp_path / "tamed.json"
    return put_json(path, document)


def explorer(*paths):
    return app_on(Session(scan(list(paths)).rows))


async def test_only_what_changed_is_listed_and_enter_goes_there(published_table, changed):
    app = explorer(published_table, changed)
    async with running(app) as pilot:
        await pilot.press("D")
        await on_page(pilot, "Diff")
        await shows(pilot, "14 the same")
        text = screen_text(app)
        assert "15 runs in both: 1 changed, 14 the same" in text
        assert "✗ab-d  ✗-b-d  (a) growth 2043 → 1" in text
        assert "bp s42" not in text
        await pilot.press("enter")
        await on_page(pilot, "Matrix")
        row = app.explorer.row
        assert (app.session.rows[row].method, app.session.rows[row].seed) == ("dfa", 42)


async def test_a_slider_moves_both_sides_and_tab_swaps_them(published_table, changed):
    app = explorer(published_table, changed)
    async with running(app) as pilot:
        await pilot.press("D")
        await on_page(pilot, "Diff")
        await pilot.press("tab")
        await shows(pilot, "✗-b-d  ✗ab-d  (a) growth 1 → 2043")
        await set_a_to(pilot, "9000")
        await shows(pilot, "✗-b-d  ✗-b-d  (a) growth 1 → 2043")


async def test_a_second_file_is_opened_beside_the_first_and_compared(
    published_table, changed, copied
):
    app = explorer(published_table)
    async with running(app) as pilot:
        await app.following.look()
        await pilot.press("D")
        await shows(pilot, "O opens a second one beside it")
        await pilot.press("O")
        await on_screen(pilot, dialogs.EntryScreen)
        app.screen.entry.value = str(changed)
        await pilot.press("enter")
        await shows(pilot, "15 runs in both: 1 changed")
        await pilot.press("tab", "Y")
        await until(pilot, lambda: copied == [f"fa-tui diff {changed} {published_table}"])
        app.pop_screen()
        await pilot.press("y")
        await until(pilot, lambda: len(copied) == 2)
        assert copied[1].startswith("dfa s42\t✗-b-d\t✗ab-d\t(a) growth 1 → 2043")


async def test_two_records_of_one_measurement_are_compared_and_show_says_which_it_shows(
    tmp_path, capsys
):
    facts = {"checkpoint": "/runs/dfa_s1", "hashes": {"weights": "1"}}
    for name, high in (("a.json", -1.0), ("b.json", 3.0)):
        ends = {"margin_pp": [-5.0, high]}
        run = {"headline_acc": 0.31, "frozen_baseline_acc": 0.349, "intervals": ends}
        document = {"reports": {"dfa_s1": {**run, "provenance": facts}}}
        put_json(tmp_path / name, document)
    app = app_on(Session(scan([tmp_path]).rows))
    app.paths[:] = [tmp_path / "a.json", tmp_path / "b.json"]
    async with running(app) as pilot:
        await pilot.press("D")
        await shows(pilot, "interval of (d) -5.00 to -1.00 → -5.00 to +3.00")
    assert main(["show", str(tmp_path)]) == 0
    said = (
        f"b.json: dfa_s1 is not alike in {tmp_path / 'a.json'}, which is not shown; `fa-tui diff`"
    )
    assert said in capsys.readouterr().err
    # a third record does not hide it
    (tmp_path / "c.json").write_bytes((tmp_path / "b.json").read_bytes())
    assert "two records of it are not alike" in printed(
        capsys, "check", tmp_path, "--format", "json", code=4
    )
    assert main(["report", str(tmp_path), "--out", str(tmp_path / "r.md")]) == 0
    assert (
        "| not measured: two records of it are not alike; before: "
        in (tmp_path / "r.md").read_text()
    )
    for command in ("seeds", "sweep", "utility"):
        assert "runs (two records of it are not alike) are left out: dfa_s1" in printed(
            capsys, command, tmp_path
        )


@pytest.mark.parametrize(
    ("key", "other"),
    [
        ("dfa_lam0.5_s1", {}),
        ("dfa_s1", {"bp_grad_norms": [2.0, 1.0]}),
        ("dfa_s1", {"credit": {"gamma": [0.9, 0.1]}}),
        ("dfa_s1", {"provenance": {"recipe": {"lr": 0.5}}}),
    ],
)
def test_records_of_one_measurement_that_state_something_else_are_not_alike(
    tmp_path, capsys, key, other
):
    facts = {"checkpoint": "/runs/dfa_s1", "hashes": {"weights": "1"}, "recipe": {"lr": 0.1}}
    credit = {"gamma": [0.1, 0.1]}
    own = {"headline_acc": 0.3, "bp_grad_norms": [1.0, 1.0], "credit": credit, "provenance": facts}
    changed = own | other | {"provenance": facts | other.get("provenance", {})}
    put_json(tmp_path / "a.json", {"reports": {"dfa_s1": own}})
    put_json(tmp_path / "b.json", {"reports": {key: changed}})
    assert "two records of it are not alike" in printed(capsys, "check", tmp_path, code=4)
    strict = own | {"thresholds": {"h_norm_explosion_ratio": 0.5}}
    put_json(tmp_path / "b.json", {"reports": {"dfa_s1": strict}})
    assert "not alike" not in printed(capsys, "check", tmp_path)


async def test_the_two_are_chosen_from_a_list_and_exported(published_table, changed, tmp_path):
    app = explorer(published_table, changed)
    async with running(app) as pilot:
        await pilot.press("D")
        await shows(pilot, f"A {published_table.name} ✗ 9 of 15")
        for key in "v21":
            before = app.screen
            await pilot.press(key)
            await until(pilot, lambda before=before: app.screen is not before)
        await shows(pilot, f"A {changed.name} ✗ 9 of 15")
        for name in ("d.csv", "d.md"):
            await pilot.press("e")
            await on_screen(pilot, dialogs.EntryScreen)
            assert ".csv .json .md: this table" in app.screen.note.text
            app.screen.entry.value = str(tmp_path / name)
            await pilot.press("enter")
            await until(pilot, lambda name=name: "what changed" in read(tmp_path / name))
    (line,) = read(tmp_path / "d.csv").splitlines()[1:]
    assert line.startswith('dfa s42,✗-b-d,✗ab-d,"(a) growth 1 → 2043, ')


def read(path):
    return path.read_text() if path.exists() else ""
