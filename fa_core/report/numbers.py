"""Numbers as text, and back; counts and lists as text."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from itertools import islice
from typing import TypeGuard

from fa_core.report.provenance import fact_text

MISSING = "N/A"


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a decoded value is a number, including NaN and infinity, but not a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def or_none(value: float) -> float | None:
    """A number, or None for NaN."""
    return None if math.isnan(value) else value


def significant(value: float | None, digits: int = 4) -> str:
    """A number with so many significant digits, including zeros, for tables.

    >>> (significant(0.00037012674), significant(435299520.0), significant(1.25), significant(None))
    ('3.701e-4', '4.353e8', '1.250', 'N/A')
    """
    if value is None:
        return MISSING
    if not math.isfinite(value):
        return str(value)
    if 1e-3 <= abs(value) < 10.0**digits:
        return f"{value:#.{digits}g}".rstrip(".")
    if value:
        return scientific(value, digits)
    return "0"


def brief(value: float | None, digits: int = 4) -> str:
    """A number with at most so many significant digits, for text and axes.

    >>> brief(50.0), brief(1e-7), brief(10.96098021, 5)
    ('50', '1e-7', '10.961')
    """
    if value is None or not math.isfinite(value):
        return significant(value)
    if value and not 1e-3 <= abs(value) < 1e5:
        return scientific(value, digits, trim=True)
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in text else text


def on_its_side(
    value: float | None, limit: float | None, write: Callable[[float, int], str], digits: int
) -> str:
    """A number with so many digits, or with as many more as show on which side of a limit it is.

    Args:
        value: the number; None is N/A.
        limit: None for no limit.
        write: makes the text of a number and a count of digits.
        digits: the fewest.

    >>> on_its_side(50.0004, 50.0, brief, 4), on_its_side(1.002e-7, 1e-7, brief, 3)
    ('50.0004', '1.002e-7')
    >>> on_its_side(50.93, 50.0, brief, 4), on_its_side(50.0, 50.0, brief, 4)
    ('50.93', '50')
    """
    if value is None:
        return MISSING
    if limit is None or not math.isfinite(value):
        return write(value, digits)
    side = value > limit, value < limit
    for more in range(digits, 18):
        text = write(value, more)
        shown = float(text)
        if (shown > limit, shown < limit) == side:
            return text
    return exact(value)


def brief_in(value: float | None, cells: int, limit: float | None = None) -> str:
    """A number with four significant digits, or three if four take more cells; more where its side
    of a limit needs them.

    >>> brief_in(10.96098, 7), brief_in(-0.03589, 7), brief_in(50.0004, 7, 50.0)
    ('10.96', '-0.0359', '50.0004')
    """
    return on_its_side(value, limit, brief, 4 if len(brief(value)) <= cells else 3)


def plain(value: object) -> str:
    """A value of an axis as text, without rounding noise; hashes abbreviated.

    >>> plain(0.1 + 0.2), plain(64), plain("digits"), plain("sha256:" + "0123456789abcdef" * 4)
    ('0.3', '64', 'digits', 'sha256:0123456789ab…')
    """
    # digits that a few operations leave unchanged
    if isinstance(value, float):
        return f"{value:.12g}"
    return fact_text(value)


def axis_sign(axis: str) -> str:
    """An axis as it is written before its value: ``λ`` for ``lam``."""
    return "λ" if axis == "lam" else axis


def with_axes(name: str, axes: Mapping[str, object]) -> str:
    """A name with axes that have a value.

    >>> with_axes("dfa", {"lam": 0.01, "d": 64, "lr": None}), with_axes("bp", {})
    ('dfa d=64 λ=0.01', 'bp')
    """
    for axis, value in sorted(axes.items()):
        if value is not None:
            name += f" {axis_sign(axis)}={plain(value)}"
    return name


def scientific(value: float, digits: int, *, trim: bool = False) -> str:
    """A finite number with an exponent, without ``+`` or padding there; ``trim``: no zeros at the
    mantissa's end.

    >>> scientific(2.0e-7, 3), scientific(2.0e-7, 3, trim=True)
    ('2.00e-7', '2e-7')
    """
    mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
    if trim and "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent)}"


def fixed(value: float | None, places: int, sign: str = "") -> str:
    """A number with so many decimal places; ``sign="+"``: also for those that are not negative, as
    is what rounds to 0.

    >>> fixed(2.31, 2, "+"), fixed(-0.0004, 3), fixed(None, 2)
    ('+2.31', '0.000', 'N/A')
    """
    if value is None:
        return MISSING
    return f"{round(value, places) + 0.0:{sign}.{places}f}"


def spread(mean: float | None, std: float | None, limit: float | None = None) -> str:
    """Mean ± std: three digits of the mean or more, two of std, with the same decimals where both
    have no exponent; more where the mean's side of a limit needs them; without std the mean alone.

    >>> spread(0.4012, 0.0094), spread(5.18e8, 1.5e8), spread(1.5, None), spread(None, None)
    ('0.4012 ± 0.0094', '5.18e8 ± 1.5e8', '1.500', 'N/A')
    >>> spread(0.30004, 0.2, 0.3), spread(1.9996, None, 2.0)
    ('0.30004 ± 0.20000', '1.9996')
    >>> spread(1.0, 3.1e-15), spread(9.9996e-5, 0.0), spread(0.349, 4e-6)
    ('1.00 ± 0.00', '1.00e-4 ± 0', '0.3490000 ± 0.0000040')
    """
    if mean is None or std is None or not math.isfinite(mean) or not math.isfinite(std):
        return on_its_side(mean, limit, significant, 4)
    if is_rounding(std, mean):
        std = 0.0
    scale = max(abs(mean), std)
    if scale and not 1e-3 <= scale < 1e5:
        return f"{on_its_side(mean, limit, significant, 3)} ± {significant(std, 2)}"
    places = max(0, _decimals(mean, 3), _decimals(std, 2))
    places = len(on_its_side(mean, limit, fixed, places).partition(".")[2])
    return f"{fixed(mean, places)} ± {fixed(std, places)}"


def is_rounding(std: float, mean: float) -> bool:
    """Whether a deviation is of the digits that `plain` leaves out: rounding of equal numbers."""
    return std <= 1e-12 * abs(mean)


def factor_spread(mean: float | None, factor: float | None, limit: float | None = None) -> str:
    """A geometric mean and its factor, three digits and two; more of the mean where its side of a
    limit needs them.

    >>> factor_spread(5.18e8, 1.52), factor_spread(1.5, None), factor_spread(None, None)
    ('5.18e8 (×1.5)', '1.50', 'N/A')
    """
    text = on_its_side(mean, limit, significant, 3)
    if factor is None:
        return text
    return f"{text} (×{significant(factor, 2)})"


def _decimals(value: float, digits: int) -> int:
    """Decimals that show so many significant digits; 0 for 0."""
    if value == 0:
        return 0
    exponent = int(f"{value:e}".split("e")[1])
    return digits - 1 - exponent


def short(value: float, digits: int = 3) -> str:
    """A number in few cells: no trailing zeros, exponents without ``+`` or padding.

    >>> short(1e-7), short(435299520.0), short(2043.33), short(0.0989839), short(-3.83), short(0.0)
    ('1e-7', '4.35e8', '2043', '0.099', '-3.83', '0')
    """
    if math.isnan(value):
        return "NaN"
    return brief(value, digits)


def power_of_ten(exponent: int) -> str:
    """A tick of a log axis, in figures and on screens.

    >>> power_of_ten(-7), power_of_ten(0)
    ('10⁻⁷', '10⁰')
    """
    return "10" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def exact(value: float) -> str:
    """The shortest text that reads back as the same float, exponents without padding.

    >>> exact(1e-7), exact(50.0), exact(0.3)
    ('1e-7', '50', '0.3')
    """
    text = repr(value)
    mantissa, e, exponent = text.partition("e")
    if e:
        return f"{mantissa.removesuffix('.0')}{e}{int(exponent)}"
    return text.removesuffix(".0")


def parse(text: str) -> float | None:
    """A typed finite number, or None.

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
    """The shortest decimal strictly between ``value`` and ``limit``, or None.

    Args:
        value: the start.
        upward: towards +inf, else towards -inf.
        limit: exclusive (may be ±inf).
        digits: significant digits to start with.

    >>> (just_past(694.4575350067174, False, 10.96), just_past(10.960980, True, 694.4),
    ...     just_past(1.0, True, 1.0004))
    (694.0, 11.0, 1.0001)
    """
    rounding = ROUND_CEILING if upward else ROUND_FLOOR
    start = Decimal(value)
    exponent = start.adjusted()
    for places in range(digits - 1 - exponent, 18 - exponent):
        unit = Decimal(1).scaleb(-places)
        rounded = start
        if places > -exponent:
            rounded = start.quantize(unit, rounding=rounding)
        if float(rounded) == value:
            rounded = start.quantize(unit, rounding=rounding)
            rounded += unit if upward else -unit
        found = float(rounded)
        if value < found < limit or limit < found < value:
            return found
    return None


