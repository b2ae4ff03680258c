"""Every screen of the explorer, and the keys that lead to it; the same on every machine and in every checkout."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import msgspec
from textual.command import CommandPalette
from textual.pilot import Pilot
from textual.widgets import Input

from fa_core.formats import Trace, TraceEpoch, scan
from fa_core.formats.rows import AuditRow, Problem
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_tui.app import ExplorerApp
from fa_tui.jobs.listing import Listed
from fa_tui.screens.help import ProblemsScreen
from fa_tui.screens.questions import SureScreen
from fa_tui.session import Session
from tests.conftest import REPOSITORY
from tests.fa_core.rows import row_of
from tests.fa_tui.looks import is_due, screen_text
from tests.fa_tui.waiting import until

PUBLISHED = REPOSITORY / "sample_runs" / "audit_table_s42_s123_s456.json"
OPEN = "audit_table.json"
EPOCHS = 20

Staging = Callable[[Pilot[Any], ExplorerApp], Awaitable[None]]


class Sees(str):
    """Between keys: wait until the screen shows this."""


class Scene(NamedTuple):
    """A screen: what is open, the keys that lead there, and what must then be on it.

    Attributes:
        keys: pressed one after another; a `Sees` among them waits.
        session: what is open.
        staging: what no key can bring about.
        shows: words that tell that it is there, in both alphabets.
    """

    keys: Iterable[str] = ()
    session: Callable[[], Session] = lambda: Session(published())
    staging: Staging | None = None
    shows: str = ""


@cache
def published():
    """The published table: 5 methods, 3 seeds, 9 walk-backs."""
    return tuple(msgspec.structs.replace(row, source=OPEN) for row in scan([PUBLISHED]).rows)


def with_intervals():
    """The published runs with an interval of each number; those of (c) are wide."""
    rows = []
    for row in published():
        g, drift, acc = (
            getattr(row.report, name) for name in ("g_L", "cross_batch_stability", "headline_acc")
        )
        intervals = {
            "g_L": (g * 0.6, g * 1.5),
            "stability": (drift - 0.12, drift + 0.12),
            "acc": (acc - 0.01, acc + 0.01),
        }
        rows.append(
            msgspec.structs.replace(
                row, report=msgspec.structs.replace(row.report, intervals=intervals)
            )
        )
    return Session(rows)


def unmeasured():
    """Checkpoints, the first method's measured."""
    rows = []
    for row in published():
        place = f"runs/{row.key}"
        report = row.report if row.method == "bp" else DiagnosticReport()
        rows.append(msgspec.structs.replace(row, source=place, report=report, checkpoint=place))
    return Session(rows)


def many():
    """Sixty methods with eight seeds each."""
    rows = [
        row_of(
            f"variant_{method:02}_s{seed}",
            "many.json",
            report=DiagnosticReport(
                residual_norms=[1.0, 1.5, 2.0 * 1.1 ** (method + seed)],
                bp_grad_norms=[1e-3, 1e-3, 1e-3 / 1.4 ** (method + seed)],
                cross_batch_stability=math.sin(method * seed) / 2,
                headline_acc=0.4 + 0.002 * method,
                frozen_baseline_acc=0.45,
            ),
        )
        for method in range(60)
        for seed in range(1, 9)
    ]
    return Session(rows)


def epochs(traces=None):
    """Four runs over twenty epochs, two of which explode; or the runs of other traces."""
    traces = four_traces() if traces is None else traces
    report = DiagnosticReport(residual_norms=[1.0, 2.0], headline_acc=0.58, frozen_baseline_acc=0.5)
    rows = [
        AuditRow(source=f"runs/{t.key}", key=t.key, method=t.method, seed=t.seed, report=report)
        for t in traces
    ]
    return Session(rows, traces=traces)


def four_traces():
    """Two seeds of a healthy method and of one that explodes."""
    return [trace("bp", 1, 1.01), trace("bp", 2, 1.02), trace("dfa", 1, 2.0), trace("dfa", 2, 1.6)]


def trace(method, seed, rate, epochs=EPOCHS):
    """A run whose growth is rate^epoch, whose gradient falls as its inverse square, and which learns."""
    records = [
        TraceEpoch(
            epoch=epoch,
            test_acc=0.6 - 0.4 / epoch,
            residual_norms=[8.0, 8.0 * rate**epoch, 8.0 * rate**epoch],
            bp_grad_norms=[1e-2, 1e-2 / rate ** (2 * epoch)],
            cross_batch_stability=0.2 * math.sin(epoch + seed),
            loss=1.0 / epoch,
        )
        for epoch in range(1, epochs + 1)
    ]
    key = f"{method}_s{seed}"
    return Trace(
        source=f"runs/{key}/trace.jsonl", key=key, method=method, seed=seed, epochs=records
    )


STAGED_JOBS = [
    Listed(
        id="1",
        name="bp s42",
        state="done",
        device="cuda:0",
        done=10,
        total=10,
        words="saved in results.json",
    ),
    Listed(
        id="2",
        name="dfa s42",
        state="failed",
        device="cuda:0",
        done=1,
        total=10,
        words="the weights are empty; train the run again",
        error="runs/dfa_s42/model.safetensors: the weights are empty; train the run again",
    ),
    Listed(id="3", name="ep s42", state="running", device="cuda:0", done=4, total=10, left=73.0),
    Listed(id="4", name="state_bridge s42", state="running", device="cpu", done=0, total=10),
    Listed(id="5", name="credit_bridge s42", state="queued"),
    Listed(id="6", name="ep s123", state="cancelled", words="cancelled"),
    Listed(id="7", name="ep s456", state="queued"),
    Listed(
        id="8",
        name="train --method dfa --arch resmlp --seeds 42",
        state="running",
        device="cpu",
        done=3,
        total=20,
        left=4000.0,
        words="epoch 3: loss 1.72, accuracy 41.3 %, growth 3.1",
    ),
]
"""Jobs in every state, none of which moves."""


