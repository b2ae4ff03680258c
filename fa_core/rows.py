"""One run as the audit table sees it: where it came from, which method and seed, what was measured."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from fa_core.report import DiagnosticReport

_KEY = re.compile(r"^(?P<method>.+?)[_-](?:s|seed[_-]?)(?P<seed>\d+)$", re.DOTALL)
_SEEDED = re.compile(r"[_-](?:s|seed[_-]?)\d+")
_BETWEEN_WORDS = re.compile(r"[\s\-_\x00-\x1f\x7f-\x9f]+")
_PENALTY = re.compile(r"[_-](?:pen[_-])?lam(?P<lam>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-?[0-9]+)?)")


class AuditRow(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the audit table.

    Attributes:
        source: the file the numbers (or the unmeasured checkpoint) came from.
        key: its name inside the source, e.g. ``"dfa_s42"``; unique per source.
        method: canonical method name (see `canonical_method`), e.g. ``"state_bridge"``.
        seed: None where the source names none.
        report: the measurements; an empty report for a checkpoint nobody measured yet.
        checkpoint: a file or run folder that `fa-tui audit` can measure, if there is one.
        axes: further coordinates of the run: ``lam``, ``d``, ``L``, ``arch``, ...
    """

    source: str
    key: str
    method: str
    seed: int | None = None
    report: DiagnosticReport = DiagnosticReport()
    checkpoint: str | None = None
    axes: dict[str, Any] = {}


class Problem(msgspec.Struct, frozen=True):
    """A path that could not be opened: one line for the person, nothing lost."""

    path: str
    message: str


def split_key(key: str) -> tuple[str, int | None, dict[str, Any]]:
    """Method, seed and axes from a name such as ``dfa_s42`` or ``dfa_pen_lam0.01_s42``.

    >>> split_key("state_bridge_s123")
    ('state_bridge', 123, {})
    >>> split_key("dfa_pen_lam0.01_s42")
    ('dfa', 42, {'lam': 0.01})
    >>> split_key("model")
    ('model', None, {})

    What stands behind an ``@`` only tells runs of one method and seed apart (see `fa_core.formats.write`).

    >>> split_key("bp_s1@bp_s100"), split_key("dfa@home_s42")
    (('bp', 1, {}), ('dfa@home', 42, {}))
    """
    axes: dict[str, Any] = {}
    run, _, _ = key.partition("@")
    if _SEEDED.search(run):
        key = run
    penalty = _PENALTY.search(key)
    if penalty:
        axes["lam"] = float(penalty["lam"])
        key = key[: penalty.start()] + key[penalty.end() :]
    match = _KEY.match(key)
    name, seed = (match["method"], int(match["seed"])) if match else (key, None)
    return canonical_method(name), seed, axes


def canonical_method(name: str) -> str:
    """A method's canonical name: lower case, words joined by ``_``, no control codes (names come from files).

    >>> canonical_method("Credit Bridge"), canonical_method("STATE_BRIDGE")
    ('credit_bridge', 'state_bridge')
    """
    return _BETWEEN_WORDS.sub("_", name.strip()).lower()
