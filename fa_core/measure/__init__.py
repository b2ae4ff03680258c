"""Measuring a network: torch from here down."""

from fa_core.measure.accuracy import accuracy
from fa_core.measure.diagnose import diagnose

__all__ = ["accuracy", "diagnose"]
