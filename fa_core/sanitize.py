r"""Sanitized text: no name or note of a file sends commands to the user's terminal.

Characters that `str.isprintable` rejects become escapes such as ``\x1b``: control characters,
formats (writing direction, zero width), lone surrogates, private and unassigned code points, and
every white space but the ASCII space.
"""

from __future__ import annotations

import json
import re

_SPACES = (0xA0, 0x1680, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000)
WHITE_SPACE = "\t\n" + "".join(map(chr, _SPACES))
"""White space that is kept in the texts of a file: paths may hold it, and notes have lines."""

_STEERING = re.compile(r"^(\s*):(?=:)|#(?=#\[)")
"""Starts of the commands that GitHub's runner reads in what a step prints."""

_ESCAPE = re.compile(rb"\\(?:[bfr]|u([0-9a-fA-F]{4}))")


def sanitize(text: str, keep: str = "") -> str:
    r"""The text with escapes in place of characters that are not printable.

    Args:
        text: from a file, or a file's name.
        keep: characters to leave as they are.

    >>> sanitize("dfa\x1b[2J"), sanitize("Γ ≈ 1\n"), sanitize("Γ ≈ 1\n", WHITE_SPACE)
    ('dfa\\x1b[2J', 'Γ ≈ 1\\n', 'Γ ≈ 1\n')
    """
    if text.isprintable():
        return text
    parts = []
    for character in text:
        if character.isprintable() or character in keep:
            parts.append(character)
        else:
            parts.append(character.encode("unicode_escape").decode())
    return "".join(parts)


def one_line(text: str) -> str:
    r"""A text as a line of output: no control sequence, no second line, no command of a runner.

    >>> one_line("a\n::error::b"), one_line("::error::b"), one_line("##[error]")
    ('a\\n::error::b', '\\x3a:error::b', '\\x23#[error]')
    """
    if "::" not in text and "##[" not in text:
        return sanitize(text)
    return _STEERING.sub(_escaped_sign, sanitize(text))


def short_line(text: str, longest: int) -> str:
    """A text as `one_line`, cut in its middle to this many characters.

    >>> short_line("bp", 5), short_line("credit_bridge", 5)
    ('bp', 'cr…ge')
    """
    half = longest // 2
    return one_line(text if len(text) <= longest else f"{text[:half]}…{text[-half:]}")


def _escaped_sign(found: re.Match[str]) -> str:
    before = found[1] or ""
    code = ord(found[0][-1])
    return f"{before}\\x{code:x}"


_ODD = re.compile(r"[^ -~\n]|#(?=#\[)")


def in_json(text: str) -> str:
    r"""JSON with escapes in its strings for characters that are not printable, and in commands of
    a runner.

    >>> in_json('{"a": "Γ\x9b ##[error]"}')
    '{"a": "Γ\\u009b \\u0023#[error]"}'
    """
    return _ODD.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    if found[0] == "#":
        return r"\u0023"
    if found[0].isprintable():
        return found[0]
    return json.dumps(found[0])[1:-1]


def may_need_sanitizing(json_text: bytes) -> bool:
    r"""Whether JSON may hold characters that `sanitize` escapes, without decoding its values.

    >>> may_need_sanitizing(rb'"\u0393"'), may_need_sanitizing(rb'"\u001b"')
    (False, True)
    """
    if b"\\" in json_text:
        for code in set(_ESCAPE.findall(json_text)):
            if not code or not chr(int(code, 16)).isprintable():
                return True
    if json_text.isascii():
        return b"\x7f" in json_text
    in_one_line = json_text.translate(None, b"\t\n\r")
    return not in_one_line.decode(errors="surrogateescape").isprintable()
