"""Methods: their names in print, their colours and markers in all figures and screens, and those
that are controls."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from fa_core.files.decode import table_beside


class MethodStyle(NamedTuple):
    """Drawing style of a method.

    Attributes:
        colour: as #rrggbb.
        marker: one of `MARKERS`.
    """

    colour: str
    marker: str


MARKERS = "os^Dv><PXp"
"""Matplotlib's filled markers."""

METHOD_STYLES = table_beside(__file__, dict[str, MethodStyle])
"""Okabe and Ito's colours, which differ with any colour vision (yellow darkened to show on white),
grey and wine; then shades that show on white and on black: so many differ by the marker too."""

_COLOURS = [style.colour for style in METHOD_STYLES.values()][: len(MARKERS)]


def method_style(method: str) -> MethodStyle:
    """A method's own style.

    A variant of a known method, such as ``dfa_penalty``, has its colour and another marker; other
    names have a style by checksum. Axes in brackets change no style.

    >>> method_style("dfa").colour == method_style("dfa_penalty").colour
    True
    >>> method_style("dfa").marker == method_style("dfa_penalty").marker
    False
    """
    if method in METHOD_STYLES:
        return METHOD_STYLES[method]
    checksum = crc32(method.partition(" (")[0].encode(errors="backslashreplace"))
    known = known_method(method)
    if not known:
        turn, colour = divmod(checksum, len(_COLOURS))
        return MethodStyle(_COLOURS[colour], MARKERS[turn % len(MARKERS)])
    base = METHOD_STYLES[known]
    others = MARKERS.replace(base.marker, "")
    return MethodStyle(base.colour, others[checksum % len(others)])


def known_method(method: str) -> str:
    """The known method of a name or variant; ``""`` if there is none.

    >>> known_method("dfa_penalty"), known_method("dfa"), known_method("dfax")
    ('dfa', 'dfa', '')
    """
    bases = []
    for name in METHOD_STYLES:
        rest = method.removeprefix(name)
        if rest != method and rest[:1] in ("", "_", "-", " ", "+"):
            bases.append(name)
    return max(bases, key=len, default="")


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Distinct styles of methods drawn together: their own colours, with the next marker for equal
    styles.

    >>> len(set(method_styles(f"m{i}" for i in range(20)).values()))
    20
    """
    found = {name: method_style(name) for name in methods}
    taken: set[MethodStyle] = set()
    known = sorted(METHOD_STYLES.keys() & found.keys())
    others = sorted(found.keys() - METHOD_STYLES.keys())
    for name in known + others:
        before, own, after = MARKERS.partition(found[name].marker)
        for marker in own + after + before:
            style = MethodStyle(found[name].colour, marker)
            if style not in taken:
                found[name] = style
                break
        taken.add(found[name])
    return found


PUBLISHED_NAMES = table_beside(Path(__file__).with_name("method_names"), dict[str, str])
"""Canonical name → name in print: the keys of `fa_core.zoo.methods.METHODS`, without torch."""


def published_name(method: str) -> str:
    """A method's name in print; a name that is not known stays as it is.

    >>> published_name("state_bridge"), published_name("dfa_penalty"), published_name("mine")
    ('State Bridge', 'DFA penalty', 'mine')
    """
    known = known_method(method)
    if not known:
        return method
    rest = method.removeprefix(known).strip("_- ")
    return f"{PUBLISHED_NAMES[known]} {rest}".strip()


FROZEN = "frozen"
"""The control that is the frozen baseline."""

CONTROLS = (FROZEN, "shallow", "random_init", "random_targets")
"""All controls. They have their own options, not those of their training rule."""

WITHOUT_BASELINE = frozenset({FROZEN, "shallow", "random_init"})
"""Controls without a frozen baseline: baselines themselves, and untrained nets."""

TRAINED_BY = {FROZEN: "dfa", "shallow": "bp", "random_targets": "bp"}
"""Control → default training rule (`fa_core.zoo.methods.controls`)."""
