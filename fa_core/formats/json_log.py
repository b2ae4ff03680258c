"""Epoch traces in JSON (format 5): an object per epoch, in lines or a list, and transformers'
``trainer_state.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Document, Finding
from fa_core.formats.log_columns import is_log, may_be_log
from fa_core.formats.logs import Entry, traces_of
from fa_core.formats.rows import Problem, row_of_file

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether the entries have an epoch or step and a number that is read."""
    return is_log(names_in(document), document.columns)


def names_in(document: Document) -> list[str]:
    """The names in a log's entries."""
    entries = document.listed(_HISTORY) or document
    if entries.kind == "object":
        return list(entries.members)
    found = (fields for _, fields in entries.objects())
    return list(dict.fromkeys(chain.from_iterable(found)))


def unread(document: Document, named: bool) -> list[str]:
    """The names in a log of no known columns; none for a single object that is hardly one."""
    names = names_in(document)
    if document.kind == "object" and _HISTORY not in document.members:
        return names if named and may_be_log(names) else []
    return names


def read(document: Document) -> Iterator[Finding]:
    """The traces of a file (one per run, if entries name them), and problems for invalid entries.

    Of a Trainer's states in the checkpoints of a run only the last is read, which holds the
    history.

    Raises:
        UnreadableInput: no whole epoch.
    """
    yield from document.problems
    logged: list[Entry] = []
    path = Path(document.path)
    history = document.listed(_HISTORY)
    if document.kind == "object" and history is None:
        logged = [(document.path, document.fields())]
    elif _superseded(path):
        return
    for index, node in (history or document).items:
        where = (history or document).place(index)
        if isinstance(node, dict):
            logged.append((where, node))
        else:
            yield Problem(document.path, f"{where}: not a JSON object; the entry is skipped")
    if not logged:
        raise UnreadableInput(
            "no whole epoch in the trace", where=document.path, hint="wait for the first epoch"
        )
    if _CHECKPOINT.fullmatch(path.parent.name):
        path = path.parent.parent / path.name
    row = msgspec.structs.replace(row_of_file(str(path)), source=document.path)
    yield from traces_of(row, logged, document.columns, unfinished=document.unfinished)


def _superseded(path: Path) -> bool:
    """Whether the run's folder, or a later checkpoint in it, has a file of this name."""
    mine = _CHECKPOINT.fullmatch(path.parent.name)
    if mine is None:
        return False
    run = path.parent.parent
    others = (
        _CHECKPOINT.fullmatch(other.parent.name) for other in run.glob(f"checkpoint-*/{path.name}")
    )
    return (run / path.name).is_file() or any(
        int(other[1]) > int(mine[1]) for other in others if other
    )
