"""Text from a terminal: runs of characters at once, pastes with an end and without."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual import events
from textual._xterm_parser import XTermParser
from textual.message import Message

from fa_tui.terminal import typed
from fa_tui.terminal.typed import Parser, Typed

START, END = "\x1b[200~", "\x1b[201~"


def said(messages: list[Message]) -> list[str]:
    """Keys one by one, and pastes, as they are understood."""
    found: list[str] = []
    for message in messages:
        if isinstance(message, Typed):
            found += message.text
        elif isinstance(message, events.Key):
            found.append(message.character or message.key)
        elif isinstance(message, events.Paste):
            found.append(f"pasted {message.text}")
    return found


@given(
    st.lists(
        st.sampled_from(
            ["x" * 40, "ab", "\x1b[A", "\x1b[<0;3;4M", f"{START}a\nb{END}", "\r", "é漢"]
        ),
        max_size=8,
    )
)
def test_it_understands_what_textual_understands(pieces: list[str]) -> None:
    text = "".join(pieces)
    assert said([*Parser().feed(text)]) == said([*XTermParser().feed(text)])


@given(st.integers(1, 30))
def test_a_paste_may_come_in_parts(cut: int) -> None:
    parser, text = Parser(), f"{START}one two three{END}q"
    cut = max(cut, len(START))
    assert said([*parser.feed(text[:cut]), *parser.feed(text[cut:])]) == [
        "pasted one two three",
        "q",
    ]


@pytest.mark.parametrize("key", ["\x03", "\x11", "\x1b[99;5u"])
def test_a_key_that_leaves_ends_a_paste_that_never_does(key: str) -> None:
    parser = Parser()
    assert said([*parser.feed(f"{START}abc"), *parser.feed("def")]) == []
    first, last = [*parser.feed(key)]
    assert isinstance(first, events.Paste) and first.text == "abcdef"
    assert isinstance(last, events.Key) and last.key in ("ctrl+c", "ctrl+q")
    assert said([*parser.feed("q")]) == ["q"]


def test_a_paste_that_fell_silent_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    parser = Parser()
    assert not [*parser.feed(f"{START}abc"), *parser.tick()]
    monkeypatch.setattr(typed, "_SILENT_SECONDS", -1.0)
    assert said([*parser.tick()]) == ["pasted abc"]
    assert said([*parser.feed("q")]) == ["q"]


def test_of_a_huge_paste_a_part_is_kept_and_its_end_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(typed, "_MOST_PASTED", 100)
    parser = Parser()
    messages = [
        message
        for part in (START, "x" * 90, "y" * 90, END[:3], END[3:], "q")
        for message in parser.feed(part)
    ]
    paste, key = said(messages)
    assert len(paste) <= len("pasted ") + 100
    assert key == "q"
