"""Base of the screens that show judged runs with the four sliders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Size
from textual.widget import Widget

from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import LETTERS
from fa_core.rows import AuditRow
from fa_tui.screens.application import ApplicationScreen
from fa_tui.session import Flip, Judgement, Session
from fa_tui.views.words import flipped_words, moved_words, walk_back_words
from fa_tui.widgets.line import KeyBar, Line

if TYPE_CHECKING:
    from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged


Begun: TypeAlias = "tuple[str, Judgement, Sequence[int] | None, DiagnosticThresholds]"
"""A step or a drag, and what was judged, in which scope and by which thresholds when it began."""

ROOMY = 48
"""From this many lines on there is space for more than a screen must have."""

WIDTHS = [(0, "-narrow"), (100, "-wide")]
HEIGHTS = [(0, "-low"), (34, "-tall"), (ROOMY, "-roomy")]
"""From so many cells on, the class."""


def classes_at(
    size: Size, widths: Sequence[tuple[int, str]], heights: Sequence[tuple[int, str]]
) -> list[str]:
    """The classes of a size, of classes that begin at so many cells.

    >>> classes_at(Size(80, 24), [(0, "-narrow"), (100, "-wide")], [(0, "-flat"), (10, "-low")])
    ['-narrow', '-low']
    """
    sides = ((size.width, widths), (size.height, heights))
    return [[name for least, name in classes if length >= least][-1] for length, classes in sides]


class SlidersScreen(ApplicationScreen[None]):
    """A title, and sliders that show the runs' numbers and how many need walk-back.

    Args:
        session: the runs and what judges them.
        classes: as for any widget.

    Attributes:
        judged: the runs that the sliders show and count.
    """

    BINDINGS = [
        Binding(
            letter,
            f"slider('{letter}')",
            f"Slider {letter}",
            show=False,
            tooltip="go to this threshold",
        )
        for letter in LETTERS
    ]

    def __init__(self, session: Session, *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self.session = self.judged = session
        # here and below: widgets that a method asks for are attributes, which a screen that closes
        # still has
        self.head = Line(id="title")
        self._flipped = ""
        self._begun: Begun = "", session.judgement, None, session.thresholds

    def set_title(self, *pieces: tuple[str, str]) -> None:
        """Show the top line."""
        self.head.set(*pieces)

    def show_rugs(self) -> None:
        """Put the number of every run in scope on the sliders' tracks."""
        if self.sliders is not None:
            for letter in LETTERS:
                self.sliders.set_runs(
                    letter, self.judged.values(letter), partial(self.judged.deciding, letter)
                )

    def show_intervals(self, row: AuditRow | None) -> None:
        """Put the intervals of the run under the cursor on the sliders' tracks."""
        if self.sliders is not None:
            for letter in LETTERS:
                self.sliders.slider(letter).show_interval(
                    None if row is None else row.report.interval(letter)
                )

    def count(self, flips: Sequence[Flip], before: DiagnosticThresholds | None = None) -> None:
        """Show how many runs are walked back, and what just flipped.

        Args:
            flips: the runs.
            before: the thresholds until now, where it was they that changed.
        """
        if flips:
            self._flipped = flipped_words(self.judged, flips, before)
        else:
            self._flipped = ""
        if flips or before is None or self._begun[0]:
            self.recount()
        elif self.sliders is not None:
            self.sliders.set_flipped("")

    def judged_by(self, message: ThresholdsChanged) -> list[Flip]:
        """Judge the runs by other thresholds; what flips with it, or in a drag of the mouse since
        that began."""
        judged = self.judged
        if not message.drag or message.drag != self._begun[0]:
            self._begun = message.drag, judged.judgement, judged.scope, self.session.thresholds
        flips = self.session.set_thresholds(message.thresholds)
        if judged is not self.session:
            flips = judged.set_thresholds(message.thresholds)
        _, judgement, scope, before = self._begun
        if message.drag:
            flips = judged.flipped(judgement, scope)
        self.count(flips, before)
        return flips

    @property
    def moved(self) -> str:
        """Which thresholds the last step, or drag, moved, and where to."""
        return moved_words(self.session.thresholds, self._begun[3])

    def recount(self) -> None:
        """Show how many runs are walked back, and again what flipped last."""
        if self.sliders is not None:
            self.sliders.set_summary(walk_back_words(self.judged), self._flipped)

    def action_slider(self, letter: str) -> None:
        """Go to one threshold."""
        if self.sliders is not None:
            # at once: keys typed after the letter belong to the slider
            self.set_focus(self.sliders.slider(letter))


class JudgedScreen(SlidersScreen):
    """Title, body, sliders, keys. A subclass gives the body and what a new judgement changes.

    On a tall screen the sliders are below the body; on a low one they come one by one with the
    keys a b c d and go with Esc.

    Args:
        session: the runs and what judges them.
    """

    sliders: SlidersPanel
    is_due = False

    HORIZONTAL_BREAKPOINTS, VERTICAL_BREAKPOINTS = WIDTHS, HEIGHTS

    BINDINGS = [
        Binding(
            "escape",
            "back",
            "Back",
            key_display="esc",
            tooltip="from the sliders to the runs, then to the matrix",
        )
    ]

    def body(self) -> Iterable[Widget]:
        """What is between title and sliders; the first of it that can gets the focus."""
        raise NotImplementedError

    def judge(self) -> None:
        """Show what the session's thresholds make of the runs."""
        raise NotImplementedError

    def reread(self) -> None:
        """Read the session's runs again: some came, went or changed."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        from fa_tui.widgets.sliders_panel import SlidersPanel

        # known before the first layout, so that nothing is laid out and sent twice
        self.add_class(*classes_at(self.app.size, WIDTHS, HEIGHTS))
        self.sliders = SlidersPanel(self.app.history, id="sliders")
        yield self.head
        yield from self.body()
        yield self.sliders
        yield KeyBar()

    def on_mount(self) -> None:
        self.focus_body()
        self.show_rugs()
        self.count(())

    def focus_body(self) -> None:
        """Give the keys to the body."""
        for widget in self.focus_chain:
            if self.sliders not in widget.ancestors_with_self:
                widget.focus()
                return

    def runs_changed(self) -> None:
        """Show runs that were measured or read again, thresholds or baselines that were set
        elsewhere."""
        self.sliders.follow()
        self.reread()
        if self.judged is not self.session:
            self.judged.set_thresholds(self.session.thresholds)
        self.show_rugs()
        self.count(())
        self.judge()

    def on_thresholds_changed(self, message: ThresholdsChanged) -> None:
        scope = self.session.scope
        self.judged_by(message)
        if self.session.scope != scope:
            self.show_rugs()
        # nothing to say takes back what was said of the change before, on the main screen
        self.app.say(message.words, "dim", aloud=bool(message.words))
        self.soon()

    def soon(self) -> None:
        """Judge once for all that changes in this turn: a held key must not queue work."""
        if not self.is_due:
            self.is_due = True
            # behind the messages that wait already, and before the next frame
            self.call_later(self._flush)

    def _flush(self) -> None:
        self.is_due = False
        self.judge()

    def action_slider(self, letter: str) -> None:
        """Go to one threshold; show its slider where none are shown."""
        self.add_class("-sliding")
        super().action_slider(letter)

    def action_back(self) -> None:
        """From the sliders to the body, from the body to where the screen was opened."""
        if self.focused is not None and self.sliders in self.focused.ancestors_with_self:
            self.remove_class("-sliding")
            self.focus_body()
        else:
            self.dismiss()
