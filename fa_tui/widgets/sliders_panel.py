"""The four threshold sliders with the verdict counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical

from fa_core.report.diagnostics import DIAGNOSTICS
from fa_tui.session import Session, changed_cells
from fa_tui.views.text import as_many, width_of
from fa_tui.views.words import flip_text
from fa_tui.widgets.line import Line
from fa_tui.widgets.painted import hidden, row_width
from fa_tui.widgets.slider import ThresholdSlider
from fa_tui.widgets.table import clamped

if TYPE_CHECKING:
    from fa_core.formats.rows import AuditRow
    from fa_tui.app import ExplorerApp

_TALL_SCREEN = 34
"""On lower screens only the last focused slider has two rows."""
_LEGEND = "track: ─ passes  ╌ fires  ━ plateau: no run flips"


class SlidersPanel(Vertical):
    """Four `ThresholdSlider`s; a step makes the application's next snapshot.

    Args:
        session: the first snapshot.
        counts: what is counted of the runs.

    Attributes:
        sliders: letter → its slider.
    """

    app: ExplorerApp

    BINDINGS = [
        hidden("up,k", "walk(-1)", "Slider above"),
        hidden("down,j", "walk(1)", "Slider below"),
    ]

    def __init__(self, session: Session, counts: Callable[[], Sequence[str]]) -> None:
        super().__init__(id="sliders")
        self.session, self._counts = session, counts
        self._summary = Line(id="sliders-summary")
        self._flipped = ""
        self.sliders: dict[str, ThresholdSlider] = {}
        for letter, one in DIAGNOSTICS.items():
            slider = ThresholdSlider(one, one.limit(session.thresholds))
            slider.deciding = partial(self._deciding, letter)
            slider.set_runs(session.seen.values(letter), session.seen.points(letter))
            self.sliders[letter] = slider
        self.sliders["a"].add_class("-expanded")

    def compose(self) -> ComposeResult:
        yield self._summary
        yield from self.sliders.values()

    def _deciding(self, letter: str) -> Sequence[float]:
        return self.session.deciding(letter)

    def show(self, now: Session) -> None:
        """Show another snapshot.

        The sliders repaint in the same frame.
        """
        before, self.session = self.session, now
        for letter, slider in self.sliders.items():
            limit = DIAGNOSTICS[letter].limit(now.thresholds)
            # an unchanged slider keeps a typed entry
            if limit != slider.value:
                slider.set_value(limit)
            if now.seen is not before.seen:
                slider.set_runs(now.seen.values(letter), now.seen.points(letter))
            slider.catch_up()
        if now.seen is not before.seen or changed_cells(before, now):
            self._flipped = flip_text(now)
            self.show_summary()

    def show_intervals(self, row: AuditRow | None) -> None:
        """Show the intervals of the run under the cursor on the tracks."""
        for letter, slider in self.sliders.items():
            slider.show_interval(None if row is None else row.report.interval(letter))

    def show_summary(self) -> None:
        """Show the counts and the last flips."""
        # of what follows the first only whole counts
        walked, *counts = self._counts()
        flipped = f"  {self._flipped}" if self._flipped else ""
        room = self.size.width - len(f" {walked}, ") - width_of(flipped)
        others = as_many(counts, room, ", ")
        comma = ", " if others else ""
        explained = _LEGEND if self.has_focus_within else ""
        pieces = [(f" {walked}", "strong"), (flipped, "warn"), (comma + others, "text")]
        explanation = (f"   {explained}", "dim")
        # half an explanation explains nothing
        if row_width([*pieces, explanation]) <= self.size.width:
            pieces.append(explanation)
        self._summary.set(*pieces)

    def action_walk(self, direction: int) -> None:
        """Focus the slider above or below."""
        sliders = [slider for slider in self.sliders.values() if slider.display]
        focused = self.screen.focused
        if focused in sliders:
            place = clamped(sliders.index(focused) + direction, len(sliders))
            # immediate, unlike `focus()`: the next key starts from there
            self.screen.set_focus(sliders[place])

    def on_mount(self) -> None:
        self.on_resize()

    def on_resize(self) -> None:
        self.set_class(self.screen.size.height < _TALL_SCREEN, "-compact")
        self.show_summary()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for slider in self.sliders.values():
            slider.set_class(slider is event.widget, "-expanded")
        self.show_summary()

    def on_descendant_blur(self) -> None:
        self.show_summary()

    def on_threshold_slider_refused(self, message: ThresholdSlider.Refused) -> None:
        self.app.say(message.why, "bad")

    def on_threshold_slider_changed(self, message: ThresholdSlider.Changed) -> None:
        message.stop()
        letter, how = message.slider.letter, message.how
        session = self.app.session
        moved = DIAGNOSTICS[letter].moved(session.thresholds, message.value)
        series = None if how == "set" else f"{letter} {how}"
        self.app.step(session.but(thresholds=moved), series, is_drag=how.startswith("drag"))
