"""Labels of lines in less room: what tells runs apart is kept longest. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fa_tui.views.fitting import cut, cut_middle, width_of

_LEAST_METHOD = 6


def abbreviated(labels: Sequence[str], width: int, ellipsis: str = "…") -> list[str]:
    """Labels such as ``dfa arch=vit d=128 λ=0.001`` in at most `width` cells, all shortened in the same way.

    First the names of axes whose values are words go, then the signs ``=``, then the method's end, and
    only then the middle of a label.

    >>> abbreviated(["bp arch=vit λ=0.01", "dfa arch=vit λ=0.01"], 13)
    ['bp vit λ0.01', 'dfa vit λ0.01']
    >>> abbreviated(["credit_bridge arch=vit λ=0.01"], 20)
    ['credit_br… vit λ0.01']
    """
    for step in _steps():
        shorter = [step(label) for label in labels]
        if max(map(width_of, shorter), default=0) <= width:
            return shorter
    return [_cut(_without_signs(label), width, ellipsis) for label in labels]


def lengths(labels: Sequence[str]) -> list[int]:
    """The longest label as it is, and after each way of shortening; in the last one methods are cut.

    >>> lengths(["credit_bridge arch=vit λ=0.01"])
    [29, 24, 23, 16]
    """
    return [max((width_of(step(label)) for label in labels), default=0) for step in (*_steps(), _with_short_method)]


def _steps() -> tuple[Callable[[str], str], ...]:
    return _as_it_is, _without_names_of_words, _without_signs


def _as_it_is(label: str) -> str:
    return label


def _without_names_of_words(label: str) -> str:
    return " ".join(part if _is_number(part.partition("=")[2]) else _value(part) for part in label.split(" "))


def _without_signs(label: str) -> str:
    return _without_names_of_words(label).replace("=", "")


def _with_short_method(label: str) -> str:
    method, blank, axes = _without_signs(label).partition(" ")
    return f"{cut(method, _LEAST_METHOD)}{blank}{axes}" if axes else method


def _value(part: str) -> str:
    name, sign, value = part.partition("=")
    return value if sign else name


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).replace("e-", "", 1).isdigit()


def _cut(label: str, width: int, ellipsis: str) -> str:
    """The method's end gives way to the axes; a label that is too long even so loses its middle."""
    if width_of(label) <= width:
        return label
    method, blank, axes = label.partition(" ")
    room = width - width_of(blank + axes)
    if axes and room >= _LEAST_METHOD:
        return f"{cut(method, room, ellipsis)}{blank}{axes}"
    return cut_middle(label, width, ellipsis)
