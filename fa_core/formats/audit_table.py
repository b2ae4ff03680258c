"""Format 1: the audit table, ``{"reports": {"<method>_s<seed>": report}, "summary": [...]}``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.document import Document, Node, RepeatedKeys, convert, loads_keeping_repeats
from fa_core.formats.stored import Finding, StoredRows
from fa_core.rows import Problem

_BRACE = 64  # bytes in which an object's brace follows its last member


def sniff(document: Document) -> bool:
    """Whether the object has ``reports``."""
    return document.kind == "object" and "reports" in document.members


def read(document: Document) -> Iterator[Finding]:
    """The rows as they are stored, and the keys that stand more than once.

    Raises:
        UnreadableInput: ``reports`` is not an object.
    """
    place = f"{document.path}: $.reports"
    reports = _members(document, place)
    if isinstance(reports, RepeatedKeys):
        for key in reports.repeated:
            first = key.rpartition("#")[0]
            yield Problem(document.path, f"{place}.{first}: the key stands more than once; one more is read as {key}")
    yield StoredRows(document.path, list(reports), list(reports.values()))


def _members(document: Document, place: str) -> Mapping[str, Node]:
    """The members of ``reports``, one level deep; `RepeatedKeys` if a key stands twice."""
    node = document.members["reports"]
    members = convert(node, dict[str, msgspec.Raw], place) if isinstance(node, msgspec.Raw) else node
    if not isinstance(members, dict):
        raise UnreadableInput(f"not an object but a {type(members).__name__}", where=place, hint="see `fa-tui schema`")
    if all(isinstance(value, msgspec.Raw) for value in members.values()) and not _is_gapless(document.data, members):
        again = loads_keeping_repeats(document.data)["reports"]
        return again if isinstance(again, RepeatedKeys) else members
    return members


def _is_gapless(data: bytes, members: Mapping[str, msgspec.Raw]) -> bool:
    """Whether the members fill their object from the first to the last, supposing all are set apart like the first two.

    A decoder drops the earlier of two equal keys without a word; then bytes are left over. Adding lengths
    costs a hundredth of reading; what it doubts (mixed indentation, escaped keys) is read again slowly.
    """
    names = list(members)
    joined = "".join(names)
    if len(names) < 2 or not joined.isascii():
        return False
    first, second, last = (bytes(members[name]) for name in (names[0], names[1], names[-1]))
    start = data.find(first)
    gap = data.find(second, start + len(first)) - start - len(first)
    values = sum([len(memoryview(value)) for value in members.values()])
    between = (gap - len(names[1])) * (len(names) - 1) + len(joined) - len(names[0])
    end = start + values + between
    return gap > 0 and data.startswith(last, end - len(last)) and data[end : end + _BRACE].lstrip().startswith(b"}")
