"""A judged run as a piece of HTML: what a notebook shows for a report."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from fa_core.report.diagnostic_record import records_of
from fa_core.report.judged_run import JudgedRun
from fa_core.report.numbers import brief
from fa_core.report.verdict_text import verdict_words
from fa_core.sanitize import sanitize

_COLUMNS = ("", "diagnostic", "number", "limit", "distance")
_NORMS = ("l", "‖h_l‖", "‖g_l‖")


def report_html(run: JudgedRun) -> str:
    """Verdict, a table of the four diagnostics, and the norms of every layer, folded away.

    The names come from files: everything is escaped.
    """
    name = run.method_name or "run"
    if run.seed is not None:
        name = f"{name} seed {run.seed}"
    rows = []
    for record in records_of(run):
        text = record.number or record.reason
        text = "; ".join([text, *record.remarks, *record.beside])
        rows.append((f"({record.letter})", record.state, text, record.limit, record.distance))
    norms = []
    for layer, norm in enumerate(run.residual_norms):
        gradient = ""
        if layer < len(run.bp_grad_norms):
            gradient = brief(run.bp_grad_norms[layer])
        norms.append((str(layer), brief(norm), gradient))
    parts = [f"<p><b>{_safe(name)}</b>: {_safe(verdict_words(run))}</p>", _table(_COLUMNS, rows)]
    if norms:
        layers = _table(_NORMS, norms)
        parts.append(f"<details><summary>{len(norms)} layers</summary>{layers}</details>")
    return f"<div>{''.join(parts)}</div>"


def _safe(text: str) -> str:
    return escape(sanitize(text))


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [_line("th", headings)]
    lines += [_line("td", row) for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: tuple[str, ...]) -> str:
    inner = "".join(f"<{tag}>{_safe(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
