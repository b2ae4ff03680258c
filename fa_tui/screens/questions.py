"""Modal questions in a framed box: a list, a line of text, several of a list, whether to leave."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import OptionList

from fa_tui.views.text import padded, widest, width_of
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import KeyBar, Line, TextLines
from fa_tui.widgets.painted import hidden, moving

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.views.glyphs import Glyphs


ResultT = TypeVar("ResultT")


class Question(ModalScreen[ResultT]):
    """A modal screen that closes with its first answer, without one by Esc and Ctrl+C; further
    answers, and answers while another screen covers it, are ignored.

    Textual would close the top screen instead.
    """

    BINDINGS = [
        Binding(
            "escape,ctrl+c,ctrl+q",
            "dismiss(None)",
            "Close",
            key_display="esc",
            tooltip="close it; nothing is done",
            priority=True,
        ),
    ]

    app: ExplorerApp
    _answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        if self._answered or self.app.screen is not self:
            return AwaitComplete()
        self._answered = True
        return super().dismiss(result)


class Dialog(Question[ResultT]):
    """A framed box with a body, supplied by subclasses, and a key bar."""

    BINDINGS = [
        Binding("question_mark,f1", "app.help", "Help", key_display="?", tooltip="what this is for")
    ]

    def body(self) -> Iterable[Widget]:
        """Widgets in the frame."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical():
            yield from self.body()
            yield KeyBar()


class Choice(NamedTuple):
    """An entry: its text, note and value."""

    text: str
    note: str
    value: object


def shown_choices(choices: Sequence[Choice], glyphs: Glyphs) -> list[Content]:
    """The lines of a list: number, text, note."""
    say = glyphs.say
    longest = widest(say(choice.text) for choice in choices)
    lines = []
    for number, choice in enumerate(choices, 1):
        text = f" {padded(say(choice.text), longest)}  "
        lines.append(Content.assemble((f"{number:>2} ", "bold"), text, (say(choice.note), "dim")))
    return lines


class ChoiceList(OptionList):
    """Textual's list, with the keys that move in every list here."""

    BINDINGS = moving(
        *("cursor_up", "cursor_down", "page_up", "page_down"),
        *("page_up", "page_down", "first", "last"),
    )


class ChoiceScreen(Dialog[Any]):
    """A list with a title. Returns the value of the chosen entry, or None after Esc.

    Args:
        title: what is chosen.
        choices: the entries.
    """

    BINDINGS = [
        Binding("enter", "take", "Select", priority=True),
    ]

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title, self.choices = title, choices
        self.list = ChoiceList(*shown_choices(choices, self.app.terminal.glyphs))

    def body(self) -> Iterable[Widget]:
        yield Line((self._title, "strong"), id="choice-title")
        yield self.list

    def on_key(self, event: events.Key) -> None:
        number = event.character or ""
        if number in map(str, range(1, 1 + len(self.choices))):
            event.stop()
            self.dismiss(self.choices[int(number) - 1].value)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Take the entry that was clicked."""
        self.dismiss(self.choices[event.option_index].value)

    def action_take(self) -> None:
        """Take the entry under the cursor at once: the next key of a burst is of the next
        screen."""
        if self.list.highlighted is not None:
            self.dismiss(self.choices[self.list.highlighted].value)


class EntryScreen(Question[str | None]):
    """A line of text. Returns the text without blanks around it, or None after Esc.

    Args:
        asks: the question.
        check: returns the error of a text, or ``""``; Enter accepts only a valid text.
        text: initial text, replaced by typing.
        hint: shown while the text is valid.
        suggester: completes the text.
        earlier: texts that a key brings back.
    """

    BINDINGS = [
        Binding("enter", "take", "Done", priority=True, tooltip="take what is typed"),
        Binding(
            "down",
            "earlier(1)",
            "Earlier",
            key_display="↑↓",
            priority=True,
            tooltip="one of those that were open before",
        ),
        hidden("up", "earlier(-1)", priority=True),
        Binding("tab", "complete", "Complete", priority=True, tooltip="take the grey letters"),
        Binding(
            "f1", "app.help", "Help", key_display="F1", tooltip="what is typed here and its keys"
        ),
    ]

    def __init__(
        self,
        asks: str,
        *,
        check: Callable[[str], str],
        text: str = "",
        hint: str,
        suggester: Suggester | None = None,
        earlier: Sequence[str] = (),
    ) -> None:
        super().__init__()
        self._asks, self._hint, self._check = f" {asks} ", hint, check
        self._earlier = ["", *earlier]
        self.entry = Entry(text, select_on_focus=True, suggester=suggester)
        self.note = TextLines(id="entry-note")
        # a click on it leaves the keys with the field
        self.note.can_focus = False

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
        self.on_input_changed()

    def on_input_changed(self) -> None:
        wrong = self.entry.full_words or self._check(self.typed)
        self.note.set_lines([*self._earlier[1:], wrong or self._hint])
        self.note.set_class(bool(wrong), "-wrong")

    @property
    def typed(self) -> str:
        """The text, without blanks around it."""
        return self.entry.value.strip()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "earlier":
            return len(self._earlier) > 1
        return action != "complete" or self.entry.suggester is not None

    def action_earlier(self, step: int) -> None:
        """Type an earlier text, or none."""
        here = self._earlier.index(self.entry.value) if self.entry.value in self._earlier else 0
        self.entry.value = self._earlier[(here + step) % len(self._earlier)]
        self.entry.action_end()

    def action_complete(self) -> None:
        """Take the suggested end of the text."""
        self.entry.action_end()
        self.entry.action_cursor_right()

    def action_take(self) -> None:
        """Return the text, if it is valid."""
        if not self._check(self.typed):
            self.dismiss(self.typed)


_LOOK_SECONDS = 0.2


class SureScreen(Dialog[bool]):
    """Asks before jobs end; closes once all of them are over.

    Args:
        asks: the question.
        note: what is lost, and what is kept.
        left: what there is left to end.
    """

    BINDINGS = [
        Binding("y,enter", "dismiss(True)", "Yes", key_display="y", tooltip="end it"),
        Binding("n", "dismiss(None)", "No", tooltip="go on"),
    ]

    def __init__(self, asks: str, note: str, left: Callable[[], object]) -> None:
        super().__init__()
        self._asks, self._note, self._left = asks, note, left

    def body(self) -> Iterable[Widget]:
        yield TextLines([f"# {self._asks}", self._note])

    def on_mount(self) -> None:
        self.set_interval(_LOOK_SECONDS, self._look)

    def _look(self) -> None:
        if not self._left():
            self.dismiss()


class Dismissed(Exception):
    """A question was closed without an answer."""


def _given(answer: ResultT | None) -> ResultT:
    if answer is None:
        raise Dismissed
    return answer


async def choose(app: ExplorerApp, title: str, choices: Sequence[Choice]) -> Any:
    """The value of the chosen entry.

    Raises:
        Dismissed: Esc, or an entry whose value is None.
    """
    return _given(await app.push_screen_wait(ChoiceScreen(title, choices)))


async def ask(app: ExplorerApp, question: EntryScreen) -> str:
    """A line of text that the question accepts.

    Raises:
        Dismissed: Esc.
    """
    return _given(await app.push_screen_wait(question))
