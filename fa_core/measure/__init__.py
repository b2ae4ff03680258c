"""Measuring a network: torch from here down."""

from fa_core.measure.accuracy import accuracy
from fa_core.measure.credit import CreditQuality, NullGamma, credit_quality, method_credit_quality, null_gamma
from fa_core.measure.diagnose import diagnose
from fa_core.measure.precision import reference_precision
from fa_core.measure.resampling import bootstrap, diagnose_resampled
from fa_core.report import ReferencePrecision, Resampling

__all__ = [
    "CreditQuality",
    "NullGamma",
    "ReferencePrecision",
    "Resampling",
    "accuracy",
    "bootstrap",
    "credit_quality",
    "diagnose",
    "diagnose_resampled",
    "method_credit_quality",
    "null_gamma",
    "reference_precision",
]
