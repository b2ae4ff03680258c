"""The JSON formats, in the order they are asked. A new format is one module with ``sniff`` and ``read``, named here.

A module is imported for the first file that may be of its format: a start does not wait for the others.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from types import ModuleType

import msgspec

from fa_core.formats.document import Document
from fa_core.formats.reports import MEASURED
from fa_core.formats.stored import Finding


class Format(msgspec.Struct, frozen=True):
    """A kind of JSON file.

    Attributes:
        name: what a person calls it.
        markers: one of these bytes stands in the head of every such file.
        home: its module in this package.
    """

    name: str
    markers: tuple[bytes, ...]
    home: str

    @property
    def _module(self) -> ModuleType:
        return importlib.import_module(f"fa_core.formats.{self.home}")

    def marks(self, text: bytes) -> bool:
        """Whether a text shows one of the markers."""
        return any(marker in text for marker in self.markers)

    def sniff(self, document: Document) -> bool:
        """Whether a document is of this kind."""
        return self.marks(document.data) and bool(self._module.sniff(document))

    def read(self, document: Document) -> Iterator[Finding]:
        """What a document of this kind holds."""
        found: Iterator[Finding] = self._module.read(document)
        return found


FORMATS: tuple[Format, ...] = (
    Format("audit table", (b'"reports"', b'"summary"'), "audit_table"),
    Format("penalty log", (b'"log"',), "penalty_log"),
    Format("epoch trace", (b'"epoch"',), "epoch_trace"),
    Format("single report", tuple(b'"%s"' % name.encode() for name in sorted(MEASURED)), "single_report"),
    Format("audit list", (b'"method"', b'"method_name"'), "audit_list"),
)


def may_be_known(head: bytes) -> bool:
    """Whether the head of a JSON file shows a key of some format."""
    return any(form.marks(head) for form in FORMATS)


def recognise(document: Document) -> Format | None:
    """The format of a document, by its content; None if it is none of ours."""
    return next((form for form in FORMATS if form.sniff(document)), None)
