"""Text records of a judged run's diagnostics, formatted by all front ends."""

from __future__ import annotations

import msgspec

from fa_core.report.beside import (
    beside_texts,
    failure_mode,
    floor_text,
    mean_error_remark,
    reference_text,
    scale_text,
)
from fa_core.report.diagnostics import (
    DIAGNOSTICS,
    FIRES,
    LETTERS,
    NOT_MEASURED,
    judged_text,
)
from fa_core.report.gamma import per_layer
from fa_core.report.judged_run import JudgedRun
from fa_core.report.notes import (
    basis_text,
    batch_texts,
    dead_text,
    depth_text,
    other_margins_text,
    own_backward_text,
    reduction_text,
    why_unmeasured,
    why_unproven,
)
from fa_core.report.numbers import brief, exact, joined
from fa_core.report.quantities import JUDGED, Quantity
from fa_core.report.verdict_text import flips_texts, verdict_words


class DiagnosticRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Texts of a diagnostic of a judged run.

    Attributes:
        letter: ``"a"`` to ``"d"``.
        state: ``"fires"``, ``"passes"``, ``"undecided"`` or ``"not measured"``.
        number: its name and number with interval and basis; ``""`` if there is none.
        limit: name and value of its threshold.
        distance: distance to flipping, e.g. ``"10× under"``; ``""`` if it cannot flip.
        remarks: further facts about the number.
        beside: what was measured beside it, for where there is room.
        reason: why it was not measured, or the non-finite value; else ``""``.
    """

    letter: str
    state: str
    number: str = ""
    limit: str = ""
    distance: str = ""
    remarks: list[str] = []
    beside: list[str] = []
    reason: str = ""

    @property
    def line(self) -> str:
        """The record on one line, e.g. ``"(a) FIRES: growth per block 694 (limit 50)"``."""
        state = self.state
        if state == FIRES:
            state = state.upper()
        return "; ".join([f"({self.letter}) {state}: {self.text}", *self.beside])

    @property
    def text(self) -> str:
        """The line without letter, state and what stands beside."""
        if self.reason:
            return self.reason
        return "; ".join([f"{self.number} ({self.limit})", *self.remarks])


def records_of(run: JudgedRun) -> list[DiagnosticRecord]:
    """The records of the four diagnostics, in order."""
    return [record_of(run, letter) for letter in LETTERS]


def record_of(run: JudgedRun, letter: str) -> DiagnosticRecord:
    """The record of one diagnostic.

    >>> record_of(JudgedRun(residual_norms=[1.0, 694.0]), "a").line
    '(a) FIRES: growth per block 694 (limit 50)'
    """
    diagnostic = DIAGNOSTICS[letter]
    if letter in run.nonfinite:
        reason = f"non-finite: {run.nonfinite[letter]}"
        return DiagnosticRecord(letter=letter, state=FIRES, reason=reason)
    value = diagnostic.quantity.of(run)
    if value is None:
        reason = why_unmeasured(run, letter)
        if letter == "d":
            reason = joined(reason, depth_text(run))
        return DiagnosticRecord(letter=letter, state=NOT_MEASURED, reason=reason)
    limit = diagnostic.limit(run.thresholds)
    return DiagnosticRecord(
        letter=letter,
        state=run.states[letter],
        number=_number(run, diagnostic.quantity, value),
        limit=f"{diagnostic.bound} {exact(limit)}",
        distance=diagnostic.how_far(value, limit, fires=letter in run.flags),
        remarks=_remarks(run, letter),
        beside=beside_texts(run, letter),
    )


def range_text(run: JudgedRun, letter: str) -> str:
    """A diagnostic's interval, e.g. ``"+0.120, +0.392"``; ``""`` if it has none."""
    ends = run.interval(letter) or ()
    return ", ".join(judged_text(JUDGED[letter], end, run.thresholds) for end in ends)


def _number(run: JudgedRun, quantity: Quantity, value: float) -> str:
    number = judged_text(quantity, value, run.thresholds)
    if not quantity.log:
        number += quantity.suffix
    parts = [quantity.words, number]
    for text in (range_text(run, quantity.letter), basis_text(run, quantity.letter)):
        if text:
            parts.append(f"[{text}]")
    return " ".join(parts)


def _remarks(run: JudgedRun, letter: str) -> list[str]:
    by_number = outside = part = ""
    value = JUDGED[letter].of(run)
    ends = run.interval(letter)
    if ends and value is not None and (value < ends[0] or value > ends[1]):
        outside = "lies outside its own interval"
    if letter in run.undecided & run.by_numbers:
        by_number = "by its number alone it fires"
    if run.partial_stream and letter in run.unproven:
        part = why_unproven(run, letter)
    if letter == "a":
        texts = [part, dead_text(run), scale_text(run)]
    elif letter == "d":
        texts = [other_margins_text(run), depth_text(run)]
    elif letter == "c":
        texts = [*batch_texts(run, letter), mean_error_remark(run)]
    else:
        texts = [*batch_texts(run, letter), part]
        if letter in run.flags:
            texts.append(reference_text(run))
    return list(filter(None, [by_number, outside, *texts]))


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
    if cause := floor_text(run):
        lines.append(f"cause of (b): {cause}")
    if mode := failure_mode(run):
        lines.append(f"cause: {mode}")
    lines += [f"to flip: {flip}" for flip in flips_texts(run)]
    lines += _layers("‖h_l‖", run.by_layer("residual_norms"))
    lines += _layers("‖g_l‖", run.by_layer("bp_grad_norms"))
    gammas = {}
    for l, gamma in enumerate(per_layer(run.credit)):
        if gamma is not None:
            gammas[str(l)] = gamma
    lines += _layers("Γ_l", gammas)
    lines += filter(None, [reduction_text(run), own_backward_text(run), run.notes])
    name = run.method_name or "run"
    if run.seed is not None:
        name += f" seed {run.seed}"
    return "\n  ".join([f"{name}: {verdict_words(run)}", *lines])


def _layers(name: str, norms: dict[str, float]) -> list[str]:
    """A line with the numbers of all layers; none without numbers."""
    if not norms:
        return []
    numbers = [f"{layer}: {brief(norm)}" for layer, norm in norms.items()]
    return [f"{name}: {', '.join(numbers)}"]
