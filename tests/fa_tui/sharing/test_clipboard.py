"""The clipboard: which way a text takes out of which terminal, and what is said where there is none."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fa_tui.sharing import clipboard
from fa_tui.sharing.clipboard import Copied, copy

XTERM = {"TERM": "xterm-256color"}
SSH = {**XTERM, "SSH_CONNECTION": "1.2.3.4 5 6.7.8.9 22"}


class Machine:
    """Programs that are there, and what they and the terminal were given."""

    def __init__(self, *programs: str, fails: Sequence[str] = ()) -> None:
        self.programs, self.fails = programs, fails
        self.ran: list[tuple[str, ...]] = []
        self.sent: list[str] = []

    def run(self, program: Sequence[str], data: bytes) -> bool:
        self.ran.append(tuple(program))
        return program[0] in self.programs and " ".join(program) not in self.fails


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "copied.txt"


def copied(
    machine: Machine, environ: Mapping[str, str], file: Path, monkeypatch: pytest.MonkeyPatch
) -> Copied:
    monkeypatch.setattr(clipboard.sys, "platform", "linux")
    monkeypatch.setattr(
        clipboard.shutil, "which", lambda name: name if name in machine.programs else None
    )
    monkeypatch.setattr(clipboard, "_run", machine.run)
    return put("‖h‖ 7", machine.sent, environ, file, monkeypatch)


def put(
    text: str,
    sent: list[str],
    environ: Mapping[str, str],
    file: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Copied:
    monkeypatch.setattr(clipboard, "state_folder", lambda: file.parent)
    for name in (
        "TERM",
        "TERM_PROGRAM",
        "DISPLAY",
        "WAYLAND_DISPLAY",
        "TMUX",
        "STY",
        "TEXTUAL_DRIVER",
    ):
        monkeypatch.delenv(name, raising=False)
    for name in ("SSH_CONNECTION", "SSH_TTY", "SSH_CLIENT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    return copy(text, sent.append)


def test_over_ssh_the_terminal_is_asked(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("xclip")
    result = copied(machine, {**SSH, "DISPLAY": ":0"}, file, monkeypatch)
    assert result == Copied("the clipboard, if the terminal allows it")
    (sequence,) = machine.sent
    assert sequence.startswith("\x1b]52;c;")
    assert sequence.endswith("\a")
    assert base64.b64decode(sequence[7:-1]).decode() == "‖h‖ 7"
    assert not machine.ran


def test_under_tmux_its_buffer_hands_the_text_on(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("tmux")
    assert copied(machine, {**SSH, "TMUX": "/tmp/x,1,0"}, file, monkeypatch).in_clipboard
    assert machine.ran == [("tmux", "load-buffer", "-w", "-")]
    assert not machine.sent


def test_an_old_tmux_keeps_the_text_and_says_how_to_paste(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("tmux", fails=["tmux load-buffer -w -"])
    assert "prefix ]" in copied(machine, {**SSH, "TMUX": "/tmp/x,1,0"}, file, monkeypatch).where


@pytest.mark.parametrize(
    ("display", "program"),
    [({"WAYLAND_DISPLAY": "wayland-0"}, "wl-copy"), ({"DISPLAY": ":0"}, "xsel")],
)
def test_on_a_desktop_its_own_program_is_used(
    file: Path, monkeypatch: pytest.MonkeyPatch, display: Mapping[str, str], program: str
) -> None:
    machine = Machine(program)
    assert copied(machine, {**XTERM, **display}, file, monkeypatch) == Copied("the clipboard")
    assert machine.ran[-1][0] == program


def test_in_a_browser_the_browsers_clipboard_is_meant_whatever_the_server_runs_in(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine("tmux", "xclip")
    environ = {
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "TMUX": "x",
        "DISPLAY": ":0",
    }
    assert copied(machine, environ, file, monkeypatch).in_clipboard
    assert machine.sent
    assert not machine.ran


@pytest.mark.parametrize(
    "environ",
    [
        {"TERM": "linux"},
        {"TERM": "vt220"},
        {},
        {**XTERM, "TERM_PROGRAM": "Apple_Terminal", "SSH_TTY": "/dev/pts/0"},
        {**SSH, "TMUX": "/tmp/gone,1,0"},
        {**SSH, "TERM": "screen-256color", "STY": "1.x"},
    ],
)
def test_without_a_clipboard_a_file_is_written_and_named(
    file: Path, monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str]
) -> None:
    machine = Machine()
    result = copied(machine, environ, file, monkeypatch)
    assert not result.in_clipboard
    assert result.where == f"{file} (this terminal has no clipboard)"
    assert file.read_text(encoding="utf-8") == "‖h‖ 7"
    assert not machine.sent


def test_a_text_too_long_for_terminals_goes_to_a_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    result = put("x" * 80_000, sent, SSH, file, monkeypatch)
    assert "too long" in result.where
    assert len(file.read_bytes()) == 80_000
    assert not sent


def test_a_program_that_hangs_or_is_missing_is_no_clipboard(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipboard, "_SECONDS", 0.05)
    assert not clipboard._run(["sleep", "30"], b"")
    assert not clipboard._run(["no-such-program-at-all"], b"")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="no tmux here")
def test_a_real_tmux_has_the_text_in_its_buffer(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    monkeypatch.delenv("TMUX", raising=False)
    subprocess.run([*tmux, "new-session", "-d", "sleep 600"], check=True)
    try:
        monkeypatch.setenv("TMUX", f"{tmp_path / 'socket'},1,0")
        result = copy("‖h‖ 7", lambda sequence: None)
        shown = subprocess.run([*tmux, "show-buffer"], check=True, capture_output=True).stdout
        assert result.in_clipboard
        assert shown.decode() == "‖h‖ 7"
    finally:
        subprocess.run([*tmux, "kill-server"], check=True)
