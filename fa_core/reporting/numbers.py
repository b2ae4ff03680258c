"""How numbers look in a report: rounded for people, `N/A` where there is none."""

from __future__ import annotations

import math

MISSING = "N/A"


def significant(value: float | None, digits: int = 4) -> str:
    """A number with that many significant digits.

    >>> significant(0.00037012674), significant(435299520.0), significant(1.25), significant(None)
    ('3.701e-4', '4.353e8', '1.25', 'N/A')
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    text = f"{value:.{digits}g}"
    if "e" not in text and value != 0 and not 1e-3 <= abs(value) < 1e5:
        text = f"{value:.{digits - 1}e}"
    if "e" not in text:
        return text
    mantissa, exponent = text.split("e")
    return f"{mantissa}e{int(exponent)}"


def fixed(value: float | None, places: int, sign: bool = False) -> str:
    """A number with that many decimal places.

    >>> fixed(2.31, 2, sign=True), fixed(None, 2)
    ('+2.31', 'N/A')
    """
    if value is None:
        return MISSING
    return f"{value:{'+' if sign else ''}.{places}f}"


def spread(mean: float | None, std: float | None, digits: int = 3) -> str:
    """Mean ± std; the mean alone where there is no spread.

    >>> spread(0.401, 0.0094), spread(1.5, None), spread(None, None)
    ('0.401 ± 0.0094', '1.5', 'N/A')
    """
    if mean is None:
        return MISSING
    return significant(mean, digits) if std is None else f"{significant(mean, digits)} ± {significant(std, 2)}"
