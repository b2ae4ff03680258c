"""Messages of the status line go away by themselves, and the legend comes back."""

from fa_tui.jobs.listing import Listed
from fa_tui.widgets import line
from tests.fa_tui.looks import running
from tests.fa_tui.waiting import until


async def test_a_message_goes_away_by_itself(app, monkeypatch):
    monkeypatch.setattr(line, "MESSAGE_SECONDS", 0.05)
    async with running(app, (80, 24)) as pilot:
        status = app.explorer.status
        legend = status.text
        app.say("something was done", "bad")
        assert status.text == " something was done"
        await until(pilot, lambda: status.text == legend)


async def test_failed_jobs_do_not_hide_the_legend(app):
    async with running(app, (80, 24)):
        status = app.explorer.status
        legend = status.text
        app.explorer.jobs_changed([Listed(id="1", name="dfa s42", state="failed")])
        assert status.text.startswith(" 1 failed (J)") and status.text.endswith(legend)
