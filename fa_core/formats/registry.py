"""The JSON formats, in the order they are asked. A new format is one module with ``sniff`` and ``read``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from fa_core.formats import audit_list, audit_table, epoch_trace, penalty_log, single_report
from fa_core.formats.document import Document
from fa_core.formats.stored import Finding


class Format(NamedTuple):
    """A kind of JSON file.

    Attributes:
        name: what a person calls it.
        markers: one of these bytes stands in the head of every such file.
        sniff: whether a document is of this kind.
        read: what it holds.
    """

    name: str
    markers: tuple[bytes, ...]
    sniff: Callable[[Document], bool]
    read: Callable[[Document], Iterator[Finding]]


FORMATS: tuple[Format, ...] = tuple(
    Format(module.NAME, module.MARKERS, module.sniff, module.read)
    for module in (audit_table, penalty_log, epoch_trace, single_report, audit_list)
)


def may_be_known(head: bytes) -> bool:
    """Whether the head of a JSON file shows a key of some format."""
    return any(marker in head for form in FORMATS for marker in form.markers)


def recognise(document: Document) -> Format | None:
    """The format of a document, by its content; None if it is none of ours."""
    return next((form for form in FORMATS if form.sniff(document)), None)
