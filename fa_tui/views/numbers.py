"""Numbers as they are read and typed: short, exact where it matters, copyable into a command line."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e5
"""Between these a number is written out; outside, with an exponent."""


def short(value: float, digits: int = 3) -> str:
    """A number in few cells: no trailing zeros, exponents without ``+`` or padding.

    >>> short(1e-7), short(435299520.0), short(2043.33), short(0.0989839), short(-3.83), short(0.0)
    ('1e-7', '4.35e8', '2043', '0.099', '-3.83', '0')
    """
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "-inf" if value < 0 else "inf"
    if value and not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
        return f"{_trim(mantissa)}e{int(exponent)}"
    whole = len(str(int(abs(value))))
    leading_zeros = 0 if abs(value) >= 0.1 or not value else -math.floor(math.log10(abs(value))) - 1
    decimals = max(0, digits - whole) if abs(value) >= 1 else digits + leading_zeros
    return _trim(f"{value:.{decimals}f}")


def exact(value: float) -> str:
    """The shortest text that reads back as the same float, exponents without padding.

    >>> exact(1e-7), exact(50.0), exact(0.3)
    ('1e-7', '50', '0.3')
    """
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa.removesuffix('.0')}{e}{int(exponent)}" if e else text.removesuffix(".0")


def parse(text: str) -> float | None:
    """The finite number that was typed, or None.

    >>> parse("1e-7"), parse("-.5"), parse("1e--7"), parse("inf"), parse("1_0")
    (1e-07, -0.5, None, None, None)
    """
    if "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def just_past(value: float, upward: bool, limit: float, digits: int = 3) -> float | None:
    """The shortest decimal strictly past ``value`` and strictly before ``limit``, or None if there is none.

    Args:
        value: where to start.
        upward: towards +inf, else towards -inf.
        limit: not to be reached (may be ±inf).
        digits: significant digits to start with.

    >>> just_past(694.4575350067174, False, 10.96), just_past(10.960980, True, 694.4), just_past(1.0, True, 1.0004)
    (694.0, 11.0, 1.0001)
    """
    rounding = ROUND_CEILING if upward else ROUND_FLOOR
    exponent = Decimal(value).adjusted() if value else 0
    for places in range(digits - 1 - exponent, 18 - exponent):
        unit = Decimal(1).scaleb(-places)
        rounded = Decimal(value).quantize(unit, rounding=rounding) if places > -exponent else Decimal(value)
        if float(rounded) == value:
            rounded = Decimal(value).quantize(unit, rounding=rounding) + (unit if upward else -unit)
        found = float(rounded)
        if value < found < limit if upward else limit < found < value:
            return found
    return None


def _trim(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
