"""Epoch traces in JSON (format 5): an object per epoch, in lines or a list, and transformers'
``trainer_state.json``."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Document, Finding
from fa_core.formats.log_columns import is_log, may_be_log
from fa_core.formats.logs import Entry, traces_of
from fa_core.formats.rows import Problem, row_of_file

_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether the entries have an epoch or step and a number that is read."""
    return is_log(names_in(document), document.columns)


def names_in(document: Document) -> list[str]:
    """The names in a log's entries."""
    return list(dict.fromkeys(chain.from_iterable(fields for _, fields in _entries(document))))


def _entries(document: Document) -> list[Entry]:
    """The entries that are objects, or the one of a file."""
    entries = document.listed(_HISTORY) or document
    if entries.kind == "object":
        return [(document.path, document.members)]
    return [(entries.place(index), fields) for index, fields in entries.objects()]


def unread(document: Document, named: bool) -> list[str]:
    """The names in a log of no known columns; none for a single object that is hardly one."""
    names = names_in(document)
    if document.kind == "object" and _HISTORY not in document.members:
        return names if named and may_be_log(names) else []
    return names


def read(document: Document) -> Iterator[Finding]:
    """The traces of a file (one per run, if entries name them), and problems for invalid entries.

    Raises:
        UnreadableInput: no whole epoch.
    """
    yield from document.problems
    entries = document.listed(_HISTORY) or document
    for index, node in entries.items:
        if not isinstance(node, dict):
            where = entries.place(index)
            yield Problem(document.path, f"{where}: not a JSON object; the entry is skipped")
    logged = _entries(document)
    if not logged:
        raise UnreadableInput(
            "no whole epoch in the trace", where=document.path, hint="wait for the first epoch"
        )
    row = row_of_file(document.path)
    yield from traces_of(row, logged, document.columns, unfinished=document.unfinished)
