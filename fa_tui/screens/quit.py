"""The question before leaving while jobs run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.widget import Widget

from fa_tui.screens.questions import Dialog
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.widgets.line import Line


class QuitScreen(Dialog[str | None]):
    """Asks once; returns ``"leave"``, ``"stop"`` (leave, and stop the commands), or None to stay.

    Args:
        jobs: how many runs are queued or measured.
        commands: how many commands run beside the explorer.
        glyphs: characters to draw with.
    """

    help_text = """\
Leaving while something runs
Runs that are measured here end with the explorer: those that are finished are on disk, the others can be
measured again.

Commands (training, audits) are processes of their own. They go on, and the shell tells their process and log,
unless you stop them: then they leave what is complete, and --resume goes on from there.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,q,enter", "dismiss('leave')", "Leave", key_display="y", tooltip="leave; commands go on"),
        Binding("s", "stop", "Stop and leave", tooltip="leave, and stop the commands"),
        Binding("n,escape,ctrl+c,ctrl+q", "dismiss(None)", "Stay", key_display="n", tooltip="stay here"),
        Binding("question_mark,f1", "app.help", "Help", key_display="?", tooltip="what each answer does"),
    ]

    DEFAULT_CSS = """
    QuitScreen {
        & > Vertical { width: 60; padding: 1 1; background: $panel; border: round $warning; }
        & KeyBar { margin-top: 1; }
    }
    """

    def __init__(self, jobs: int, commands: int = 0, *, glyphs: Glyphs) -> None:
        super().__init__(glyphs=glyphs)
        self._jobs, self._commands = jobs, commands

    def body(self) -> Iterable[Widget]:
        yield Line(self.glyphs, id="question")
        yield Line(self.glyphs, id="answer")

    def on_mount(self) -> None:
        waiting = []
        if self._jobs:
            waiting.append("1 job is not finished" if self._jobs == 1 else f"{self._jobs} jobs are not finished")
        if self._commands:
            waiting.append("1 command runs" if self._commands == 1 else f"{self._commands} commands run")
        self.query_one("#question", Line).set((f" {', '.join(waiting)}. Leave?", "strong"))
        answer = "Finished runs are on disk already."
        if self._jobs:
            answer = "Leaving cancels the jobs; finished runs are on disk."
        if self._commands:
            answer = "Commands go on after you left, unless you stop them."
        if self._jobs and self._commands:
            answer = "Jobs are cancelled; commands go on, unless stopped."
        self.query_one("#answer", Line).set((f" {answer}", "dim"))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only commands can be left or stopped."""
        return action != "stop" or self._commands > 0

    def action_stop(self) -> None:
        """Leave, and stop the commands."""
        self.dismiss("stop")
