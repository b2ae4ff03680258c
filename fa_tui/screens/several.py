"""A short list of which several can be chosen, by key, arrow or mouse; what is behind follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from fa_tui.screens.choice import Choice, ChoiceList
from fa_tui.screens.dialog import Dialog
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line


class SeveralScreen(Dialog[None]):
    """Stays until Esc, and tells at once what is chosen.

    Args:
        title: what is chosen.
        names: what there is, each with more to say about it.
        chosen: of these.
        default: what is chosen again with a key.
        tell: called with the names that are chosen, in their order.
        glyphs: characters to draw with.
    """

    help_text = """\
A list of which several can be chosen
Enter, space, a click or the key in front of a line chooses it or leaves it out. What is behind the list follows
at once. There is nothing to confirm: Esc closes the list.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "take", "Choose", key_display="space", tooltip="choose a line, or leave it out"),
        Binding("0", "default", "Default", tooltip="what is chosen where nobody chose"),
        Binding("question_mark", "app.help", "Help", key_display="?", tooltip="what this list is and its keys"),
        Binding("escape,q,ctrl+c,ctrl+q", "dismiss", "Done", key_display="esc", tooltip="close the list"),
    ]

    DEFAULT_CSS = """
    SeveralScreen {
        background: transparent;
        &:ansi { background: transparent; }
        & > Vertical { width: auto; min-width: 48; }
        & ChoiceList, & KeyBar { width: 44; }
    }
    """

    def __init__(
        self,
        title: str,
        names: Sequence[tuple[str, str]],
        chosen: Iterable[str],
        *,
        default: Iterable[str],
        tell: Callable[[tuple[str, ...]], object],
        glyphs: Glyphs,
    ) -> None:
        super().__init__(glyphs=glyphs)
        self._title, self._names = title, list(names)
        self._chosen, self._default, self._tell = set(chosen), set(default), tell

    def body(self) -> Iterable[Widget]:
        yield Line(self.glyphs, id="choice-title")
        yield ChoiceList(self._choices(), self.glyphs, self._turn)

    def on_mount(self) -> None:
        self.query_one("#choice-title", Line).set((self._title, "accent"))
        self.set_focus(self.query_one(ChoiceList))

    def _choices(self) -> list[Choice]:
        keys = [*"123456789"]
        return [
            Choice(
                keys[place] if place < len(keys) else "", f"[{'x' if name in self._chosen else ' '}] {name}", note, name
            )
            for place, (name, note) in enumerate(self._names)
        ]

    def _turn(self, choice: Choice) -> None:
        self._choose(self._chosen ^ {choice.value})

    def action_take(self) -> None:
        """Choose the line under the cursor, or leave it out."""
        self.query_one(ChoiceList).action_take()

    def action_default(self) -> None:
        """Choose what is chosen where nobody chose."""
        self._choose(self._default)

    def _choose(self, chosen: set[str]) -> None:
        self._chosen = set(chosen)
        self.query_one(ChoiceList).set_choices(self._choices())
        self._tell(tuple(name for name, _ in self._names if name in self._chosen))
