"""What was read from a log against what was measured."""

from __future__ import annotations

import pytest

from fa_core.report.diagnostic_report import DiagnosticReport


def same_numbers(read: DiagnosticReport, measured: DiagnosticReport) -> None:
    """Loggers keep 32 bits: seven digits."""
    assert not read.evidence
    assert read.flags == measured.flags
    assert read.coverage == measured.coverage
    for letter, number in measured.numbers.items():
        assert read.numbers[letter] == pytest.approx(number, rel=1e-6), letter
