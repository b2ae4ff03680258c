"""A short list to choose from, by key, arrow or mouse."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.widget import Widget

from fa_tui.screens.dialog import Dialog
from fa_tui.views.fitting import padded, width_of
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line
from fa_tui.widgets.painted import PaintedScroll, Row, ending


class Choice(NamedTuple):
    """One entry: the key that takes it (``""`` if none), what it is, what more there is to say, what it stands for."""

    key: str
    text: str
    note: str
    value: str


class ChoiceList(PaintedScroll, can_focus=True):
    """The entries, one per line.

    Args:
        choices: the entries.
        glyphs: characters to draw with.
        take: called with the entry that is chosen, at once: the next key of a burst goes where that leads.
    """

    COMPONENT_CLASSES = {"choice--key", "choice--text", "choice--note", "choice--cursor"}

    DEFAULT_CSS = """
    ChoiceList {
        height: auto; max-height: 100%;
        background: $surface;
        scrollbar-size-vertical: 1;
        & > .choice--key { color: $accent; text-style: bold; }
        & > .choice--text { color: $foreground; }
        & > .choice--note { color: $text-muted; }
        & > .choice--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("home,g", "edge(-1)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("enter", "take", "Take", tooltip="take the line under the cursor"),
    ]

    def __init__(self, choices: Sequence[Choice], glyphs: Glyphs, take: Callable[[Choice], object]) -> None:
        super().__init__()
        self.choices = list(choices)
        self.at = 0
        self._glyphs, self._take = glyphs, take

    @property
    def current(self) -> Choice | None:
        """The entry under the cursor."""
        return self.choices[self.at] if self.choices else None

    def set_choices(self, choices: Sequence[Choice]) -> None:
        """Show other entries."""
        self.choices = list(choices)
        self.at = max(0, min(self.at, len(choices) - 1))
        self.repaint()
        self.refresh(layout=True)

    def draw(self, width: int) -> Sequence[Row]:
        say = self._glyphs.say
        longest = max((width_of(say(choice.text)) for choice in self.choices), default=0)
        rows: list[Row] = []
        for index, choice in enumerate(self.choices):
            pieces: Row = [
                (f" {choice.key or ' '} ", "choice--key"),
                (f" {padded(say(choice.text), longest)}  ", "choice--text"),
                (say(choice.note), "choice--note"),
            ]
            pieces = ending(pieces, width, self._glyphs.ellipsis, "choice--note")
            here = index == self.at
            rows.append([(text, "choice--cursor" if here else style) for text, style in pieces])
        return rows

    def action_move(self, step: int) -> None:
        """Go to another entry."""
        if self.choices:
            self.at = (self.at + step) % len(self.choices)
            self.scroll_to_region_of(self.at)
            self.repaint()

    def action_edge(self, direction: int) -> None:
        """Go to the first entry, or the last one."""
        if self.choices:
            self.at = 0 if direction < 0 else len(self.choices) - 1
            self.scroll_to_region_of(self.at)
            self.repaint()

    def scroll_to_region_of(self, index: int) -> None:
        """Bring an entry into view."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        self.scroll_to(y=min(index, max(top, index - height + 1)), animate=False, immediate=True)

    def action_take(self) -> None:
        """Choose the entry under the cursor."""
        if self.current is not None:
            self._take(self.current)

    def on_key(self, event: events.Key) -> None:
        choice = next((choice for choice in self.choices if choice.key and choice.key == event.character), None)
        if choice is not None:
            event.stop()
            event.prevent_default()
            self._take(choice)

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if 0 <= index < len(self.choices):
            self._take(self.choices[index])


class ChoiceScreen(Dialog[str | None]):
    """Returns the value of the entry that was chosen, or None after Esc.

    Args:
        title: what is chosen.
        choices: the entries.
        glyphs: characters to draw with.
    """

    help_text = """\
A list to choose from
The key in front of a line takes it at once, and so does a click. Or move with ↑ ↓ (k j) and take with Enter.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,ctrl+c,ctrl+q", "dismiss(None)", "Never mind", key_display="esc", tooltip="close the list"),
        Binding("question_mark,f1", "app.help", "Help", key_display="?", tooltip="what this list is and its keys"),
    ]

    DEFAULT_CSS = """
    ChoiceScreen {
        background: transparent;
        &:ansi { background: transparent; }
        & > Vertical { width: 76; }
        & Line { background: $surface; }
    }
    """

    def __init__(self, title: str, choices: Sequence[Choice], *, glyphs: Glyphs) -> None:
        super().__init__(glyphs=glyphs)
        self._title = title
        self._choices = choices

    def body(self) -> Iterable[Widget]:
        yield Line(self.glyphs, id="choice-title")
        yield ChoiceList(self._choices, self.glyphs, lambda choice: self.dismiss(choice.value))

    def on_mount(self) -> None:
        self.query_one("#choice-title", Line).set((self._title, "strong"))
        self.set_focus(self.query_one(ChoiceList))
