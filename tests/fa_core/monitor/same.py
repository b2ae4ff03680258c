"""What was read from a log against what was measured."""

import pytest


def same_numbers(read, measured):
    """Loggers keep 32 bits: seven digits."""
    assert not read.evidence
    assert read.flags == measured.flags
    assert read.coverage == measured.coverage
    for letter, number in measured.numbers.items():
        assert read.numbers[letter] == pytest.approx(number, rel=1e-6), letter