def median(ordered: Sequence[float]) -> float:
    """The median of sorted numbers; for an even count the mean of the middle two.

    >>> median([1.0, 3.0, 100.0]), median([1.0, 2.0])
    (3.0, 1.5)
    """
    low = ordered[(len(ordered) - 1) // 2]
    high = ordered[len(ordered) // 2]
    # halved before the addition, which overflows for two norms of 1e308
    if low == high:
        return low
    return low / 2 + high / 2


def percent(share: float) -> str:
    """A share as text; 100 % only for all, 0 % only for none.

    >>> percent(1.0), percent(0.999), percent(0.42), percent(0.001), percent(0.0)
    ('100%', '>99%', '42%', '<1%', '0%')
    """
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return ">99%"
    return f"{share:.0%}"


def count_text(count: int, noun: str) -> str:
    """A count with its noun.

    >>> count_text(1, "run"), count_text(0, "run"), count_text(3, "method")
    ('1 run', '0 runs', '3 methods')
    """
    return f"{count} {noun}{'s' * (count != 1)}"


def joined(*texts: str | None) -> str:
    """The texts that are not empty, parted by semicolons.

    >>> joined("one", "", None, "two")
    'one; two'
    """
    return "; ".join(filter(None, texts))


def listed(names: Collection[object], most: int = 8) -> str:
    """Names with commas, at most so many, and the number of further ones.

    >>> listed(["a", "b"]), listed("abcdef", most=4)
    ('a, b', 'a, b, c, d and 2 more')
    """
    words = ", ".join(map(str, islice(names, most)))
    rest = len(names) - most
    if rest > 0:
        return f"{words} and {rest} more"
    return words
