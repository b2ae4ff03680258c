"""The screen: a tab bar, one page, the four sliders, the status line and the keys."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import ContentSwitcher

from fa_core.report.verdict_text import flips_of
from fa_tui.jobs.listing import Listed, progress_line
from fa_tui.later import after
from fa_tui.pages import PAGES
from fa_tui.pages.page import Page
from fa_tui.session import Session
from fa_tui.views.words import FIRST_VIEW, flip_words, parted
from fa_tui.widgets.line import KeyBar, StatusLine, TabBar, Title
from fa_tui.widgets.painted import hidden
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.pages.matrix import MatrixPage
    from fa_tui.widgets.filter_line import FilterLine
    from fa_tui.widgets.matrix import Matrix
    from fa_tui.widgets.sliders_panel import SlidersPanel


WIDTHS = [(0, "-tiny"), (40, "-slim"), (60, "-narrow"), (150, "-wide")]
HEIGHTS = [(0, "-flat"), (10, "-short"), (16, "-low"), (34, "-high")]
"""Minimum cells → class."""


def classes_at(size: Size) -> list[str]:
    """The classes of a size.

    >>> classes_at(Size(80, 24))
    ['-narrow', '-low']
    """
    sides = ((size.width, WIDTHS), (size.height, HEIGHTS))
    return [[name for least, name in classes if length >= least][-1] for length, classes in sides]


def is_too_small(size: Size) -> bool:
    """Whether a terminal of this size is too small."""
    return not {"-tiny", "-flat"}.isdisjoint(classes_at(size))


_SETTLE_SECONDS = 0.01
"""Seconds between checks for the first paint, before the other imports."""


class ExplorerScreen(Screen[None]):
    """Shows the application's snapshot on the open page and the sliders.

    Args:
        session: the first snapshot.
        name: of the first page.
        classes: as for any widget.

    Attributes:
        session: the shown snapshot.
        page: the open page.
        row: the selected run, on every page.
        sliders: the four sliders, from the first paint on.
    """

    app: ExplorerApp

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    BINDINGS = [
        Binding(
            "a",
            "slider('a')",
            "Slider",
            key_display="a-d",
            tooltip="go to the slider of a threshold",
        ),
        # listed with the first
        hidden("b", "slider('b')"),
        hidden("c", "slider('c')"),
        hidden("d", "slider('d')"),
        Binding(
            "m",
            "measure",
            "Measure",
            tooltip="measure the marked runs, or this one; compare where there is an audit",
        ),
        Binding(
            "slash",
            "filter",
            "Filter",
            key_display="/",
            tooltip="show only the runs that match what you type",
        ),
        Binding(
            "F",
            "flip_run",
            "Flip by all limits",
            tooltip="move the limits, for all runs, to where this run has another verdict; u: back",
        ),
        hidden(
            "z", "fold", "Fold", tooltip="the sliders folded, for a larger page; again: unfolded"
        ),
        hidden(
            "n", "next_flip(1)", "Next flip", tooltip="the next run that flipped with the last step"
        ),
        hidden("N", "next_flip(-1)", "Flip before", tooltip="the run that flipped before"),
        hidden(
            "escape",
            "back",
            "Back",
            tooltip="back: to the page, to the matrix; then a typed filter goes",
        ),
        *(hidden(tab.key, f"go({tab.name!r})", tab.name, tooltip=tab.about) for tab in PAGES[1:]),
        Binding(
            "P",
            "app.show_problems",
            "Problems",
            tooltip="files, settings not read, or only in part",
        ),
    ]

    def __init__(self, session: Session, *, name: str, classes: str) -> None:
        super().__init__(classes=classes)
        self.session = session
        self.row: int | None = None
        self.pages: dict[str, Page] = {}
        self.page = self._page_called(name)
        # widgets are attributes, since queries fail while the screen closes
        self.tabs = TabBar({tab.name: tab.key for tab in PAGES}, name, self.open)
        self.head = Title(id="title")
        self.status = StatusLine()
        self.sliders: SlidersPanel | None = None
        self._switcher = ContentSwitcher(self.page, id="pages", initial=name)
        self._sliders_place = Vertical(id="sliders-place")
        self._filter_line: FilterLine | None = None
        self._filter_from: int | None = None
        self._folds: bool | None = None

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.head
        yield self._switcher
        with self._sliders_place:
            yield self.status
        yield KeyBar()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Skip the first restyling: everything is already styled."""
        event.refresh_styles = self.stack_updates > 0

    def on_mount(self) -> None:
        self._fold()
        self.set_focus(self.page.main)
        self.describe()
        after(_SETTLE_SECONDS, self, self._settle)

    async def _settle(self) -> None:
        """Fill the page and the sliders after the first paint."""
        if not self._switcher.is_attached:
            return  # the app is closing
        if not self.app.painter.has_painted:
            after(_SETTLE_SECONDS, self, self._settle)
            return
        from fa_tui.widgets.sliders_panel import SlidersPanel  # after the first paint

        # current objects live until the end: exempt them from garbage collection
        gc.freeze()
        gc.enable()
        # styles of all that opens later: a CSS_PATH of each would parse the whole sheet again
        self.app.stylesheet.read(Path(__file__).with_name("later.tcss"))
        self.app.stylesheet.parse()
        self.sliders = SlidersPanel(self.session, lambda: self.page.counts())
        self._selected()
        with self.app.batch_update():
            await self.page.complete()
            await self._sliders_place.mount(self.sliders, before=self.status)

    # Pages

    def _page_called(self, name: str) -> Page:
        """A page, made when it is opened first."""
        if name not in self.pages:
            tab = next(tab for tab in PAGES if tab.name == name)
            self.pages[name] = tab.load()(self.session)
            self.pages[name].id = name
        return self.pages[name]

    async def action_go(self, name: str) -> None:
        """Open a page; the one that is open gives way to the first."""
        if name == self.page.id:
            name = PAGES[0].name
        await self.open(name)

    async def open(self, name: str) -> None:
        """Open a page, with the selected run."""
        self.app.painter.hold()
        # it was about the other page
        self.status.say("")
        page = self._page_called(name)
        is_new = not page.is_attached
        self.page = page
        self.tabs.open(name)
        if is_new:
            await self._switcher.add_content(page, set_current=True)
            await page.complete()
        else:
            self._switcher.current = name
            if page.session is not self.session:
                page.show(self.session)
        if self.row is not None:
            page.go_to(self.row)
        self._fold()
        self.set_focus(page.main)
        self._selected()
        self.describe()

    def describe(self) -> None:
        """Show what the open page says of itself."""
        if is_too_small(self.size):
            few = " < 40x10" if self.size.width < 24 else " 40x10 at least"
            self.head.set(("too small,", "warn"), (few, ""))
            return
        self.head.set(*self.page.title())
        self.status.explain(self.page.legend())
        if self.sliders is not None:
            self.sliders.show_summary()

    @property
    def matrix(self) -> Matrix:
        """The matrix."""
        return cast("MatrixPage", self._page_called("Matrix")).view

    # The snapshot

    def show(self, now: Session) -> None:
        """Show another snapshot."""
        before, self.session = self.session, now
        self.page.show(now)
        if self.sliders is not None:
            self.sliders.show(now)
        if now.is_step_from(before):
            return
        self.describe()
        if self._filter_line is not None and self._filter_from is not None:
            # the cursor returns to its run once that is in scope again
            self.page.go_to(self._filter_from)
        if now.seen is not before.seen or now.marked != before.marked:
            self._selected()

    @property
    def chosen(self) -> list[int]:
        """The marked runs, or the selected one."""
        return sorted(self.session.marked) or ([] if self.row is None else [self.row])

    @on(LineTable.Moved)
    def _selected(self) -> None:
        """The cursor of the page is on another run."""
        row = self.page.row
        if row is not None or self.page.id in ("Matrix", "Table"):
            self.row = row
        if self.sliders is not None:
            shown = None if self.row is None else self.session.rows[self.row]
            self.sliders.show_intervals(shown)
        self.refresh_bindings()

    def action_next_flip(self, step: int) -> None:
        """Go to the next run that flipped with the last step, or to the one before."""
        flips = [*chain(*parted(self.session))]
        if not flips:
            self.app.say(
                "no run flipped with the last step: { } on a slider go to the next that does",
                "dim",
            )
            return
        rows = [flip.row for flip in flips]
        place = (rows.index(self.row) + step) % len(rows) if self.row in rows else 0
        self.row = rows[place]
        self.page.go_to(self.row)
        words = flip_words(self.session, flips[place])
        self.app.say(f"{place + 1} of {len(rows)} flipped: {words}", "accent")

    # Keys

    @property
    def takes_keys(self) -> bool:
        """Whether the screen is complete and the last closed widget is gone."""
        closing = self._filter_line is not None and self._filter_line.is_done
        return self.sliders is not None and self.sliders.is_mounted and not closing

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        line = self._filter_line
        return action != "filter" or line is None or not line.has_focus_within

    def action_slider(self, letter: str) -> None:
        """Focus a threshold's slider."""
        if self.sliders is not None:
            # at once, so that the next keys go to the slider
            self.set_focus(self.sliders.sliders[letter])

    def action_fold(self) -> None:
        """Fold the sliders, or unfold them, on every page; again: as each page has room."""
        self._folds = None if self._folds is not None else not self._folds_by_itself
        self._fold()

    @property
    def _folds_by_itself(self) -> bool:
        return self.app.size.height < self.page.FOLDS_BELOW

    def _fold(self) -> None:
        folds = self._folds_by_itself if self._folds is None else self._folds
        self._sliders_place.set_class(folds, "-folded")

    async def action_back(self) -> None:
        """Go back: from the sliders to the page, within the page, to the matrix; then the filter
        goes, if it is not the first screen's."""
        on_sliders = self.sliders is not None and self.sliders.has_focus_within
        if on_sliders or self.focused is None:
            self.set_focus(self.page.main)
        elif self.page.back():
            pass
        elif self.page.id != PAGES[0].name:
            await self.open(PAGES[0].name)
        elif self.session.scope_text not in ("", FIRST_VIEW):
            self.app.action_widen(at_once=True)

    def action_measure(self) -> None:
        """Measure the marked runs, or the selected one; ask first what is not known."""
        if self.app.jobs.unknown(self.chosen):
            self.app.action_ask("measure")
        else:
            self.app.jobs.measure(self.chosen)

    def action_flip_run(self) -> None:
        """Move the thresholds to the nearest ones that give the run another judgement."""
        now = self.session
        flips = [] if self.row is None else flips_of(now.judged(self.row))
        if flips:
            self.app.step(now.but(thresholds=flips[0].moved(now.thresholds)))
        else:
            self.app.say("no thresholds give this run another verdict", "dim")

    async def action_filter(self) -> None:
        """Open the filter line, or focus it."""
        from fa_tui.widgets.filter_line import FilterLine  # after the first paint

        if self._filter_line is not None and not self._filter_line.is_done:
            self.set_focus(self._filter_line.entry)
            return
        line, self._filter_from = FilterLine(self.session), self.row
        self._filter_line = line
        await self.mount(line, after=self._sliders_place)
        self.set_focus(line.entry)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Close the filter line when it loses the focus: no key would close it any more."""
        line = self._filter_line
        if line is not None and line not in event.widget.ancestors:
            line.leave()

    async def on_filter_line_closed(self) -> None:
        line = self._filter_line
        # focus first: otherwise the removed widget's focus moves to a slider
        if self.focused is None or line in self.focused.ancestors:
            self.set_focus(self.page.main)
        if line is not None:
            await line.remove()
        self._filter_line = None
        self.refresh_bindings()

    # Other news

    def jobs_changed(self, jobs: Sequence[Listed]) -> None:
        """Show the progress of the jobs."""
        self.status.show_progress(progress_line(jobs))
        if self.page.id in ("Jobs", "Matrix", "Table"):
            self.page.show(self.session)

    def on_resize(self) -> None:
        self._fold()
        self.describe()
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        # a tiny terminal hid the focused widget: restore a focus for the keys
        if self.focused is None and not is_too_small(self.size):
            self.set_focus(self.page.main)
