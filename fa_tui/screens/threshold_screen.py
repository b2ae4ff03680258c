"""Base of screens with judged runs and the four sliders."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from textual.app import ComposeResult
from textual.binding import Binding
from textual.geometry import Size
from textual.widget import Widget

from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostics import LETTERS
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.screens.application import ApplicationScreen
from fa_tui.session import Flip, Judgement, Session
from fa_tui.views.words import flipped_words, moved_words, walk_back_words
from fa_tui.widgets.line import KeyBar, Line, TabBar

if TYPE_CHECKING:
    from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged


Begun: TypeAlias = "tuple[str, Judgement, Sequence[int] | None, DiagnosticThresholds]"
"""A step or drag, with judgement, scope and thresholds at its beginning."""

ROOMY = 48
"""Lines from which a screen has room for optional parts."""

WIDTHS = [(0, "-narrow"), (100, "-wide")]
HEIGHTS = [(0, "-low"), (34, "-tall"), (ROOMY, "-roomy")]
"""Minimum cells → class."""


def classes_at(
    size: Size, widths: Sequence[tuple[int, str]], heights: Sequence[tuple[int, str]]
) -> list[str]:
    """The classes of a size.

    >>> classes_at(Size(80, 24), [(0, "-narrow"), (100, "-wide")], [(0, "-flat"), (10, "-low")])
    ['-narrow', '-low']
    """
    sides = ((size.width, widths), (size.height, heights))
    return [[name for least, name in classes if length >= least][-1] for length, classes in sides]


class SlidersScreen(ApplicationScreen[None]):
    """A screen with a title and sliders that show the runs' numbers and the walk-back count.

    Args:
        session: the runs and what judges them.
        classes: as for any widget.

    Attributes:
        judged: the runs on the sliders.
    """

    BINDINGS = [
        Binding(
            "a",
            "slider('a')",
            "Threshold",
            show=False,
            key_display="a b c d",
            tooltip="go to the slider of a threshold",
        ),
        # listed with the first
        Binding("b", "slider('b')", show=False),
        Binding("c", "slider('c')", show=False),
        Binding("d", "slider('d')", show=False),
    ]

    def __init__(self, session: Session, *, classes: str = "") -> None:
        super().__init__(classes=classes)
        self.session = self.judged = session
        # widgets are attributes, since queries fail while the screen closes
        self.head = Line(id="title")
        self._flipped = ""
        self._begun: Begun = "", session.judgement, None, session.thresholds

    def set_title(self, *pieces: tuple[str, str]) -> None:
        """Show the top line."""
        self.head.set(*pieces)

    def show_rugs(self) -> None:
        """Show the numbers of all runs in scope on the sliders' tracks."""
        if self.sliders is not None:
            for letter in LETTERS:
                self.sliders.set_runs(
                    letter, self.judged.values(letter), partial(self.judged.deciding, letter)
                )

    def show_intervals(self, row: AuditRow | None) -> None:
        """Show the intervals of the run under the cursor on the sliders' tracks."""
        if self.sliders is not None:
            for letter in LETTERS:
                self.sliders.slider(letter).show_interval(
                    None if row is None else row.report.interval(letter)
                )

    def count(self, flips: Sequence[Flip], before: DiagnosticThresholds | None = None) -> None:
        """Show the walk-back count and the latest flips.

        Args:
            flips: the runs.
            before: the previous thresholds, if they changed.
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
        """Judge the runs by other thresholds; returns the flips, in a drag those since its
        beginning."""
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
        """The thresholds that the last step or drag moved, with their values, as text."""
        return moved_words(self.session.thresholds, self._begun[3])

    def recount(self) -> None:
        """Show the walk-back count and the last flips again."""
        if self.sliders is not None:
            self.sliders.set_summary(walk_back_words(self.judged), self._flipped)

    def action_slider(self, letter: str) -> None:
        """Focus a threshold's slider."""
        if self.sliders is not None:
            # at once, so that the next keys go to the slider
            self.set_focus(self.sliders.slider(letter))


class JudgedScreen(SlidersScreen):
    """A screen of title, body, sliders and keys. Subclasses supply the body and its update.

    On a tall screen the sliders are below the body; on a low one the keys a b c d show one of them,
    and Esc hides it.

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
        """Widgets between title and sliders; the first focusable one gets the focus."""
        raise NotImplementedError

    def judge(self) -> None:
        """Show the runs judged by the session's thresholds."""
        raise NotImplementedError

    def reread(self) -> None:
        """Read the session's runs again, after some were added, removed or changed."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        from fa_tui.widgets.sliders_panel import SlidersPanel

        # set before the first layout, which then need not be repeated
        self.add_class(*classes_at(self.app.size, WIDTHS, HEIGHTS))
        self.sliders = SlidersPanel(self.app.history, id="sliders")
        yield TabBar(self.tab)
        yield self.head
        yield from self.body()
        yield self.sliders
        yield KeyBar()

    def on_mount(self) -> None:
        self.focus_body()
        self.show_rugs()
        self.count(())

    def focus_body(self) -> None:
        """Focus the body."""
        for widget in self.focus_chain:
            if self.sliders not in widget.ancestors_with_self:
                widget.focus()
                return

    def runs_changed(self) -> None:
        """Update after runs, thresholds or baselines changed elsewhere."""
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
        # an empty text clears the message of the last change on the main screen
        self.app.say(message.words, "dim", aloud=bool(message.words))
        self.soon()

    def leave_to(self, row: AuditRow) -> None:
        """Close, with the cursor on a run in the matrix or the long view."""
        for index, each in enumerate(self.session.rows):
            if (each.source, each.key) == (row.source, row.key):
                self.app.explorer.runs.go_to(index)
                self.dismiss()
                return
        self.app.say("this run has no line in the matrix", "dim")

    def soon(self) -> None:
        """Judge once per frame: a held key must not queue work."""
        if not self.is_due:
            self.is_due = True
            # after the waiting messages, before the next frame
            self.call_later(self._flush)

    def _flush(self) -> None:
        self.is_due = False
        self.judge()

    def action_slider(self, letter: str) -> None:
        """Focus a threshold's slider, and show it if it is hidden."""
        self.add_class("-sliding")
        super().action_slider(letter)

    def action_back(self) -> None:
        """Go back: from the sliders to the body, from the body to the previous screen."""
        if self.focused is not None and self.sliders in self.focused.ancestors_with_self:
            self.remove_class("-sliding")
            self.focus_body()
        else:
            self.dismiss()
