"""A whole report as text."""

from __future__ import annotations

from fa_core.report.cause_text import failure_mode, floor_text
from fa_core.report.diagnostic_record import records_of
from fa_core.report.flips import flips_texts
from fa_core.report.judged_run import JudgedRun
from fa_core.report.notes import own_backward_text, reduction_text
from fa_core.report.numbers import brief
from fa_core.report.verdict_text import verdict_words


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
    lines += filter(None, [reduction_text(run), own_backward_text(run), run.notes])
    title = f"{run.method_name or 'run'}: {verdict_words(run)}"
    return "\n  ".join([title, *lines])


def _layers(name: str, norms: dict[str, float]) -> list[str]:
    """A line with the norms of all layers; none without norms."""
    if not norms:
        return []
    listed = ", ".join(f"{layer}: {brief(norm)}" for layer, norm in norms.items())
    return [f"{name}: {listed}"]
