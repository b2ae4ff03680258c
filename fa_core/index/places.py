"""Folders of many small files: the rows that each file or run folder gave when it was last read."""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from fa_core.index import store
from fa_core.index.stamps import Stamp, is_settled
from fa_core.rows import AuditRow

WORTHWHILE = 64
"""So many files or run folders are read as fast as the index itself."""


class _Entry(msgspec.Struct, array_like=True, frozen=True):
    """What a place gave, and the stamps of its files then."""

    stamps: tuple[Stamp | None, ...]
    rows: tuple[msgspec.Raw, ...]


_ENTRIES = msgspec.msgpack.Decoder(dict[str, _Entry])
_ROW = msgspec.msgpack.Decoder(AuditRow)


class PlaceIndex:
    """What places under one path gave, as that path was spelled: rows name their files as the person does.

    Only what was read without trouble is kept, and only once its files have settled.

    Args:
        root: the path that is searched.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._known = self._load()
        self._kept: dict[str, _Entry] = {}
        self._fresh = 0

    def recall(self, place: str, stamps: Sequence[Stamp | None]) -> list[AuditRow] | None:
        """What a place gave when its files had these stamps; None if that is not known."""
        entry = self._known.get(place)
        if entry is None or entry.stamps != tuple(stamps):
            return None
        try:
            rows = [_ROW.decode(row) for row in entry.rows]
        except msgspec.DecodeError:
            return None
        self._kept[place] = entry
        return rows

    def note(self, place: str, stamps: Sequence[Stamp | None], rows: Sequence[AuditRow], began: int) -> None:
        """Keep what a place gave.

        Args:
            place: its path.
            stamps: of the files that decide it, taken before it was read.
            rows: all that it gave.
            began: when reading it began (`time.time_ns`).
        """
        if not all(stamp is None or is_settled(stamp, began) for stamp in stamps):
            return
        try:
            msgspec.msgpack.encode(place)
            encoded = tuple(msgspec.Raw(msgspec.msgpack.encode(row)) for row in rows)
        except (OverflowError, TypeError, ValueError):  # an integer of more than 64 bits, a name that is no text
            return
        self._kept[place] = _Entry(tuple(stamps), encoded)
        self._fresh += 1

    def save(self) -> None:
        """Keep what was noted, if it is much; what was not met again is forgotten."""
        if self._fresh >= WORTHWHILE:
            store.write(self._name(), msgspec.msgpack.encode(self._kept))

    def _load(self) -> dict[str, _Entry]:
        data = store.read(self._name())
        try:
            return {} if data is None else _ENTRIES.decode(data)
        except msgspec.DecodeError:
            return {}

    def _name(self) -> str:
        return store.name_of("places", self._root, os.path.abspath(self._root))  # noqa: PTH100 (keeps "..", as links need)
