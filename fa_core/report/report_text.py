"""A whole report as text, and as a piece of HTML, which a notebook shows."""

from __future__ import annotations

from collections.abc import Sequence

from fa_core.report.beside import failure_mode, floor_text
from fa_core.report.diagnostic_record import records_of
from fa_core.report.flips import flips_texts
from fa_core.report.judged_run import JudgedRun
from fa_core.report.notes import own_backward_text, reduction_text
from fa_core.report.numbers import brief
from fa_core.report.verdict_text import verdict_words
from fa_core.sanitize import sanitize


def report_text(run: JudgedRun) -> str:
    """A report as text: verdict, a line per diagnostic, norms of all layers, notes.

    >>> print(report_text(JudgedRun("dfa", "d = 256", [1.0, 2.0], [0.5, 0.25])))
    dfa: trustworthy on a, b
      (a) passes: growth per block 2 (limit 50)
      (b) passes: deepest ‖g_L‖ 0.25 (floor 1e-7)
      (c) not measured: not in the source
      (d) not measured: no accuracy in the source
      to flip: walk-back where a < 2, or b > 0.25
      ‖h_l‖: 0: 1, 1: 2
      ‖g_l‖: 0: 0.5, 1: 0.25
      d = 256
    """
    lines = [record.line for record in records_of(run)]
    cause, mode = floor_text(run), failure_mode(run)
    if cause:
        lines.append(f"cause of (b): {cause}")
    if mode:
        lines.append(f"mode: {mode}")
    lines += [f"to flip: {flip}" for flip in flips_texts(run)]
    lines += _layers("‖h_l‖", run.by_layer("residual_norms"))
    lines += _layers("‖g_l‖", run.by_layer("bp_grad_norms"))
    gammas = enumerate((run.credit or {}).get("gamma") or ())
    lines += _layers("Γ_l", {str(l): gamma for l, gamma in gammas if gamma is not None})
    lines += filter(None, [reduction_text(run), own_backward_text(run), run.notes])
    title = f"{run.method_name or 'run'}: {verdict_words(run)}"
    return "\n  ".join([title, *lines])


def _layers(name: str, norms: dict[str, float]) -> list[str]:
    """A line with the numbers of all layers; none without numbers."""
    if not norms:
        return []
    listed = ", ".join(f"{layer}: {brief(norm)}" for layer, norm in norms.items())
    return [f"{name}: {listed}"]


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
    # only notebooks need it
    from html import escape

    return escape(sanitize(text))


def _table(headings: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [_line("th", headings)]
    lines += [_line("td", row) for row in rows]
    return f"<table>{''.join(lines)}</table>"


def _line(tag: str, cells: tuple[str, ...]) -> str:
    inner = "".join(f"<{tag}>{_safe(cell)}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>"
