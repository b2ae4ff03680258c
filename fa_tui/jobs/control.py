"""Measurements of an explorer, and the updates of its screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fa_core.errors import FaError
from fa_tui.jobs.listing import Listed
from fa_tui.jobs.measuring import Measured, Measuring, Setup
from fa_tui.terminal.painting import after
from fa_tui.views.text import short_path
from fa_tui.views.words import queued_words, run_name

if TYPE_CHECKING:
    from fa_core.engine.verify import Verification
    from fa_tui.application import Application

_SHOW_SECONDS = 0.1
"""Minimum seconds between updates of progress, which must not delay keys."""

_ARRIVALS_SECONDS = 0.25
"""Seconds in which measured runs are collected into one update of the screen."""


EMPTY_CELL = "no run in this cell: nothing to measure"
NO_CHECKPOINT = (
    "no checkpoint to measure here: open a run folder or a weights file, e.g. fa-tui runs/"
)


class JobControl:
    """Measures runs for an explorer, and shows the results.

    Args:
        app: the application.
        setup: how to measure.

    Attributes:
        measuring: the measurements.
        again: row → its new measurement, until it replaces the audit.
    """

    def __init__(self, app: Application, setup: Setup) -> None:
        self._app, call = app, app.post_call  # called in a thread of the pool
        self.measuring = Measuring(
            setup,
            device=app.settings.device,
            on_job=partial(call, self.moved),
            on_measured=partial(call, self.arrived),
            on_failed=partial(call, partial(app.say, tone="bad", aloud=False)),
            on_notice=partial(call, partial(app.say, tone="dim", aloud=False)),
            on_saving=app.following.own_rows.add,
        )
        self._moved_due = False
        self.again: dict[int, Verification] = {}
        self._arrived: list[Measured] = []
        self._arrivals_due = False

    def listed(self) -> list[Listed]:
        """All jobs; a measured run has its verdict under the current thresholds."""
        measured = self.measuring.listed()
        for place, job in enumerate(measured):
            if job.state == "done":
                cell = self._app.session.cell(
                    int(job.id), ascii_only=not self._app.terminal.unicode
                )
                measured[place] = replace(job, words=f"{cell}  {job.words}".rstrip())
        return measured

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is final."""
        return self.measuring.cancel(job_id)

    def retry(self, job_id: str) -> None:
        """Retry a failed or cancelled job."""
        if job_id in [job.id for job in self.measuring.listed() if job.can_retry]:
            self.measuring.retry(job_id)

    def pids(self) -> list[int]:
        """Process ids of the workers."""
        return self.measuring.pids()

    def unfinished(self) -> int:
        """Number of unfinished runs."""
        return sum(not job.over for job in self.measuring.listed())

    def measure(self, indices: Sequence[int]) -> None:
        """Queue runs for measurement; shows their names, or why none can be measured."""
        app, session = self._app, self._app.session
        rows = [(index, session.rows[index]) for index in session.measurable(indices)]
        if not rows:
            app.say(NO_CHECKPOINT if indices else EMPTY_CELL, "warn")
            return
        try:
            started = self.measuring.start(rows)
        except FaError as error:
            app.say(str(error), "bad")
            return
        session.marked.clear()
        app.marks_changed()
        if not started:
            app.say("already queued", "dim")
            return
        queued = [int(job) for job in started]
        message = f"{queued_words(session, queued)} to measure"
        if any(session.coverage[row] for row in queued):
            message += " again and compare"
        app.say(message, "dim")

    def close(self) -> None:
        """End the workers; finished runs are on disk already."""
        self.measuring.close()

    def moved(self, job: object) -> None:
        """Schedule an update after a job changed."""
        if not self._moved_due:
            self._moved_due = True
            after(_SHOW_SECONDS, self._app, self._show_jobs)

    def _show_jobs(self) -> None:
        self._moved_due = False
        app, session = self._app, self._app.session
        if app.screen_stack:  # no callback while the app is closing
            before = session.states
            over = {row: state for row, state in before.items() if row in self.again}
            session.states = {**over, **self.measuring.states()}
            app.states_changed(dict(before.items() ^ session.states.items()))
            app.jobs_changed(self.listed())

    def arrived(self, measured: Measured) -> None:
        """Show a measured run: the first at once, later ones together after a moment."""
        self._arrived.append(measured)
        if not self._arrivals_due:
            self._show_arrivals()

    def _show_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, []
        self._arrivals_due = bool(arrived)
        if arrived and self._app.screen_stack:  # without screens the app is closing
            after(_ARRIVALS_SECONDS, self._app, self._show_arrivals)
            self._compared(
                {
                    measured.index: measured.again
                    for measured in arrived
                    if measured.again is not None
                }
            )
            self._measured([measured for measured in arrived if measured.again is None])

    def _measured(self, arrived: Sequence[Measured]) -> None:
        """Show new reports of runs without audit, and their files."""
        app, session = self._app, self._app.session
        if not arrived:
            return
        session.replace_rows({measured.index: measured.row for measured in arrived})
        indices = [measured.index for measured in arrived]
        app.rows_changed(only=indices)
        # from now on the rows on disk equal these
        app.following.own_rows.difference_update(indices)
        name, doubt = session.label(indices[-1]), ""
        if len(arrived) == 1:
            names, doubt = name, session.doubt(indices[-1])
        else:
            names = f"{len(arrived)} more, the last of them {name},"
        problem = next((measured.problem for measured in arrived if measured.problem), "")
        parts = (f"{names} measured", doubt, f"saved in {short_path(arrived[-1].saved)}")
        if problem:
            app.say(f"{names} measured, but not saved: {problem}", "bad")
        else:
            app.say(", ".join(filter(None, parts)), "good", aloud=False)

    def _compared(self, again: Mapping[int, Verification]) -> None:
        """Show how new measurements of audited runs differ from their audits, which are kept."""
        app, session = self._app, self._app.session
        if not again:
            return
        self.again.update(again)
        deviating = [row for row, one in again.items() if not one.comparison.agrees]
        session.states.update((row, "deviates" if row in deviating else "agrees") for row in again)
        app.states_changed(again)
        row = [*again, *deviating][-1]
        name, compared = run_name(session, row), again[row].comparison
        if len(again) > 1:
            text = f"{len(again) - len(deviating)} of {len(again)} runs measured again as recorded"
        elif deviating:
            first = next(each for each in compared.differences if each.decides)
            text = f"{name} deviates from its audit: {first}"
        else:
            text = f"{name} measured again: {compared.headline}"
        app.say(
            f"{text}; M shows the differences",
            "warn" if deviating else "good",
            aloud=bool(deviating),
        )
