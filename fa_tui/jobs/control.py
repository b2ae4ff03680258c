"""Measurements of an explorer, and the updates of its screens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fa_core.errors import FaError
from fa_core.files.opening import real_path
from fa_core.formats.frozen_runs import judges_of
from fa_core.report.numbers import listed
from fa_tui.jobs.listing import Listed
from fa_tui.jobs.measuring import Measured, Measuring, Setup, is_audited
from fa_tui.jobs.writing import Writings
from fa_tui.later import Later
from fa_tui.session import with_rows
from fa_tui.views.grid import homes_of
from fa_tui.views.text import short_paths
from fa_tui.views.words import disambiguate, run_name, runs_words

if TYPE_CHECKING:
    from fa_core.analysis.record_comparison import Comparison
    from fa_core.audit.verify import Verification
    from fa_tui.app import ExplorerApp
    from fa_tui.settings import MeasureAnswer
    from fa_tui.views.glyphs import Glyphs

_SHOW_SECONDS = 0.1
"""Minimum seconds between updates of progress, which must not delay keys."""

_ARRIVALS_SECONDS = 0.25
"""Seconds in which measured runs are collected into one update of the screen."""


def again_words(compared: Comparison, glyphs: Glyphs) -> str:
    """What a new measurement shows beside the recorded audit: ``= as recorded``, else ``≠`` with
    the first value that differs, old → new, and how many more do."""
    deciding = [each for each in compared.differences if each.decides]
    if not deciding:
        return f"{glyphs.unknown if compared.unchecked else glyphs.agrees} {compared.headline}"
    text = f"{glyphs.deviates} {deciding[0].change()}"
    if len(deciding) > 1:
        text += f", {len(deciding) - 1} more"
    return text


def _state(compared: Comparison) -> str:
    if not compared.agrees:
        return "deviates"
    return "unchecked" if compared.unchecked else "agrees"


class JobControl:
    """Measures runs for an explorer, and shows the results.

    Args:
        app: the application.
        setup: how to measure.

    Attributes:
        measuring: the runs that are measured.
        writings: the files that are written.
        again: row → its new measurement next to its audit.
        answers: row → the data and network that were typed for its folder.
        show_later: shows the jobs, together with what else changes in a moment.
    """

    def __init__(self, app: ExplorerApp, setup: Setup | None) -> None:
        self._app, call = app, app.post_call  # called in a thread of the pool
        self.show_later = Later(app, self._show_jobs, _SHOW_SECONDS)
        self.measuring = Measuring(
            (setup or Setup()).preferring(app.settings.device),
            paths=app.paths,
            on_job=partial(call, self.show_later),
            on_measured=partial(call, self.arrived),
            say=partial(call, app.say),
        )
        saved = partial(call, partial(app.say, tone="good"))
        self.writings = Writings(partial(call, self.show_later), saved)
        self.answers: dict[int, MeasureAnswer] = {}
        self.again: dict[int, Verification] = {}
        self._arrived: list[Measured] = []
        self._arrivals_later = Later(app, self._show_arrivals, _ARRIVALS_SECONDS)

    def listed(self) -> list[Listed]:
        """All jobs; a measured run has its verdict under the current thresholds."""
        measured = self.measuring.listed()
        for place, job in enumerate(measured):
            if job.state == "done":
                measured[place] = replace(job, words=self._outcome(int(job.id), job.words))
        return [*self._elsewhere(), *self.writings.listed(), *measured]

    def lines_on(self, row: int) -> Iterator[tuple[str, str]]:
        """Whether a run is being measured, or why it could not be; how one that was measured again
        compares with its audit; each line with its tone."""
        said = {"queued": "waits to be measured", "running": "is being measured"}
        for job in self.measuring.listed():
            if job.id == str(row) and job.state in (*said, "failed"):
                yield said.get(job.state, f"measuring failed: {job.words}"), "warn"
        if row not in self.again:
            return
        compared = self.again[row].comparison
        tone = "warn" if compared.differences else "good"
        yield f"measured again: {again_words(compared, self._app.terminal.glyphs)}", tone
        if not compared.agrees:
            yield "fa-tui verify --format json prints every difference", "dim"
        elif compared.unchecked:
            yield f"not checked: {listed([each.name for each in compared.differences], 6)}", tone

    def _outcome(self, row: int, words: str) -> str:
        """The verdict of a measured run; of one measured again, how it compares with its audit."""
        if row in self.again:
            words = again_words(self.again[row].comparison, self._app.terminal.glyphs)
        return f"{self._app.session.cell(row)}  {words}".rstrip()

    def _elsewhere(self) -> Iterator[Listed]:
        """The runs that other processes train or measure, or did before they failed or died."""
        session = self._app.session
        names = disambiguate([session.rows[row] for row in session.work])
        for (row, progress), name in zip(session.work.items(), names, strict=True):
            yield Listed(
                id=f"elsewhere {row}",
                name=name,
                state="failed" if progress.ended else "running",
                device="" if progress.is_here else progress.host,
                done=progress.epoch,
                total=progress.epochs,
                pid=progress.pid,
                words=progress.text(),
                elsewhere=True,
            )

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""
        return self.writings.cancel(job_id) or self.measuring.cancel(job_id)

    def unfinished(self) -> int:
        """Number of unfinished jobs of this explorer."""
        return sum(not job.over for job in [*self.writings.listed(), *self.measuring.listed()])

    def unknown(self, indices: Sequence[int]) -> list[int]:
        """The runs of which nothing says what data to measure them on, or only the name of code in
        a file does.

        Those whose measurement failed are among them: what was typed for them may be wrong.
        """
        session = self._app.session
        failed = {int(job.id) for job in self.measuring.listed() if job.state == "failed"}
        found = []
        for index in session.measurable(indices):
            has_answer = index in self.answers and index not in failed
            if not (has_answer or self.measuring.is_described(session.rows[index])):
                found.append(index)
        return found

    def measure(self, indices: Sequence[int]) -> None:
        """Queue runs to be measured; say which and where, or say why none can be."""
        app, session = self._app, self._app.session
        chosen = session.measurable(indices)
        frozen = self._frozen_beside(chosen)
        rows = [(index, session.rows[index]) for index in [*chosen, *frozen]]
        if not rows:
            app.say(self._why_none(indices), "warn")
            return
        try:
            started = self.measuring.start(rows, self.answers)
        except FaError as error:
            app.say(str(error), "bad")
            return
        app.show(session.but(marked=frozenset()))
        if not started:
            app.say("already queued", "dim")
            return
        queued = [*map(int, started)]
        own = [row for row in queued if row not in frozen] or queued
        which = runs_words(len(own)) if len(own) > 1 else run_name(session, own[0])
        if len(own) < len(queued):
            which += " + frozen"
        message = f"{which} to measure"
        if any(session.coverage[row] for row in own):
            message += " again"
        app.say(f"{message} {self.measuring.where()}", "dim")

    def _frozen_beside(self, chosen: Sequence[int]) -> list[int]:
        """The open frozen runs that judge audited ones (`judges_of`) and are not chosen: else (d)
        is not checked."""
        session = self._app.session
        own = [session.rows[index] for index in chosen]
        judges = judges_of(filter(is_audited, own), [*filter(is_audited, session.rows)])
        found = {session.runs.places[row.source][row.key] for row in judges}
        return session.measurable(sorted(found.difference(chosen)))

    def _why_none(self, indices: Sequence[int]) -> str:
        """Why none of these runs can be measured."""
        if not indices:
            return "no run in this cell: nothing to measure"
        if any(map(self._app.session.is_trained, indices)):
            return "still in training: it is measured when its training ends"
        session = self._app.session
        places = [session.rows[row].source for row in session.measurable(session.in_scope)]
        if places:
            return f"no checkpoint of this run: those of {listed({*homes_of(places)}, 3)} have one"
        return "no checkpoint here: o opens a run folder or a weights file"

    def close(self) -> None:
        """End the workers; what is finished is on disk already."""
        self.writings.close()
        self.measuring.close()

    def _show_jobs(self) -> None:
        app, session = self._app, self._app.session
        if app.screen_stack:  # no callback while the app is closing
            over = {row: state for row, state in session.states.items() if row in self.again}
            states = {**over, **self.measuring.states()}
            if states != session.states:
                app.show(session.but(states=states))
            app.explorer.jobs_changed(self.listed())

    def arrived(self, measured: Measured) -> None:
        """Show a measured run: the first at once, later ones together after a moment."""
        self._arrived.append(measured)
        if not self._arrivals_later.is_due:
            self._show_arrivals()

    def _show_arrivals(self) -> None:
        arrived, self._arrived = self._arrived, []
        if arrived and self._app.screen_stack:  # without screens the app is closing
            self._arrivals_later()
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
        app = self._app
        if not arrived:
            return
        rows = {measured.index: measured.row for measured in arrived}
        session = with_rows(app.session, rows)
        app.show(session)
        app.run_worker(app.following.judge())
        for saved in {real_path(measured.saved) for measured in arrived if measured.saved}:
            if not any(saved.is_relative_to(real_path(path)) for path in app.paths):
                # commands on what is shown read it, too
                app.paths.append(saved)
        names = f"{len(rows)} more" if len(rows) > 1 else session.label(*rows)
        problem = next((measured.problem for measured in arrived if measured.problem), "")
        if problem:
            app.say(f"{names} measured, but not saved: {problem}", "bad")
        else:
            app.say(f"{names} measured, saved in {short_paths([arrived[-1].saved])}", "good")

    def _compared(self, again: Mapping[int, Verification]) -> None:
        """Show how new measurements of audited runs differ from their audits, which are kept."""
        app, session = self._app, self._app.session
        if not again:
            return
        self.again.update(again)
        marks = {row: _state(one.comparison) for row, one in again.items()}
        deviating = [row for row, state in marks.items() if state != "agrees"]
        app.show(session.but(states={**session.states, **marks}))
        row = [*again, *deviating][-1]
        name, compared = run_name(session, row), again[row].comparison
        if len(again) > 1:
            text = f"{len(again) - len(deviating)} of {len(again)} runs measured again as recorded"
        else:
            text = f"{name} measured again: {again_words(compared, app.terminal.glyphs)}"
        app.say(text, "warn" if deviating else "good")
