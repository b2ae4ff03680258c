"""What else is known about the run in the detail pane: where its numbers come from and how they were measured."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from fa_core.report import DiagnosticReport
from fa_core.reporting.numbers import short
from fa_core.rows import AuditRow
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.views.text import cut, cut_start, folded, padded
from fa_tui.widgets.detail_layers import apart, signed
from fa_tui.widgets.painted import Row

_HASH = re.compile(r"(sha256:[0-9a-f]{12})[0-9a-f]{52}")
_SAID = ("checkpoint",)
"""What the row knows better: a file may have been moved since."""
_NAMES, _INDENT = 12, 2
_SHORTER = {
    "weights_dtype": "weights in",
    "device_label": "hardware",
    "frozen_baseline_from": "baseline of",
    "custom_backward": "backward by",
}
"""Names that their column would cut."""


def fact_rows(row: AuditRow, report: DiagnosticReport, width: int, glyphs: Glyphs) -> list[Row]:
    """A name and a value per line, long values wrapped; in a narrow pane the value stands below its name."""
    column = _NAMES if width >= 2 * _NAMES else _INDENT
    room = width - column
    facts: list[tuple[str, object]] = [
        ("source", _tail(row.source, room, glyphs)),
        ("run", row.key),
        ("checkpoint", _tail(row.checkpoint or "", room, glyphs)),
        ("deep Γ", _deep_gamma(report.credit)),
        ("null", _null(report.credit)),
        ("reference", _reference(report)),
        ("notes", report.notes),
        ("accuracy", _accuracy(report)),
        ("batches", _batches(report)),
        ("arithmetic", report.dtype),
        ("vectors", report.flatten),
        ("error norm", None if report.error_norm is None else short(report.error_norm)),
        ("taps", " ".join(report.tap_names)),
        *_flat(report.provenance),
    ]
    lines: list[Row] = []
    for name, value in facts:
        if value is None or value == "":
            continue
        head = cut(glyphs.say(name), _NAMES - 1, glyphs.ellipsis)
        # the line breaks of a note are no part of it; in a name they are told
        text = " ".join(str(value).split()) if name == "notes" else str(value)
        pieces = folded(glyphs.say(text), room) or [""]
        if column < _NAMES:
            lines.append([(head, "detail--head")])
            head = ""
        heads = [head, *[""] * (len(pieces) - 1)]
        lines += [
            [(padded(head, column), "detail--head"), (piece, "detail--dim")]
            for head, piece in zip(heads, pieces, strict=True)
        ]
    return lines


def _tail(path: str, room: int, glyphs: Glyphs) -> str:
    """The end of a path: that is where paths differ."""
    return cut_start(glyphs.say(path), room, glyphs.ellipsis)


def _deep_gamma(credit: Mapping[str, Any] | None) -> str:
    """Γ as one number, with how it was averaged; where there is none, the reason."""
    deep, last = (credit or {}).get("deep_gamma"), (credit or {}).get("gamma_L")
    if credit is None or not isinstance(deep, (int, float)):
        missing = (credit or {}).get("missing")
        reasons = dict.fromkeys(map(str, missing.values())) if isinstance(missing, Mapping) else {}
        return f"N/A: {'; '.join(reasons)}" if reasons else ""
    parts = [signed(deep), f"Γ_L {signed(last)}" if isinstance(last, (int, float)) else ""]
    return ", ".join(part for part in (*parts, str(credit.get("aggregation", ""))) if part)


def _null(credit: Mapping[str, Any] | None) -> str:
    """Deep Γ with freshly drawn feedback, to hold the one above against."""
    null = (credit or {}).get("null")
    if not isinstance(null, Mapping) or not isinstance(null.get("deep_gamma_mean"), (int, float)):
        return ""
    spread = null.get("deep_gamma_std")
    around = f" ± {spread:.2f}" if isinstance(spread, (int, float)) else ""
    return f"{signed(null['deep_gamma_mean'])}{around} over {null.get('draws')} draws of fresh feedback"


def _reference(report: DiagnosticReport) -> str:
    """Whether the gradients are right, by the worst sample; the column 1−cos has the mean of every layer."""
    found = report.reference_precision
    if found is None:
        return report.unmeasured.get("reference_precision", "")
    known = [cosine for cosine in found.worst if cosine is not None]
    if not known:
        return "no gradient to compare with float64"
    # NaN before any number
    worst = apart(min(known, key=lambda cosine: (not math.isnan(cosine), cosine)))
    words = f"1−cos(g in {found.dtype}, g in float64) at most {worst}"
    return f"{words}; {sum(found.lost)} gradients lost to 0" if any(found.lost) else words


def _accuracy(report: DiagnosticReport) -> str:
    if report.headline_acc is None:
        return ""
    frozen = report.baseline_words()
    parts = [short(report.headline_acc, 4), report.headline_acc_source or ""]
    parts.append(frozen and f"frozen baseline {frozen}")
    return ", ".join(part for part in parts if part)


def _batches(report: DiagnosticReport) -> str:
    parts = [
        f"B = {report.batch_size}" if report.batch_size else "",
        f"K = {report.n_batches}" if report.n_batches else "",
        f"drift at layer {report.stability_layer}" if report.stability_layer is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _flat(facts: Mapping[str, Any]) -> Iterable[tuple[str, object]]:
    """Provenance as name and value; a mapping inside it as `key value, key value`; hashes by their first digits."""
    for name, value in facts.items():
        if name in _SAID:
            continue
        if isinstance(value, Mapping):
            said = [f"{key} {each}" for key, each in value.items() if each not in (None, [], {}, "")]
            value = ", ".join(said)
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        shown = _HASH.sub(r"\1…", str(value)) if value is not None else None
        yield _SHORTER.get(name, name.replace("_", " ")), shown
