"""The four threshold sliders with the verdict counts, undo and redo."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message

from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.threshold_history import Judging, ThresholdHistory
from fa_tui.widgets.line import Line
from fa_tui.widgets.painted import row_width
from fa_tui.widgets.slider import ThresholdSlider
from fa_tui.widgets.table import clamped

if TYPE_CHECKING:
    from fa_core.report.baseline import FrozenBaseline

_TALL_SCREEN = 34
"""On lower screens only the last focused slider has two rows."""
_MEANING = "walk-back: the claim must be withdrawn or qualified"
_LEGEND = "track: ─ passes  ╌ fires  ━ plateau: no run flips"


@dataclass
class ThresholdsChanged(Message):
    """The four thresholds after a change by a slider, undo, redo or a preset.

    Attributes:
        words: message about the change.
        drag: id of the mouse drag that caused it, or ``""``.
    """

    thresholds: DiagnosticThresholds
    words: str = ""
    drag: str = ""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ThresholdsChanged)


@dataclass
class BaselineChanged(Message):
    """The assumed frozen baseline (None: the recorded ones), after undo or redo."""

    baseline: FrozenBaseline | None


class SlidersPanel(Vertical):
    """Four `ThresholdSlider`s; posts `ThresholdsChanged` and `BaselineChanged`.

    Args:
        history: of thresholds and baselines, shared by all screens (default: a new one).

    Attributes:
        thresholds: of the sliders.
    """

    BINDINGS = [
        Binding("up,k", "walk(-1)", "Slider above", show=False),
        Binding("down,j", "walk(1)", "Slider below", show=False),
        Binding(
            "u",
            "undo",
            "Undo",
            tooltip="undo the last change of a threshold or of the frozen baseline (w)",
        ),
        Binding("ctrl+r,U", "redo", "Redo", show=False, tooltip="take the last undo back"),
        # also on screens that use the letter otherwise
        Binding(
            "p",
            "app.ask('presets')",
            "Presets",
            show=False,
            tooltip="thresholds saved by name: use, save, remove",
        ),
    ]

    def __init__(self, history: ThresholdHistory | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._history = history or ThresholdHistory(Judging(DiagnosticThresholds(), None))
        start = self.thresholds = self._history.current.thresholds
        self._offered = self._history.offers
        self._summary = Line(id="sliders-summary")
        self._summary.display = False
        self._count = self._flips = ""
        self._sliders: dict[str, ThresholdSlider] = {}
        for letter, one in DIAGNOSTICS.items():
            slider = ThresholdSlider(one, one.limit(start), id=f"slider-{letter}")
            self._sliders[letter] = slider
        self._sliders["a"].add_class("-expanded")
        self._show_judged()

    def compose(self) -> ComposeResult:
        yield self._summary
        yield from self._sliders.values()

    def set_thresholds(self, thresholds: DiagnosticThresholds) -> None:
        """Show thresholds set elsewhere (a preset), as one undoable change; nothing is posted."""
        self._record(self._history.current._replace(thresholds=thresholds), None)
        self._show(thresholds)

    def set_baseline(self, baseline: FrozenBaseline | None) -> None:
        """Record a baseline set elsewhere, as one undoable change; nothing is posted."""
        self._record(self._history.current._replace(baseline=baseline), None)

    def follow(self) -> None:
        """Show the current thresholds, which another screen may have changed."""
        self._show(self._history.current.thresholds)
        self._offer()

    def slider(self, letter: str) -> ThresholdSlider:
        """The slider of a diagnostic."""
        return self._sliders[letter]

    def set_runs(
        self, letter: str, values: Sequence[float], deciding: Callable[[], Sequence[float]] = list
    ) -> None:
        """Show a diagnostic's measured numbers; `deciding` as in `ThresholdSlider`."""
        self._sliders[letter].deciding = deciding
        self._sliders[letter].set_runs(values)

    def set_summary(self, count: str, flips: str = "") -> None:
        """Show the count of walk-backs and the last flips above the sliders.

        Call it while handling `ThresholdsChanged`: the sliders repaint in the same frame.
        """
        self._count = count
        self._summary.display = True
        self.set_flipped(flips)

    def set_flipped(self, flips: str) -> None:
        """Show the last flips, with an unchanged count."""
        for slider in self._sliders.values():
            slider.catch_up()
        self._flips = flips
        self._show_summary()

    def _show_summary(self) -> None:
        # the walk-backs first: whatever follows may be cut
        walked, comma, others = self._count.partition(",")
        flipped = ""
        if self._flips:
            flipped = f"  {self._flips}"
        explained = ""
        if self.has_focus_within:
            explained = _LEGEND
        elif not others:
            explained = _MEANING
        pieces = [(f" {walked}", "strong"), (flipped, "warn"), (comma + others, "text")]
        explanation = (f"   {explained}", "dim")
        # half an explanation explains nothing
        if row_width([*pieces, explanation]) <= self.size.width:
            pieces.append(explanation)
        self._summary.set(*pieces)

    def action_walk(self, direction: int) -> None:
        """Focus the slider above or below."""
        sliders = [slider for slider in self._sliders.values() if slider.display]
        focused = self.screen.focused
        if focused in sliders:
            place = clamped(sliders.index(focused) + direction, len(sliders))
            # immediate, unlike `focus()`: the next key starts from there
            self.screen.set_focus(sliders[place])

    def action_undo(self) -> None:
        """Back to the thresholds, and the baseline, before the last gesture."""
        self._travel(self._history.undo)

    def action_redo(self) -> None:
        """Take the last undo back."""
        self._travel(self._history.redo)

    def on_mount(self) -> None:
        self.on_resize()

    def on_resize(self) -> None:
        self.set_class(self.screen.size.height < _TALL_SCREEN, "-compact")
        self._show_summary()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for slider in self._sliders.values():
            slider.set_class(slider is event.widget, "-expanded")
        self._show_summary()

    def on_descendant_blur(self) -> None:
        self._show_summary()

    def on_threshold_slider_changed(self, message: ThresholdSlider.Changed) -> None:
        message.stop()
        letter = message.slider.letter
        moved = self.thresholds = DIAGNOSTICS[letter].moved(self.thresholds, message.value)
        series = None
        drag = ""
        if message.how != "set":
            series = f"{letter} {message.how}"
            if message.how.startswith("drag"):
                drag = series
        judging = self._history.current._replace(thresholds=moved)
        self._record(judging, series, is_drag=bool(drag))
        self.post_message(ThresholdsChanged(moved, drag=drag))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer undo and redo only if possible."""
        return action not in ("undo", "redo") or action in self._history.offers

    def _record(self, judging: Judging, series: str | None, *, is_drag: bool = False) -> None:
        self._history.record(judging, series, time.monotonic(), is_drag=is_drag)
        self._offer()

    def _travel(self, step: Callable[[], Judging]) -> None:
        """Undo or redo, show the result and post the changes."""
        before = self._history.current
        thresholds, baseline = step()
        self._offer()
        if baseline != before.baseline:
            self.post_message(BaselineChanged(baseline))
        if thresholds != before.thresholds:
            self._show(thresholds)
            self.post_message(ThresholdsChanged(thresholds))

    def _offer(self) -> None:
        """Refresh the key hints if the offers of undo or redo changed."""
        if self._history.offers != self._offered:
            self._offered = self._history.offers
            if self.is_attached:
                self.refresh_bindings()

    def _show(self, thresholds: DiagnosticThresholds) -> None:
        # unchanged sliders keep a typed entry
        if thresholds != self.thresholds:
            self.thresholds = thresholds
            self._show_judged()

    def _show_judged(self) -> None:
        """Set the sliders to the thresholds."""
        for letter, slider in self._sliders.items():
            slider.set_value(DIAGNOSTICS[letter].limit(self.thresholds))
