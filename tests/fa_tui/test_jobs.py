"""The jobs screen: time left from the rate, what keys end and begin again."""

import pytest
from msgspec.structs import replace

from fa_tui.jobs.listing import Listed, Pace, progress_line
from tests.fa_tui.looks import jobs_end, on_page, opened, running, screen_text, shows
from tests.fa_tui.waiting import until


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("fa_tui.jobs.listing.monotonic", clock)
    return clock


def test_the_time_left_follows_from_the_batches_that_are_done_and_is_not_told_without_a_rate(clock):
    pace = Pace()
    assert pace.seconds_left(10) is None
    pace.note(1)
    clock.now += 4
    pace.note(3)
    assert pace.seconds_left(10) == 14
    clock.now += 1
    assert pace.seconds_left(10) == 13
    clock.now += 100
    assert pace.seconds_left(10) is None, "it takes longer than its rate says"
    pace.note(1)
    clock.now += 60
    pace.note(1)
    assert pace.seconds_left(10) is None, "it began anew, and nothing more is done"


async def show_jobs(pilot, app, jobs):
    """Open the page of the jobs on these."""
    app.jobs.listed = lambda: jobs
    return await opened(pilot, "J")


def _line(*jobs):
    return "".join(text for text, _ in progress_line(jobs))


def test_between_two_jobs_the_status_line_names_the_next_and_keeps_its_counts():
    first, second = (
        Listed(id=name, name=name, state="queued", total=20) for name in ("dfa s1", "dfa s2")
    )
    waiting = [Listed(id=f"{n}", name=f"ep s{n}", state="queued") for n in range(3)]
    assert (
        _line(replace(first, state="running", done=20), second, *waiting)
        == "measuring dfa s1 20/20, 4 queued"
    )
    done = replace(first, state="done", done=20)
    between = _line(done, second, *waiting)
    assert between == "measuring dfa s2 0/20, 3 queued, 1 done"
    assert _line(done, replace(second, state="running"), *waiting) == between


def test_the_last_job_leaves_no_line_behind():
    assert _line(Listed(id="1", name="dfa s1", state="done", done=20, total=20)) == ""


async def test_the_cursor_is_on_the_job_that_is_at_work_when_the_screen_opens(
    measuring_app, tmp_path
):
    app = measuring_app("first", "second", "wait", "last")
    async with running(app) as pilot:
        await pilot.press("asterisk", "m")
        await until(
            pilot,
            lambda: [job.state for job in app.jobs.listed()][:3] == ["done", "done", "running"],
        )
        await pilot.press("J")
        await on_page(pilot, "Jobs")
        assert app.explorer.page.job.name == "wait s42"
        (tmp_path / "go").touch()
        await jobs_end(pilot)


async def test_a_key_that_does_nothing_says_why(measuring_app, tmp_path):
    app = measuring_app("wait", "two")
    async with running(app) as pilot:
        await pilot.press("asterisk", "m", "J")
        await on_page(pilot, "Jobs")
        await shows(pilot, "running")
        await pilot.press("R")
        await shows(pilot, "wait s42 cannot be run again: it is running")
        await pilot.press("down", "x")
        await shows(pilot, "End two s42?")
        await pilot.press("y")
        await shows(pilot, "cancelled")
        await pilot.press("x")
        await shows(pilot, "two s42 cannot be ended: it is cancelled")
        (tmp_path / "go").touch()
        await jobs_end(pilot)


async def test_one_key_ends_all_jobs_and_they_stay_in_their_order(measuring_app):
    app = measuring_app("first", "wait", "two", "three")
    async with running(app) as pilot:
        await pilot.press("asterisk", "m", "J")
        await until(
            pilot, lambda: [job.state for job in app.jobs.listed()][:2] == ["done", "running"]
        )
        await on_page(pilot, "Jobs")
        await shows(pilot, "End all")
        await pilot.press("X", "enter")
        await until(
            pilot, lambda: [job.state for job in app.jobs.listed()] == ["done", *["cancelled"] * 3]
        )
        assert [job.name for job in app.jobs.listed()] == [
            "first s42",
            "wait s42",
            "two s42",
            "three s42",
        ]


async def test_the_log_under_the_cursor_is_copied(measuring_app, copied):
    app = measuring_app("one")
    async with running(app) as pilot:
        await pilot.press("m", "J")
        await on_page(pilot, "Jobs")
        await shows(pilot, "no log")
        await pilot.press("y")
        await until(pilot, lambda: bool(copied))
    # while it is measured there is none yet
    assert copied[0] in ("no log", "no log yet")


async def test_jobs_may_move_while_the_explorer_closes(app):
    async with running(app):
        # closing takes the widgets of a screen away before the screen
        await app.explorer.remove_children()
        app.explorer.jobs_changed([Listed(id="1", name="dfa s42", state="running")])


async def test_what_runs_is_on_top_and_the_cursor_stays_on_its_job(app):
    jobs = [
        Listed(id=name, name=name, state=state)
        for name, state in (("x", "done"), ("y", "running"), ("z", "queued"))
    ]
    async with running(app) as pilot:
        screen = await show_jobs(pilot, app, jobs)
        await until(pilot, lambda: screen.job is not None and screen.job.name == "y")
        assert [row[0] for row in screen.table.text[1:]] == ["y", "z", "x"]
        jobs[1:] = [replace(jobs[1], state="done"), replace(jobs[2], state="running")]
        screen.jobs_changed()
        assert [row[0] for row in screen.table.text[1:]] == ["z", "y", "x"]
        assert screen.job.name == "y"


async def test_a_note_that_its_line_cuts_is_whole_in_the_log_and_so_is_its_process(app):
    note = "out of memory at 128 samples: measured again in batches of 64, which does not change any number"
    job = Listed(id="1", name="dfa s42", state="running", done=3, total=10, pid=4711, words=note)
    async with running(app, (80, 24)) as pilot:
        await show_jobs(pilot, app, [job])
        await until(pilot, lambda: note in " ".join(screen_text(app).split()))
        assert "process 4711" in screen_text(app)


@pytest.mark.parametrize(
    ("width", "shows"), [(80, "T Timeline  A"), (60, "Jobs Diff"), (44, "Jobs")]
)
async def test_the_jobs_are_in_the_tab_bar_however_narrow(app, width, shows):
    async with running(app, (width, 24)):
        assert shows in screen_text(app).splitlines()[0]


async def test_more_runs_get_as_many_workers_as_the_command_line_has(
    measuring_app, tmp_path, monkeypatch
):
    asked = []

    def workers_for(runs, spec="auto", jobs=None):
        asked.append(runs)
        return ["cpu"] * min(runs, 2)

    monkeypatch.setattr("fa_tui.jobs.measuring.workers_for", workers_for)
    monkeypatch.setattr("fa_core.audit.audit.workers_for", workers_for)
    app = measuring_app("wait", "wait2")
    async with running(app) as pilot:
        await pilot.press("m")
        await until(pilot, lambda: len({job.pid for job in app.jobs.listed() if job.pid}) == 1)
        await pilot.press("asterisk", "m")
        await until(pilot, lambda: len({job.pid for job in app.jobs.listed() if job.pid}) == 2)
        (tmp_path / "go").touch()
        await jobs_end(pilot)
    assert asked == [1, 2]
