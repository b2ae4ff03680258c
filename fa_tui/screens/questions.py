"""Modal questions in a framed box: a list, a line of text, several of a list, whether to leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from fa_tui.views.text import padded, width_of
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import KeyBar, Line
from fa_tui.widgets.painted import PaintedScroll, Row, ending

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


ResultT = TypeVar("ResultT")


def leaving(keys: str, tooltip: str, does: str = "Cancel", *, priority: bool = False) -> Binding:
    """Binding that closes a question without an answer."""
    return Binding(
        keys, "dismiss(None)", does, key_display="esc", tooltip=tooltip, priority=priority
    )


def helping(tooltip: str) -> Binding:
    """Binding that explains a question."""
    return Binding("question_mark,f1", "app.help", "Help", key_display="?", tooltip=tooltip)


class Question(ModalScreen[ResultT]):
    """A modal screen that closes with its first answer; further answers, and answers while another
    screen covers it, are ignored.

    Textual would close the top screen instead.
    """

    app: ExplorerApp
    _answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        if self._answered or self.app.screen is not self:
            return AwaitComplete()
        self._answered = True
        return super().dismiss(result)


class Dialog(Question[ResultT]):
    """A framed box with a body, supplied by subclasses, and a key bar."""

    def body(self) -> Iterable[Widget]:
        """Widgets in the frame."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        self.set_class(not self.app.terminal.unicode, "-ascii")
        with Vertical():
            yield from self.body()
            yield KeyBar()


class Choice(NamedTuple):
    """An entry: its key (``""`` for none), text, note and value."""

    key: str
    text: str
    note: str
    value: object


class ChoiceList(PaintedScroll, can_focus=True):
    """A list of entries, one per line.

    Args:
        choices: the entries.
        take: called at once with the chosen entry, so that the next key of a burst goes to the new
            screen.
        does: label of Enter in the key bar.
    """

    BINDINGS = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("home,g", "go_to(0)", "First", show=False),
        Binding("end,G", "go_to(-1)", "Last", show=False),
        Binding("space", "take", show=False),
    ]

    def __init__(
        self, choices: Sequence[Choice], take: Callable[[Choice], object], does: str = "Select"
    ) -> None:
        super().__init__()
        self.choices, self._take, self.at = list(choices), take, 0
        self._bindings.key_to_bindings["enter"] = [
            Binding("enter", "take", does, tooltip="the line under the cursor")
        ]

    @property
    def current(self) -> Choice | None:
        """The entry under the cursor."""
        if self.choices:
            return self.choices[self.at]
        return None

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
            key = f" {choice.key or ' '} "
            text = f" {padded(say(choice.text), longest)}  "
            pieces: Row = [(key, "accent"), (text, "text"), (say(choice.note), "dim")]
            pieces = ending(pieces, width, self._glyphs.ellipsis, "dim")
            if index == self.at:
                pieces = [(text, "cursor") for text, _ in pieces]
            rows.append(pieces)
        return rows

    def action_move(self, step: int) -> None:
        """Go to another entry."""
        self.action_go_to(self.at + step)

    def action_go_to(self, place: int) -> None:
        """Move the cursor, wrapping at the ends, and scroll to it."""
        if self.choices:
            self.at = place % len(self.choices)
            top, height = self.scroll_offset.y, self.scrollable_content_region.height
            self.scroll_to(
                y=min(self.at, max(top, self.at - height + 1)), animate=False, immediate=True
            )
            self.repaint()

    def action_take(self) -> None:
        """Choose the entry under the cursor."""
        if self.current is not None:
            self._take(self.current)

    def on_key(self, event: events.Key) -> None:
        for choice in self.choices:
            if choice.key and choice.key == event.character:
                event.stop()
                event.prevent_default()
                self._take(choice)
                return

    def on_click(self, event: events.Click) -> None:
        index = event.y + self.scroll_offset.y
        if 0 <= index < len(self.choices):
            self._take(self.choices[index])


