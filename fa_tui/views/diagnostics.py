"""How each of the four diagnostics is shown: words, unit, track. What it means is decided in `fa_core.report`."""

from __future__ import annotations

from dataclasses import dataclass

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.report import DiagnosticReport

_KEYS = {"with --healthy": "with the key M", "with --frozen-baseline": "with the key w"}
"""What the commands call by an option is a key in the explorer."""


def with_keys(text: str) -> str:
    """What a command says, as the explorer says it.

    >>> with_keys("give one with --frozen-baseline")
    'give one with the key w'
    """
    for option, key in _KEYS.items():
        text = text.replace(option, key)
    return text


@dataclass(frozen=True)
class Diagnostic:
    """One diagnostic's face.

    Attributes:
        letter: ``"a"``..``"d"``.
        label: what is measured, in a few words.
        threshold: its field in `DiagnosticThresholds`.
        number: its property of `DiagnosticReport`.
        unit: shown after numbers.
        above: whether it fires above its threshold.
        log: whether its track is logarithmic.
        span: what its track shows at least.
        step: an arrow's step on a linear track.
    """

    letter: str
    label: str
    threshold: str
    number: str
    unit: str
    above: bool
    log: bool
    span: tuple[float, float]
    step: float = 0.0

    @property
    def default(self) -> float:
        """The default threshold."""
        return self.of(DiagnosticThresholds())

    def of(self, thresholds: DiagnosticThresholds) -> float:
        """Its threshold."""
        value: float = getattr(thresholds, self.threshold)
        return value

    def measured(self, report: DiagnosticReport) -> float | None:
        """Its number in a report, None where it was not measured."""
        value: float | None = getattr(report, self.number)
        return value


DIAGNOSTICS: tuple[Diagnostic, ...] = (
    Diagnostic("a", "growth per block", "h_norm_explosion_ratio", "max_per_block_growth", "×", True, True, (1.0, 1e4)),
    Diagnostic("b", "deepest ‖g_L‖", "g_norm_floor", "g_L", "", False, True, (1e-10, 1e-3)),
    Diagnostic(
        "c", "drift cosine", "stability_drift_ceiling", "cross_batch_stability", "", True, False, (-0.2, 1.0), 0.01
    ),
    Diagnostic("d", "margin over frozen", "frozen_acc_margin_pp", "margin_pp", " pp", False, False, (-10.0, 10.0), 0.1),
)
"""In the order of the verdict text."""
