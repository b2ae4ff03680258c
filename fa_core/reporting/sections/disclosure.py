"""Pitfalls disclosure and provenance: enough to measure again, and what is not recorded said."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from fa_core.naming import listed
from fa_core.reporting.blocks import Block, Bullets, Grid, Heading, Paragraph
from fa_core.reporting.numbers import MISSING

if TYPE_CHECKING:
    from fa_core.table import AuditTable

PITFALLS = (
    "Norms are taken along the feature axis of each sample, never by x.norm(-1).",
    "Cosines are computed in float64 without an eps clamp; a zero norm gives N/A.",
    "Gradients of fp16 and bf16 models are measured in float32 unless the row says otherwise.",
    "Γ is measured with the feedback that the net was trained with; fresh draws are used as the null only.",
    "Every single Γ names its aggregation; the per-layer values are given.",
    "Γ_0 is given apart; a deep mean is over l ≥ 1.",
    "Credit that was not saved reads N/A; it is never replaced by the gradient itself.",
)
"""What this project does about each of the seven pitfalls (`fa-tui pitfalls` runs them)."""

_FIELDS = (
    ("batch size B", "batch_size"),
    ("batches K for (c)", "n_batches"),
    ("batches for (a), (b)", "norm_batches"),
    ("arithmetic", "dtype"),
    ("hidden states as vectors", "flatten"),
    ("layer of (c)", "stability_layer"),
    ("accuracy from", "headline_acc_source"),
)


def pitfalls_block() -> Iterator[Block]:
    """The disclosure, for numbers measured by this project; recorded numbers are their source's."""
    yield Heading("Pitfalls disclosure", 2)
    yield Bullets(PITFALLS, numbered=True)
    yield Paragraph(
        "This holds for what fa-tui measured. Numbers read from other files are as their authors computed them."
    )


def provenance(table: AuditTable) -> Iterator[Block]:
    """How the numbers were measured, per distinct setting, and where they come from."""
    from fa_core import __version__

    settings: Counter[tuple[str, ...]] = Counter()
    extras: dict[str, Counter[str]] = {}
    for i in range(len(table)):
        report = table.report(i)
        settings[tuple(_shown(getattr(report, name)) for _, name in _FIELDS)] += 1
        for name, value in _flat(report.provenance):
            extras.setdefault(name, Counter())[_shown(value)] += 1
    yield Heading("Provenance", 2)
    yield Grid(
        headings=("runs", *(title for title, _ in _FIELDS)),
        rows=tuple((str(count), *values) for values, count in settings.items()),
        caption=f"How the numbers were measured ({MISSING}: the source does not say).",
        words=1 + len(_FIELDS),
    )
    if extras:
        yield Bullets(tuple(_extra(name, values) for name, values in sorted(extras.items())))
    else:
        yield Bullets(("No hashes, versions or devices are recorded with these numbers.",))
    sources = list(dict.fromkeys(str(source) for source in table.source))
    yield Bullets((f"Sources: {listed(sources, 12) or 'none'}", f"Judged and written by fa-tui {__version__}"))


def _flat(nested: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Leaves of nested mappings under names such as ``versions torch``."""
    for name, value in nested.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", value


def _shown(value: Any) -> str:
    return MISSING if value is None else str(value)


def _extra(name: str, values: Counter[str]) -> str:
    if len(values) == 1:
        return f"{name}: {next(iter(values))}"
    listed = "; ".join(f"{value} ({count})" for value, count in values.most_common(4))
    return f"{name}: {len(values)} values: {listed}" + ("; …" if len(values) > 4 else "")
