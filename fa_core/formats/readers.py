"""Readers of JSON files in the order they are tried, and readers of other packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple, Protocol

from fa_core.errors import UsageError
from fa_core.formats import audit_table, checkpoint_file, log_files
from fa_core.formats import report_object as reports
from fa_core.formats.json_document import Document, Finding
from fa_core.option_values import FORMATS as PLUGIN_READERS
from fa_core.option_values import load_plugin, plugins

HEAD = 1 << 18
"""Bytes by which a file is recognized; a larger file is read on only if they hold a marker."""


class Format(NamedTuple):
    """A JSON format and its reader.

    Attributes:
        name: its name in messages.
        markers: byte strings; every such file has one of them in its head.
        sniff: recognizes a document of this format.
        read: reads the runs in a document.
    """

    name: str
    markers: tuple[bytes, ...]
    sniff: Callable[[Document], bool]
    read: Callable[[Document], Iterator[Finding]]

    def marks(self, head: bytes) -> bool:
        """Whether a file's head holds one of the markers."""
        return any(marker in head for marker in self.markers)


_POSITIONS = (b'epoch"', b'step"')
_TABLES = (b'"reports"', b'"summary"', b'"method_name"', b'"residual_norms"')
_FIELDS = tuple(b'"%s"' % name.encode() for name in sorted(reports.MEASURED))

FORMATS: tuple[Format, ...] = (
    Format(
        "audit that goes on", (b'"journal"',), audit_table.sniff_journal, audit_table.read_journal
    ),
    Format("audit table", _TABLES, audit_table.sniff, audit_table.read),
    Format("penalty log", (b'"log"',), log_files.sniff_penalty, log_files.read_penalty),
    Format("epoch trace", _POSITIONS, log_files.sniff, log_files.read),
    Format("single report", _FIELDS, reports.sniff, reports.read),
    Format("audit list", (b'"method"', b'"method_name"'), reports.sniff_list, reports.read_list),
    Format(
        "index of shards",
        (b'"weight_map"',),
        checkpoint_file.sniff_index,
        checkpoint_file.read_index,
    ),
)
"""The JSON formats in the order they are tried; a new one is a module and an entry here."""

_LOGS = "CSV of epochs, TensorBoard events"
KNOWN = ", ".join([*(form.name for form in FORMATS), _LOGS, checkpoint_file.NAME])
"""Names of all formats, for messages."""


def may_be_known(head: bytes) -> bool:
    """Whether the head of a JSON file holds a marker of any format."""
    return any(form.marks(head) for form in FORMATS)


def format_of(document: Document) -> Format | None:
    """The first format that recognizes a document."""
    head = document.data[:HEAD]
    for form in FORMATS:
        # a log's columns may have any names then
        if (document.columns or form.marks(head)) and form.sniff(document):
            return form
    return None


class PluginReader(Protocol):
    """A reader of another package (docs/extend.md)."""

    def sniff(self, path: str, head: bytes) -> bool:
        """Whether a file is of its format."""

    def read(self, path: str) -> Iterable[Finding]:
        """The runs in a file."""


@lru_cache
def plugin_readers() -> tuple[list[PluginReader], list[str]]:
    """Readers of other packages, and error messages of those that cannot be imported."""
    found = []
    broken = []
    for point in plugins(PLUGIN_READERS).values():
        try:
            found.append(load_plugin(point))
        except UsageError as error:  # noqa: PERF203 (a few packages)
            broken.append(str(error))
    return found, broken
