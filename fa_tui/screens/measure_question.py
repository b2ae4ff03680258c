"""What `m` asks for checkpoints that no manifest describes: the data, and the network."""

from __future__ import annotations

from collections.abc import Callable

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical

from fa_core.errors import FaError
from fa_core.option_values import ARCHS, check_data_set, network_spec
from fa_tui.screens.questions import Question
from fa_tui.settings import MeasureAnswer
from fa_tui.widgets.entry import Entry
from fa_tui.widgets.line import KeyBar, Line, TextLines

_POSSIBLE_DATA = """\
 synthetic            the teacher-student task
 digits               8 × 8 digits (needs scikit-learn)
 cifar10:DIR          also cifar100:DIR
 imagefolder:DIR      ,size=224
 npz:FILE             arrays x and y
 my_module:make       your own function"""

_POSSIBLE_NETWORKS = f"""\
 (empty)              found from the names and shapes in the checkpoint
 {", ".join(ARCHS)}
 timm:NAME            also torchvision:NAME
 hf:FOLDER            of the transformers library
 my_module:Net        your own class or function; (depth=4) gives arguments"""


def fault_of(check: Callable[[str], object], text: str) -> str:
    """What a check says against a text; ``""`` if nothing."""
    try:
        check(text)
    except FaError as error:
        return str(error)
    return ""


class MeasureScreen(Question[MeasureAnswer]):
    """Two lines to type, and what is possible on the one with the focus.

    Args:
        what: the runs that are asked about, e.g. ``3 checkpoints in runs/``.
        answer: what was typed for this folder the last time.
    """

    BINDINGS = [
        Binding("enter", "take", "Measure", priority=True, tooltip="measure with what is typed"),
        Binding("tab,down", "app.focus_next", "Other line", key_display="tab", priority=True),
        Binding("shift+tab,up", "app.focus_previous", show=False, priority=True),
    ]

    def __init__(self, what: str, answer: MeasureAnswer) -> None:
        super().__init__()
        self._what = f" {what}: measure on which data? Kept for the folder."
        self.data = Entry(answer.data, id="measure-data", select_on_focus=True)
        self.model = Entry(answer.model, id="measure-model", select_on_focus=True)
        self.note = Line(id="measure-note")
        self.possible = TextLines(id="measure-possible")
        self.possible.can_focus = False

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Line((self._what, "strong"), id="measure-what")
            with Horizontal():
                yield Line((" data     ", "accent"), id="asks-data")
                yield self.data
            with Horizontal():
                yield Line((" network  ", "accent"), id="asks-network")
                yield self.model
            yield self.note
            yield self.possible
            yield KeyBar()

    def on_mount(self) -> None:
        self.set_focus(self.data)

    def on_descendant_focus(self) -> None:
        """Show what the line that has the focus may hold."""
        words = _POSSIBLE_DATA
        if self.focused is self.model:
            words = _POSSIBLE_NETWORKS
        self.possible.set_lines(words.splitlines())
        self.on_input_changed()

    def on_input_changed(self) -> None:
        fault = self._fault()
        if fault:
            self.note.set((f" {fault}", "warn"))
        else:
            self.note.set((" Enter measures", "dim"))

    def _fault(self) -> str:
        """Why what is typed cannot be measured with; ``""`` if it can."""
        if not self.data.value.strip():
            return "data is needed: which samples to measure on"
        fault = fault_of(check_data_set, self.data.value.strip())
        if not fault and self.model.value.strip():
            fault = fault_of(network_spec, self.model.value.strip())
        return fault

    def action_take(self) -> None:
        """Return what is typed, if nothing is wrong with it."""
        if not self._fault():
            answer = MeasureAnswer(self.data.value.strip(), self.model.value.strip())
            self.dismiss(answer)