async def jobs_in_every_state(pilot, app):
    app.jobs.listed = lambda: STAGED_JOBS
    app.explorer.jobs_changed(app.jobs.listed())
    await pilot.press("J")
    await until(pilot, lambda: app.explorer.page.id == "Jobs" and app.explorer.page.is_mounted)
    await pilot.press("up")


async def jobs_on_the_status_line(pilot, app):
    app.explorer.jobs_changed(STAGED_JOBS)
    app.say("bp s42 measured, saved in results.json", "good")


async def the_question_before_leaving(pilot, app):
    await app.push_screen(
        SureScreen("2 jobs not finished. Leave?", "Finished runs are on disk.", lambda: True)
    )


async def problems(pilot, app):
    more = [
        Problem("runs/cut.json", "runs/cut.json: truncated at line 3, column 17; write it again"),
        Problem(
            "runs/model.pt", "runs/model.pt: wants to load os.system; convert it with safetensors"
        ),
        Problem(
            "settings.toml",
            "settings.toml: theme: there is no theme 'solarised'; fa-dark, fa-light or one of your own; "
            "the default is used",
        ),
    ]
    app.add_problems(more)
    await app.push_screen(ProblemsScreen(app.session))


SCENES = {
    "matrix": Scene(("down",), shows="DFA"),
    "matrix_of_growth": Scene(("down", "v"), shows="showing growth"),
    "matrix_of_a_margin": Scene((*"vvvvv",), shows="showing "),
    "matrix_of_many_runs": Scene(("pagedown", "down", "right"), many, shows="variant_05"),
    "matrix_of_checkpoints": Scene(
        ("down", "right", "space"), unmeasured, jobs_on_the_status_line, "measuring"
    ),
    "matrix_of_nothing": Scene((), lambda: Session(()), shows="0 runs"),
    "marked_runs": Scene(("space", "down", "right", "space"), shows="2 marked"),
    "long_view": Scene(("t", "right", "s", "s"), shows="method"),
    "long_view_of_many_runs": Scene(("t", "pagedown", "right", "right"), many, shows="method"),
    "filter_while_typing": Scene(("slash", *"flag:c seed>50"), shows="filter flag:c seed>50"),
    "filter_that_means_nothing": Scene(("slash", *"growth>x"), shows="'x' is not a number"),
    "detail": Scene(("down", "tab", *["down"] * 4), shows="growth"),
    "slider_that_flipped_two": Scene(("a", "5", "enter"), shows="11 of 15"),
    "slider_in_an_interval": Scene(
        ("down", "down", "down", "c", "right", "right"), with_intervals, shows="fires > 0.32"
    ),
    "number_typed_into_a_slider": Scene(("b", *"2e-8"), shows="2e-8"),
    "what_if": Scene(("w", Sees("frozen baseline were"), *"0.3x"), shows="0.3x"),
    "export": Scene(("e",), shows="export to"),
    "presets": Scene(("p",), shows="save as"),
    "compare": Scene(
        ("C", Sees("max/min"), "tab", "tab", "down", "down", "right"), shows="max/min"
    ),
    "timeline": Scene(("T", Sees("epoch"), "down", "3"), epochs, shows="epoch"),
    "sweep": Scene(("A", Sees("sweep")), shows="sweep"),
    "seeds": Scene(("A", Sees("sweep"), "2"), shows="seeds"),
    "jobs": Scene((), staging=jobs_in_every_state, shows="credit_bridge"),
    "no_jobs_yet": Scene(("J",), shows="none yet"),
    "help_of_the_matrix": Scene(("question_mark",), shows="The matrix"),
    "help_of_a_slider": Scene(("a", "question_mark"), shows="The four thresholds"),
    "problems": Scene((), staging=problems, shows="3 problems"),
    "quit": Scene((), staging=the_question_before_leaving, shows="Leave?"),
    "palette": Scene(("ctrl+p", Sees("type what to do"), *"show"), shows="Show growth"),
}


def opened_on(scene, terminal):
    """An explorer, and what leads it to the scene once it runs."""
    app = ExplorerApp(scene.session(), title=OPEN, terminal=terminal)

    async def play(pilot):
        await until(
            pilot, lambda: app.explorer.sliders is not None and app.explorer.sliders.is_mounted
        )
        await pilot.pause()
        for pause, keys in groupby(scene.keys, key=lambda key: isinstance(key, Sees)):
            if pause:
                words = next(keys)
                await until(pilot, lambda words=words: words in screen_text(app))
            else:
                await pilot.press(*keys)
        if scene.staging is not None:
            await scene.staging(pilot, app)
        await until(pilot, lambda: scene.shows in screen_text(app) and not _is_due(app))
        for entry in app.screen.query(Input):
            entry.cursor_blink = False
        await pilot.pause()

    return app, play


def _is_due(app):
    """Whether something that was asked for is still to be shown."""
    if isinstance(app.screen, CommandPalette) and any(not each.is_finished for each in app.workers):
        # what is found is listed in several steps
        return True
    return is_due(app)
