"""Commands started from the explorer: real small training runs and audits, in processes of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from fa_core.formats import scan
from fa_core.runs import MANIFEST, read_manifest
from fa_tui.app import ExplorerApp
from fa_tui.jobs import form
from fa_tui.jobs.form import Fault, Field, Planned, command_words, shell_line
from fa_tui.jobs.launches import Launches
from fa_tui.jobs.listing import Listed
from fa_tui.options import command, sample_runs
from fa_tui.screens.jobs import JobsScreen
from fa_tui.screens.questions import QuitScreen
from fa_tui.screens.start import FieldRow, StartScreen, first_values
from fa_tui.session import Session
from fa_tui.widgets.line import Pick
from tests.fa_tui.conftest import COLOURFUL
from tests.fa_tui.looks import screen_text
from tests.fa_tui.waiting import until

TINY = {
    "method": "dfa",
    "data": "synthetic:input=6,train=320,test=300",
    "d": "8",
    "L": "2",
    "batch_size": "32",
    "epochs": "2",
    "threads": "1",
    "device": "cpu",
}
ENDLESS = {**TINY, "epochs": "100000", "schedule": "constant"}


def fields_of(name: str) -> list[Field]:
    return form.fields_of(command(name))


def plan(words: list[str]) -> Planned | Fault:
    return form.plan(command(words[0]), words)


def planned(out: Path, values: dict[str, str], name: str = "train") -> Planned:
    found = plan(command_words(name, fields_of(name), {**values, "out": str(out)}))
    assert isinstance(found, Planned), found
    return found


@pytest.fixture
def explorer(tmp_path: Path) -> Iterator[ExplorerApp]:
    runs = tmp_path / "runs"
    runs.mkdir()
    app = ExplorerApp(Session([]), title="runs", paths=[runs], terminal=COLOURFUL)
    yield app
    # also where a test failed: nothing it started goes on without end
    app.stops_commands = True
    app.close_jobs()


class TestForm:
    def test_it_has_every_option_of_the_command_with_its_default(self) -> None:
        fields = {field.name: field for field in fields_of("train")}
        assert [field.name for field in fields_of("train")][:2] == ["method", "out"]
        assert (fields["epochs"].default, fields["seeds"].default, fields["lr"].default) == ("30", "42", "0.001")
        assert fields["resume"].values == ("no", "yes")
        assert fields["terminal_ln"].values == ("", "yes", "no")
        assert {field.name: field for field in fields_of("audit")}["credit"].values == ("none", "gamma", "full")

    def test_the_command_line_holds_what_is_not_the_default(self) -> None:
        values = {"method": "dfa,bp", "out": "my runs", "epochs": "30", "seeds": "1,2", "resume": "yes"}
        words = command_words("train", fields_of("train"), {**values, "terminal_ln": "no"})
        assert shell_line(words) == (
            "fa-tui train --method dfa,bp --out 'my runs' --seeds 1,2 --no-terminal-ln --resume"
        )

    def test_paths_stand_before_the_options(self) -> None:
        words = command_words("audit", fields_of("audit"), {"paths": "'my runs' -x", "out": "a.json", "credit": "full"})
        assert words == ["audit", "my runs", "./-x", "--out", "a.json", "--credit", "full"]

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ({"method": ""}, "Missing option '--method'."),
            ({"epochs": "two"}, "Invalid value for '--epochs': 'two' is not a valid int"),
            ({"seeds": "1,x"}, "--seeds '1,x' cannot be read"),
            ({"lr": "0"}, "lr is 0.0"),
            ({"method": "dfa,dfq"}, "unknown method 'dfq'; did you mean dfa?"),
            ({"arch": "resmpl"}, "unknown network 'resmpl'"),
            ({"data": "npz:none.npz"}, "there is no 'none.npz'"),
            ({"data": "cifar:/data"}, "unknown data set 'cifar'"),
            ({"optimizer": "adamm"}, "unknown optimizer 'adamm'"),
            ({"stop_on": "e"}, "--stop-on 'e' is not a list of diagnostics"),
            ({"weight_decay": "-1"}, "weight_decay is -1.0"),
            ({"schedule": "cosin"}, "cosine"),
            ({"device": "cuda:77"}, "'cuda:77' is not there"),
            ({"g_norm_floor": "nan"}, "g_norm_floor"),
        ],
    )
    def test_what_is_wrong_is_said_in_the_words_of_the_command(self, values: dict[str, str], says: str) -> None:
        found = plan(command_words("train", fields_of("train"), {**TINY, "out": "runs", **values}))
        assert isinstance(found, Fault)
        assert says in found.text
        assert found.field == next(iter(values))

    @pytest.mark.parametrize(
        ("values", "says"),
        [
            ({"address": "auto"}, "--address is of a Ray cluster; add --engine ray"),
            ({"patience": "5"}, "--patience is of a Ray cluster"),
            ({"device": "cuda:77"}, "'cuda:77' is not there"),
            ({"jobs": "0"}, "--jobs 0"),
        ],
    )
    def test_a_place_that_cannot_be_meant_is_told_while_it_is_typed(self, values: dict[str, str], says: str) -> None:
        found = plan(command_words("audit", fields_of("audit"), {"paths": ".", "out": "a.json", **values}))
        assert isinstance(found, Fault)
        assert says in found.text
        assert found.field == next(iter(values))

    def test_a_cluster_is_not_measured_by_the_devices_of_this_machine(self) -> None:
        pytest.importorskip("ray")
        values = {"paths": ".", "out": "a.json", "engine": "ray", "device": "cuda", "address": "head:6379"}
        found = plan(command_words("audit", fields_of("audit"), values))
        assert isinstance(found, Planned)
        assert found.device == "ray"

    def test_a_run_that_is_there_already_is_not_trained_over(self, tmp_path: Path) -> None:
        (tmp_path / "dfa_s42").mkdir()
        (tmp_path / "dfa_s42" / MANIFEST).write_text("{}")
        words = command_words("train", fields_of("train"), {**TINY, "out": str(tmp_path)})
        assert plan(words) == Fault(f"{tmp_path / 'dfa_s42'}: there is a run already; add --resume or --overwrite")
        assert isinstance(plan([*words, "--resume"]), Planned)

    def test_training_starts_with_the_folder_that_is_open(self, tmp_path: Path) -> None:
        assert first_values("train", [tmp_path], []) == {"out": str(tmp_path)}

    def test_the_shipped_samples_are_no_place_to_train_into(self) -> None:
        assert first_values("train", [sample_runs()], []) == {"out": "runs"}

    def test_a_table_of_what_is_open_is_put_where_nothing_is_open(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs = tmp_path / "runs"
        (runs / "deep").mkdir(parents=True)
        monkeypatch.chdir(tmp_path)
        assert first_values("audit", [runs], []) == {"paths": str(runs), "out": "audit-table.json"}
        (tmp_path / "audit-table.json").touch()
        assert first_values("audit", [runs], [])["out"] == "audit-table-2.json"
        monkeypatch.chdir(runs / "deep")
        assert first_values("audit", [runs], [])["out"] == str(tmp_path / "audit-table-2.json")

    async def test_the_line_follows_the_typing_and_faults_are_told(self, explorer: ExplorerApp) -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            await pilot.press("N", "t")
            await until(pilot, lambda: isinstance(explorer.screen, StartScreen))
            await until(pilot, lambda: "Missing option '--method'." in screen_text(explorer))
            assert screen_text(explorer).count("Missing option") == 1
            assert "cannot start yet: see method" in screen_text(explorer)
            await pilot.press(*"dfa")
            await until(pilot, lambda: "fa-tui train --method dfa --out" in screen_text(explorer))
            await until(pilot, lambda: "1 run into" in screen_text(explorer))
            await pilot.press("ctrl+y")
            await until(pilot, lambda: "command line " in screen_text(explorer))
            await pilot.press("f1")
            await until(pilot, lambda: "start the command" in screen_text(explorer))
            await pilot.press("escape", "escape")
            await until(pilot, lambda: explorer.screen is explorer.explorer)
            assert not explorer.jobs.listed()

    async def test_what_is_wrong_stands_below_its_field_and_starting_goes_there(self, explorer: ExplorerApp) -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            await pilot.press("N", "t")
            await until(pilot, lambda: isinstance(explorer.screen, StartScreen))
            rows = {row.field.name: row for row in explorer.screen.query(FieldRow)}
            rows["method"].entry.value = "dfa"
            rows["epochs"].entry.value = "many"
            await until(pilot, lambda: rows["epochs"].has_class("-wrong"))
            assert not rows["method"].has_class("-wrong")

            def below() -> str:
                lines = screen_text(explorer).splitlines()
                return lines[next(place for place, line in enumerate(lines) if line.startswith(" epochs")) + 1]

            await until(pilot, lambda: "'many' is not a" in below())
            await pilot.press("ctrl+s")
            await until(pilot, lambda: explorer.focused is rows["epochs"].entry)
            assert isinstance(explorer.screen, StartScreen), "nothing was started"

    async def test_typing_replaces_what_stands_in_a_field(self, explorer: ExplorerApp) -> None:
        async with explorer.run_test(size=(120, 40)) as pilot:
            await pilot.press("N", "t")
            await until(pilot, lambda: isinstance(explorer.screen, StartScreen))
            rows = {row.field.name: row for row in explorer.screen.query(FieldRow)}
            entry = rows["epochs"].entry
            assert isinstance(entry, Input) and entry.value
            explorer.screen.set_focus(entry)
            await until(pilot, lambda: entry.selected_text == entry.value)
            await pilot.press("7")
            await until(pilot, lambda: entry.value == "7")

    async def test_a_click_picks_the_value_that_was_clicked(self, explorer: ExplorerApp) -> None:
        async with explorer.run_test(size=(120, 40)) as pilot:
            await pilot.press("N", "a")
            await until(pilot, lambda: isinstance(explorer.screen, StartScreen))
            rows = {row.field.name: row for row in explorer.screen.query(FieldRow)}
            credit = rows["credit"].entry
            assert isinstance(credit, Pick) and credit.value == "gamma"
            await until(pilot, lambda: credit.region.width > 0)
            await pilot.click(credit, offset=(16, 0))
            assert credit.value == "full"
            await pilot.click(credit, offset=(2, 0))
            assert credit.value == "none"


class TestRuns:
    async def test_a_training_run_is_a_job_and_appears_in_the_matrix(
        self, explorer: ExplorerApp, tmp_path: Path
    ) -> None:
        async with explorer.run_test(size=(120, 40)) as pilot:
            await pilot.press("N", "t")
            await until(pilot, lambda: isinstance(explorer.screen, StartScreen))
            for row in explorer.screen.query(FieldRow):
                if isinstance(row.entry, Input) and row.field.name in TINY:
                    row.entry.value = TINY[row.field.name]
            await until(pilot, lambda: "1 run into" in screen_text(explorer))
            await pilot.press("ctrl+s")
            await until(pilot, lambda: not isinstance(explorer.screen, StartScreen))
            await pilot.press("J")
            await until(pilot, lambda: isinstance(explorer.screen, JobsScreen))
            await until(pilot, lambda: "train dfa_s42" in screen_text(explorer))
            await until(pilot, lambda: not any(explorer.jobs.unfinished()))
            (job,) = explorer.jobs.listed()
            assert (job.state, job.done, job.total, job.unit) == ("done", 2, 2, "epoch")
            await until(pilot, lambda: explorer.session.measured() == 1)
        explorer.close_jobs()
        assert read_manifest(tmp_path / "runs" / "dfa_s42").epochs_done == 2

    async def test_a_table_of_open_runs_is_written_but_does_not_show_them_twice(
        self, explorer: ExplorerApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        runs, table, other = tmp_path / "runs", tmp_path / "table.json", tmp_path / "other"
        other.mkdir()
        started: list[Planned] = []
        monkeypatch.setattr(Launches, "start", lambda self, planned: started.append(planned))
        async with explorer.run_test(size=(80, 24)):
            explorer.jobs.start(planned(table, {"paths": str(runs)}, "audit"))
            assert explorer.paths == [runs]
            explorer.jobs.start(planned(table, {"paths": str(other)}, "audit"))
            assert explorer.paths == [runs, table], "nothing of it is open: this is how it is seen"
        assert [each.reads for each in started] == [[runs], [other]]
        explorer.close_jobs()

    async def test_a_cancelled_run_leaves_a_whole_folder_and_goes_on_when_tried_again(
        self, explorer: ExplorerApp, tmp_path: Path
    ) -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            explorer.jobs.start(planned(tmp_path / "runs", ENDLESS))
            await pilot.press("J")
            await until(pilot, lambda: explorer.jobs.listed()[0].done >= 2)
            await until(pilot, lambda: explorer.jobs.listed()[0].left is not None)
            await until(pilot, lambda: "accuracy 0." in explorer.jobs.listed()[0].words)
            await pilot.press("x")
            await until(pilot, lambda: explorer.jobs.listed()[0].state == "cancelled")
            run = tmp_path / "runs" / "dfa_s42"
            done = read_manifest(run).epochs_done
            assert done >= 2
            assert len(scan([run]).traces[0].epochs) == done
            await pilot.press("r")
            await until(pilot, lambda: explorer.jobs.listed()[0].done > done)
            await pilot.press("x")
            await until(pilot, lambda: not any(explorer.jobs.unfinished()))
        explorer.close_jobs()

    async def test_a_command_that_fails_says_why(self, explorer: ExplorerApp, tmp_path: Path) -> None:
        async with explorer.run_test(size=(120, 40)) as pilot:
            (tmp_path / "none.npz").write_text("not NumPy's")
            explorer.jobs.start(planned(tmp_path / "runs", {**TINY, "data": f"npz:{tmp_path}/none.npz"}))
            await pilot.press("J")
            await until(pilot, lambda: explorer.jobs.listed()[0].state == "failed")
            assert "none.npz" in explorer.jobs.listed()[0].error
            await until(pilot, lambda: "none.npz" in screen_text(explorer))
        explorer.close_jobs()

    async def test_within_an_epoch_it_tells_its_batches_and_the_time_left(
        self, explorer: ExplorerApp, tmp_path: Path
    ) -> None:
        long = {**TINY, "data": "synthetic:input=6,train=20000,test=300", "batch_size": "1", "epochs": "300"}
        async with explorer.run_test(size=(120, 40)) as pilot:
            explorer.jobs.start(planned(tmp_path / "runs", long))
            await until(pilot, lambda: explorer.jobs.listed()[0].left is not None)
            (job,) = explorer.jobs.listed()
            assert (job.done, job.total) == (0, 300)
            assert 0.0 < job.part < 1.0
            assert "dfa_s42: epoch 1, batch " in job.words and "/20000" in job.words
            explorer.jobs.cancel(job.id)
            await until(pilot, lambda: not any(explorer.jobs.unfinished()))
        explorer.close_jobs()

    def test_an_audit_counts_its_runs(self, tmp_path: Path) -> None:
        from fa_tui.cli import main

        tiny = [word for name, value in TINY.items() for word in (f"--{name.replace('_', '-')}", value)]
        assert main(["train", *tiny, "--epochs", "1", "--out", str(tmp_path / "runs")]) == 0
        ended: list[Listed] = []
        launches = Launches(ended.append)
        values = {"paths": str(tmp_path / "runs"), "device": "cpu"}
        job_id = launches.start(planned(tmp_path / "table.json", values, "audit"))
        wait_for(launches, job_id)
        (job,) = launches.listed()
        assert (job.state, job.done, job.total, job.name) == ("done", 1, 1, "audit table.json")
        assert job.took is not None and job.left is None
        assert ended[-1] == job
        assert len(scan([tmp_path / "table.json"]).rows) == 1
        assert launches.close() == []


def wait_for(launches: Launches, job_id: str) -> None:
    launch = launches._launches[job_id]
    launch._popen.wait()
    launch.join()


class TestLeaving:
    async def start(self, explorer: ExplorerApp, pilot: Pilot[Any], out: Path) -> Listed:
        explorer.jobs.start(planned(out, ENDLESS))
        await until(pilot, lambda: explorer.jobs.listed()[0].done >= 1)
        return explorer.jobs.listed()[0]

    async def test_a_run_may_go_on_after_the_explorer_is_left(self, explorer: ExplorerApp, tmp_path: Path) -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            job = await self.start(explorer, pilot, tmp_path / "runs")
            await pilot.press("q")
            await until(pilot, lambda: isinstance(explorer.screen, QuitScreen))
            assert "1 command runs. Leave?" in screen_text(explorer)
            await pilot.press("n")
            await until(pilot, lambda: explorer.screen is explorer.explorer)
            await pilot.press("q", "y")
        (pid,) = explorer.jobs.launches.pids()
        (line,) = explorer.close_jobs()
        assert f"process {pid}" in line and job.log in line and "fa-tui train --method dfa" in line
        os.kill(pid, 0)
        explorer.jobs.launches.cancel(job.id)
        wait_for(explorer.jobs.launches, job.id)
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    async def test_or_be_stopped_with_it(self, explorer: ExplorerApp, tmp_path: Path) -> None:
        async with explorer.run_test(size=(80, 24)) as pilot:
            job = await self.start(explorer, pilot, tmp_path / "runs")
            await pilot.press("q")
            await until(pilot, lambda: isinstance(explorer.screen, QuitScreen))
            await pilot.press("s")
        assert explorer.close_jobs() == []
        wait_for(explorer.jobs.launches, job.id)
        assert read_manifest(tmp_path / "runs" / "dfa_s42").epochs_done >= 1
