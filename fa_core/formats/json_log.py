"""Epoch traces in JSON (format 5): an object per epoch, in lines or a list, and transformers'
``trainer_state.json``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Document, Finding
from fa_core.formats.log_names import is_log
from fa_core.formats.logged import named_by_place, traces_of
from fa_core.formats.logged_epoch import Entry
from fa_core.rows import Problem

_PEEK = 20
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether some of the first entries have an epoch or step and a known field."""
    if document.kind == "object":
        return is_log(document.members) or {_HISTORY, "global_step"} <= document.members.keys()
    return any(is_log(fields) for _, fields in document.objects(_PEEK))


def read(document: Document) -> Iterator[Finding]:
    """The traces of a file (one per method and seed, if entries name them), and problems for
    invalid entries.

    Of a Trainer's states in the checkpoints of a run only the last is read, which holds the
    history.
    """
    yield from document.problems
    logged: list[Entry] = []
    history = document.listed(_HISTORY)
    if document.kind == "object" and history is None:
        logged = [(document.path, document.fields())]
    elif _superseded(Path(document.path)):
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
    yield from traces_of(named_by_place(document.path), logged, unfinished=document.unfinished)


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
