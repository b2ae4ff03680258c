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

from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_tui.threshold_history import Judging, ThresholdHistory
from fa_tui.widgets.line import Line
from fa_tui.widgets.slider import ThresholdSlider

if TYPE_CHECKING:
    from fa_core.judgement.baseline import FrozenBaseline

_TALL_SCREEN = 34
"""From this many lines on every slider has both its rows; below, only the one last focused."""


@dataclass
class ThresholdsChanged(Message):
    """The four thresholds, after a slider, undo or redo moved one, or a preset all.

    Attributes:
        words: what to report of it.
        drag: of which drag of the mouse it is part, if it is.
    """

    thresholds: DiagnosticThresholds
    words: str = ""
    drag: str = ""

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, ThresholdsChanged)


@dataclass
class BaselineChanged(Message):
    """Another frozen baseline to assume (None: those recorded), after undo or redo."""

    baseline: FrozenBaseline | None


class SlidersPanel(Vertical):
    """Four `ThresholdSlider`s; posts `ThresholdsChanged`, and `BaselineChanged` where undo or redo
    changes it.

    Args:
        history: what judges the runs, now and before; one for all screens (default: one of its
            own).

    Attributes:
        thresholds: what the sliders show.
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
        # here too where a screen has another use for the letter
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
        self._count = ""
        self._sliders = {
            x: ThresholdSlider(one, one.limit(start), id=f"slider-{x}")
            for x, one in DIAGNOSTICS.items()
        }
        self._sliders["a"].add_class("-expanded")
        self._show_judged()

    def compose(self) -> ComposeResult:
        yield self._summary
        yield from self._sliders.values()

    def set_thresholds(self, thresholds: DiagnosticThresholds) -> None:
        """Show thresholds set elsewhere (a preset): one change that can be undone; nothing is
        posted."""
        self._record(self._history.current._replace(thresholds=thresholds), None)
        self._show(thresholds)

    def set_baseline(self, baseline: FrozenBaseline | None) -> None:
        """Keep a baseline set elsewhere: one change that can be undone; nothing is posted."""
        self._record(self._history.current._replace(baseline=baseline), None)

    def follow(self) -> None:
        """Show where the thresholds are now: the sliders of another screen may have moved them."""
        self._show(self._history.current.thresholds)
        self._offer()

    def slider(self, letter: str) -> ThresholdSlider:
        """The slider of a diagnostic."""
        return self._sliders[letter]

    def set_runs(
        self, letter: str, values: Sequence[float], deciding: Callable[[], Sequence[float]] = list
    ) -> None:
        """Show one diagnostic's numbers, one per run in which it was measured; `deciding`: see
        `ThresholdSlider`."""
        self._sliders[letter].deciding = deciding
        self._sliders[letter].set_runs(values)

    def set_summary(self, count: str, flips: str = "") -> None:
        """Say above the sliders how many runs are walked back, and what just flipped.

        Call it where `ThresholdsChanged` is handled: the sliders repaint with it, in the same
        frame.
        """
        self._count = count
        self._summary.display = True
        self.set_flipped(flips)

    def set_flipped(self, flips: str) -> None:
        """Say what just flipped, where as many runs are walked back as before."""
        for slider in self._sliders.values():
            slider.catch_up()
        # in front: the counts may be cut
        flipped = ""
        if flips:
            flipped = f" {flips}  "
        self._summary.set((flipped, "warn"), (f" {self._count}", "strong"))

    def action_walk(self, direction: int) -> None:
        """Focus the slider above or below."""
        sliders = [slider for slider in self._sliders.values() if slider.display]
        focused = self.screen.focused
        if focused in sliders:
            to = max(0, min(sliders.index(focused) + direction, len(sliders) - 1))
            # at once, not `focus()`: the next key of a burst starts from there
            self.screen.set_focus(sliders[to])

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

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        for slider in self._sliders.values():
            slider.set_class(slider is event.widget, "-expanded")

    def on_threshold_slider_changed(self, message: ThresholdSlider.Changed) -> None:
        message.stop()
        letter = message.slider.letter
        moved = self.thresholds = DIAGNOSTICS[letter].moved(self.thresholds, message.value)
        series, drag = None, ""
        if message.how != "set":
            series = f"{letter} {message.how}"
        if series and message.how.startswith("drag"):
            drag = series
        self._record(self._history.current._replace(thresholds=moved), series)
        self.post_message(ThresholdsChanged(moved, drag=drag))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what can be undone or redone is offered."""
        return action not in ("undo", "redo") or action in self._history.offers

    def _record(self, judging: Judging, series: str | None) -> None:
        self._history.record(judging, series, time.monotonic())
        self._offer()

    def _travel(self, step: Callable[[], Judging]) -> None:
        """Undo or redo, show it, and report what is other than before."""
        before = self._history.current
        thresholds, baseline = step()
        self._offer()
        if baseline != before.baseline:
            self.post_message(BaselineChanged(baseline))
        if thresholds != before.thresholds:
            self._show(thresholds)
            self.post_message(ThresholdsChanged(thresholds))

    def _offer(self) -> None:
        """Refresh the key hints where undo or redo comes to be offered, or no longer is."""
        if self._history.offers != self._offered:
            self._offered = self._history.offers
            if self.is_attached:
                self.refresh_bindings()

    def _show(self, thresholds: DiagnosticThresholds) -> None:
        # else what is typed into one of them stays
        if thresholds != self.thresholds:
            self.thresholds = thresholds
            self._show_judged()

    def _show_judged(self) -> None:
        """Set the sliders to the thresholds."""
        for letter, slider in self._sliders.items():
            slider.set_value(DIAGNOSTICS[letter].limit(self.thresholds))