class ChoiceScreen(Dialog[Any]):
    """A list with a title. Returns the value of the chosen entry, or None after Esc.

    Args:
        title: what is chosen.
        choices: the entries.
        does: label of Enter in the key bar.
    """

    BINDINGS = [
        leaving("escape,q,ctrl+c,ctrl+q", "close the list"),
        helping("what this list is and its keys"),
    ]

    def __init__(self, title: str, choices: Sequence[Choice], does: str = "Select") -> None:
        super().__init__()
        self._title, self.list = title, ChoiceList(choices, self.taken, does)

    def body(self) -> Iterable[Widget]:
        yield Line((self._title, "strong"), id="choice-title")
        yield self.list

    def on_mount(self) -> None:
        self.set_focus(self.list)

    def taken(self, choice: Choice) -> None:
        """Handle the chosen entry."""
        self.dismiss(choice.value)


class EntryScreen(Question[str | None]):
    """A line of text. Returns the text, or None after Esc.

    Args:
        asks: the question.
        text: initial text, replaced by typing.
        hint: shown while the text is valid.
        check: returns the error of a text, or ``""``; Enter accepts only a valid text.
    """

    BINDINGS = [
        Binding("enter", "take", "Done", priority=True, tooltip="take what is typed"),
        leaving("escape,ctrl+c,ctrl+q", "leave everything as it was", priority=True),
        Binding(
            "f1", "app.help", "Help", key_display="F1", tooltip="what is typed here and its keys"
        ),
    ]

    def __init__(
        self, asks: str, *, text: str = "", hint: str = "", check: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._asks, self._hint, self._check = f" {asks} ", hint, check
        self.entry, self.note = Entry(text, select_on_focus=True), Line(id="entry-note")

    def compose(self) -> ComposeResult:
        with Vertical():
            with Horizontal():
                asks = Line((self._asks, "accent"), id="entry-asks")
                asks.styles.width = width_of(self.app.terminal.glyphs.say(self._asks))
                yield asks
                yield self.entry
            yield self.note
            yield KeyBar()

    def on_mount(self) -> None:
        self.set_focus(self.entry)
        self.on_input_changed()

    def on_input_changed(self) -> None:
        wrong = self.entry.full_words or self._check(self.entry.value)
        self.note.set((" ", ""), (wrong, "warn") if wrong else (self._hint, "dim"))

    def action_take(self) -> None:
        """Return the text, if it is valid."""
        if not self._check(self.entry.value):
            self.dismiss(self.entry.value)


class QuitScreen(Dialog[bool]):
    """Asks whether to quit while jobs run.

    Args:
        jobs: number of queued and running jobs.
    """

    BINDINGS = [
        Binding(
            "y,q,enter,ctrl+c,ctrl+q",
            "dismiss(True)",
            "Leave",
            key_display="y",
            tooltip="cancel the jobs and leave",
        ),
        Binding("n,escape", "dismiss(False)", "Stay", key_display="n", tooltip="stay here"),
        helping("what each answer does"),
    ]

    def __init__(self, jobs: int) -> None:
        super().__init__()
        self._jobs = jobs

    def body(self) -> Iterable[Widget]:
        waiting = "1 job is" if self._jobs == 1 else f"{self._jobs} jobs are"
        yield Line((f" {waiting} not finished. Leave?", "strong"), id="question")
        yield Line((" Leaving cancels the jobs; finished runs are on disk.", "dim"), id="answer")


def _no_fault(text: str) -> str:
    """The check that accepts every text."""
    return ""


class Dismissed(Exception):
    """A question was closed without an answer."""


def _given(answer: ResultT | None) -> ResultT:
    if answer is None:
        raise Dismissed
    return answer


async def choose(
    app: ExplorerApp, title: str, choices: Sequence[Choice], does: str = "Select"
) -> Any:
    """The value of the chosen entry.

    Raises:
        Dismissed: Esc, or an entry whose value is None.
    """
    return _given(await app.push_screen_wait(ChoiceScreen(title, choices, does)))


async def ask(
    app: ExplorerApp,
    asks: str,
    *,
    text: str = "",
    hint: str = "",
    check: Callable[[str], str] = _no_fault,
) -> str:
    """A line of text accepted by `check`.

    Raises:
        Dismissed: Esc.
    """
    return _given(await app.push_screen_wait(EntryScreen(asks, text=text, hint=hint, check=check)))
