"""One run's report: what was measured, the verdict that follows from it, and how sure it is.

The four diagnostics, their thresholds and the verdict text are in `fa_core.judgement.diagnostics`.
Pure Python, so that a first screen needs no NumPy; `fa_core.table` holds the same rules over
columns, and a property test keeps the two equal.

A value that was not measured neither fires nor passes (see `DiagnosticReport.coverage`); a NaN or
±inf that was measured fires its diagnostic.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Annotated, Any, NoReturn, TypeAlias, TypedDict

import msgspec

from fa_core.errors import InvalidReport, UsageError
from fa_core.facts.runs import is_control
from fa_core.judgement.baseline import (
    BASELINE_FROM,
    BASELINE_RULE,
    GIVEN,
    OTHER_BASELINES,
    why_no_baseline,
)
from fa_core.judgement.diagnostics import (
    ASSUMED,
    BOUND,
    CONTROL,
    DIAGNOSTICS,
    LETTERS,
    NOT_MEASURED,
    PROXY,
    DiagnosticThresholds,
    cell_text,
    doubt_text,
    grounds_text,
    recorded_flags,
    standing,
    verdict_text,
)
from fa_core.judgement.gain import failure_mode, floor_in_words
from fa_core.judgement.intervals import REFERENCE_BATCH, Interval, at_reference_batch, noise_scale
from fa_core.numbers import as_float, as_floats, as_json, brief

Axis: TypeAlias = str | int | float | bool | None
"""A run's place along an axis of a sweep."""


class _Null(TypedDict, total=False):
    gamma: list[float | None]
    deep_gamma_mean: float | None
    deep_gamma_std: float | None
    rank: float | None


class Credit(TypedDict, total=False):
    """What of a report's ``credit`` is computed with, and of which type it has to be."""

    gamma: list[float | None]
    rho: list[float | None]
    rho_relative: list[float | None]
    rho_finite: list[float | None]
    nudge: list[float | None]
    nudge_relative: list[float | None]
    zeros: list[float | None]
    gamma_L: float | None
    free_layers: list[int]
    null: _Null


class Provenance(TypedDict, total=False):
    """The same of its ``provenance``."""

    checkpoint: Any
    classes: Any
    fan_in: Annotated[float, msgspec.Meta(gt=0)]
    custom_backward: list[str]
    other_frozen_baselines: dict[str, float]
    settings: dict[str, Any]
    hashes: dict[str, Any]
    versions: dict[str, Any]


Count = Annotated[int, msgspec.Meta(ge=1)]
"""How many there are of something that is there."""


class Resampling(msgspec.Struct, frozen=True, kw_only=True):
    """What the same audit would have measured on other samples: one number per resample, in the
    same order.

    The numbers are kept rather than an interval and a share of them, so that both follow the
    thresholds and the frozen baseline that a report is judged by (see
    `fa_core.judgement.confidence`). An empty list = not measured, or not resampled.

    Attributes:
        growth: (a)'s growth; NaN where a norm is not finite.
        g_L: (b)'s deepest gradient norm; NaN where the norm of any layer is not finite.
        stability: (c)'s mean pairwise cosine, of the batches drawn.
        headline_acc: accuracy, a fraction; empty where it was given instead of counted.
        seed: of the draws.

    Raises:
        ValueError: lists of different lengths.

    Source: docs/protocol.md §8 (bootstrap over batches and samples).
    """

    growth: list[float] = []
    g_L: list[float] = []
    stability: list[float] = []
    headline_acc: list[float] = []
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = {len(draws) for draws in msgspec.structs.astuple(self)[:-1]} - {0}
        if len(lengths) > 1:
            raise ValueError(f"resamples of different number: {sorted(lengths)}")

    def __len__(self) -> int:
        """R."""
        return max(map(len, msgspec.structs.astuple(self)[:-1]))


class ReferencePrecision(msgspec.Struct, frozen=True, kw_only=True):
    """How the gradients that were measured compare with float64 ones, per layer l = 0..L.

    Attributes:
        cosine: mean over samples of cos(g_l as measured, g_l in float64); None where no sample has
            both.
        worst: the smallest of them.
        norm_ratio: median ‖g_l‖ as measured over the one in float64; None where the latter is 0.
        lost: samples whose gradient is 0 as measured and not in float64.
        samples: B.
        dtype: the arithmetic that is judged.

    Source: docs/protocol.md §8 ("is the reference itself numerically right?").
    """

    cosine: list[float | None]
    worst: list[float | None]
    norm_ratio: list[float | None]
    lost: list[int]
    samples: int
    dtype: str = "float32"


CUSTOM_BACKWARD = "custom_backward"
"""Where ``provenance`` names what of a network's backward pass is its own."""

GRADIENT_BY = "gradient_by"
"""Where it says how the gradient of such a network was found; without it, it is what that backward
pass gives."""

WHAT_IF = "(what if)"
"""Name of an assumed baseline for a decoder: no file is written with such a key."""

NORMS = ("residual_norms", "bp_grad_norms")
"""The fields with a number per layer."""

MOST_LAYERS = 10_000
"""L of the deepest network that is read; the deepest that was published has as many."""


def longest_list(report: Any) -> int:
    """Values in the longest list of a report that has one for each layer."""
    credit = report.credit or {}
    null = credit.get("null")
    held = [report.residual_norms, report.bp_grad_norms, *credit.values()]
    held += null.values() if isinstance(null, Mapping) else ()
    return max(len(values) for values in held if isinstance(values, (list, tuple)))


NORM_RATIO_EPS = 1e-30
"""Smallest denominator of a growth ratio."""


_UNSTATED = DiagnosticThresholds()
"""The thresholds of a report whose source states none."""

_SCALARS = (
    *("cross_batch_stability", "headline_acc", "frozen_baseline_acc"),
    *("error_norm", "growth_bound", "assumed_baseline_acc"),
)
"""The fields with one number."""

_COUNTS = ("stability_layer", "seed", "batch_size", "n_batches", "norm_batches")
"""The fields with a whole number."""

SOURCE_DRIFT = "cross_batch_direction_stability"
"""What the protocol's own report class calls `cross_batch_stability`."""

_scalars_of, _counts_of = attrgetter(*_SCALARS), attrgetter(*_COUNTS)
_FLOAT, _MAYBE_FLOAT = frozenset({float}), frozenset({float, type(None)})
_MAYBE_INT = frozenset({int, type(None)})


def in_order(layers: Iterable[str]) -> list[str]:
    """Layers by number; those without one last.

    >>> in_order(["L", "10", "2", "2"])
    ['2', '10', 'L']
    """
    return sorted(set(layers), key=lambda layer: (not layer.isdecimal(), len(layer), layer))


def _fires(letter: str) -> Callable[[DiagnosticReport], bool | None]:
    def found(report: DiagnosticReport) -> bool | None:
        is_known = letter in report.coverage and letter not in report.unproven
        if is_known:
            return letter in report.flags
        return None

    return found


def has_gamma(credit: Mapping[str, Any] | None) -> bool:
    """Whether Γ was measured in some layer.

    >>> has_gamma({"gamma": [None, 0.5]}), has_gamma({"gamma": [None]}), has_gamma(None)
    (True, False, False)
    """
    return any(value is not None for value in (credit or {}).get("gamma") or ())


def _negative(name: str, value: float, where: str) -> InvalidReport:
    hint = "a norm, and a ratio of norms, is never negative"
    return InvalidReport(f"{name} is {value}", where=where, hint=hint)


def _check_norms(norms: Sequence[float], name: str, where: str) -> None:
    """Refuse a negative norm."""
    for layer, norm in enumerate(norms):
        if -math.inf < norm < 0:
            raise _negative(f"{name}[{layer}]", norm, where)


def _check_accuracy(acc: float | None, name: str, where: str) -> None:
    """Refuse an accuracy outside [0, 1]."""
    if acc is None or not math.isfinite(acc) or 0.0 <= acc <= 1.0:
        return
    if acc > 1:
        hint = "accuracies are fractions: divide by 100"
    else:
        hint = "an accuracy lies in [0, 1]"
    raise InvalidReport(f"{name} is {acc}", where=where, hint=hint)


def _check_members(found: Mapping[str, Any], kind: Any, name: str, where: str) -> None:
    """Refuse members of another type than a ``TypedDict`` says."""
    try:
        msgspec.convert(found, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$")
        raise InvalidReport(f"{name}{place.rstrip('`')}: {what}", where=where) from error


class DiagnosticReport(msgspec.Struct, frozen=True, dict=True):
    """What was measured on one run. Immutable; ``None`` or an empty list means *not measured*.

    Numbers of any type are taken (NumPy scalars, 0-d tensors, …); they become Python numbers.

    Attributes:
        method_name: as the source spells it, e.g. ``"DFA"``.
        notes: free text of the source.
        residual_norms: median over the batch of ‖h_l‖₂, l = 0..L (length L+1).
        bp_grad_norms: median over the batch of ‖g_l‖₂, l = 0..L, g_l = ∂(batch-mean CE)/∂h_l.
        stability_layer: the layer (c) was measured at.
        cross_batch_stability: (c)'s mean pairwise cosine, in [-1, 1].
        headline_acc: accuracy claimed, a fraction in [0, 1].
        frozen_baseline_acc: accuracy of the same net with blocks frozen at random init, a fraction.
        recorded_verdict: the verdict text found in the file (its JSON key is ``verdict``), or None.
        thresholds: what `verdict` is judged by.
        seed: the run's seed.
        headline_acc_source: ``"given"``, or how it was measured (``"measured on 1280 eval
            samples"``).
        batch_size: B of the gradient norms (they carry 1/B).
        n_batches: K, the batches behind (c).
        norm_batches: how many of them (a) and (b) used.
        dtype: the arithmetic that ran, e.g. ``"float32"``, or ``"float32, bfloat16 inside"`` the
            network.
        tap_names: names of h_0..h_L.
        flatten: how a hidden state became one vector per sample (``"as is"``, ``"flattened"``, or
            by the token that the head reads: ``"cls token"``, ``"last token"``, ``"read token"``).
        error_norm: median over samples of ‖e_T‖₂, e_T = softmax(logits) − onehot(y).
        unmeasured: diagnostic letter, or name of what else was asked for → why it was not measured.
        evidence: diagnostic letter → ``"bound"`` or ``"proxy"``; absent means exact (see `kinds`).
        growth_bound: for partial logs, a lower bound on growth where per-layer norms are missing.
        layers: ``residual_norms`` or ``bp_grad_norms`` → which layer its one number is of, ``"2"``
            or ``"L"``, where a source has no more (see `by_layer`).
        credit: credit quality per layer (Γ, ρ, nudge) where the method's credit was saved.
        intervals: ``growth``, ``g_L``, ``stability``, ``acc``, ``margin_pp`` → (low, high), the 95
            % interval of the number, in its own unit (see `interval` and `undecided`); a number
            that has none is judged as a point.
        right: which samples behind `headline_acc` were classified rightly
            (`fa_core.judgement.intervals.packed`).
        resampling: what the numbers would have been on other samples, where that was asked for.
        reference_precision: the gradients against float64 ones, per layer, where that was asked
            for.
        provenance: checkpoint hash, data, versions, device: enough to measure again.
        axes: what else distinguishes the run: ``lam``, ``d``, ``L``, ``arch``, ...
        assumed_baseline_acc: a frozen-baseline accuracy that is assumed, by which (d) is judged in
            place of what is recorded: a what-if. In no file: `to_dict` leaves it out.

    Raises:
        UsageError: a bool or a text where a number belongs.

    Source: docs/protocol.md §3; the first ten names are fixed by the published audit files.
    """

    method_name: str = ""
    notes: str = ""
    residual_norms: list[float] = []
    bp_grad_norms: list[float] = []
    stability_layer: int | None = None
    cross_batch_stability: float | None = None
    headline_acc: float | None = None
    frozen_baseline_acc: float | None = None
    recorded_verdict: str | None = msgspec.field(default=None, name="verdict")
    thresholds: DiagnosticThresholds = _UNSTATED
    seed: int | None = None
    headline_acc_source: str | None = None
    batch_size: Count | None = None
    n_batches: Count | None = None
    norm_batches: Count | None = None
    dtype: str | None = None
    tap_names: list[str] = []
    flatten: str | None = None
    error_norm: float | None = None
    unmeasured: dict[str, str] = {}
    evidence: dict[str, str] = {}
    growth_bound: float | None = None
    credit: dict[str, Any] | None = None
    intervals: dict[str, Interval] = {}
    right: str | None = None
    resampling: Resampling | None = None
    reference_precision: ReferencePrecision | None = None
    provenance: dict[str, Any] = {}
    axes: dict[str, Axis] = {}
    layers: dict[str, str] = {}
    assumed_baseline_acc: float | None = msgspec.field(default=None, name=WHAT_IF)

    def __post_init__(self) -> None:
        # also for each report of a file, whose numbers are plain already
        ends = itertools.chain.from_iterable(self.intervals.values())
        if (
            type(self.residual_norms) is type(self.bp_grad_norms) is list
            and _MAYBE_FLOAT.issuperset(map(type, _scalars_of(self)))
            and _MAYBE_INT.issuperset(map(type, _counts_of(self)))
            and _FLOAT.issuperset(
                map(type, itertools.chain(self.residual_norms, self.bp_grad_norms, ends))
            )
        ):
            return
        for name, value in _with_plain_numbers(self).items():
            msgspec.structs.force_setattr(self, name, value)

    @cached_property
    def max_per_block_growth(self) -> float | None:
        """(a)'s number: max_l ‖h_{l+1}‖/max(‖h_l‖, 1e-30); NaN if a norm is non-finite; None if
        unmeasured."""
        norms = self.residual_norms
        if not all(map(math.isfinite, norms)):
            return math.nan
        if len(norms) < 2:
            return self.growth_bound
        return max(
            after / max(before, NORM_RATIO_EPS) for before, after in itertools.pairwise(norms)
        )

    @property
    def cross_batch_direction_stability(self) -> float | None:
        """`cross_batch_stability`, by the name that the protocol's own report class has for it."""
        return self.cross_batch_stability

    @property
    def g_L(self) -> float | None:
        """(b)'s number: the deepest BP gradient norm; None if unmeasured."""
        if self.bp_grad_norms:
            return self.bp_grad_norms[-1]
        return None

    @property
    def h_L(self) -> float | None:
        """The deepest residual norm; None if unmeasured."""
        if self.residual_norms:
            return self.residual_norms[-1]
        return None

    def by_layer(self, field: str) -> dict[str, float]:
        """`residual_norms` or `bp_grad_norms`, each with the layer that it is of; ``"?"`` where a
        source does not say.

        >>> DiagnosticReport(residual_norms=[1.0, 2.0]).by_layer("residual_norms")
        {'0': 1.0, '1': 2.0}
        >>> DiagnosticReport(bp_grad_norms=[2.0],
        ...     layers={"bp_grad_norms": "2"}).by_layer("bp_grad_norms")
        {'2': 2.0}
        """
        norms: list[float] = getattr(self, field)
        partial = field in self.layers or (len(norms) == 1 and not self.tap_names)
        return dict(
            zip(
                [self.layers.get(field, "?")] if partial else map(str, itertools.count()),
                norms,
                strict=False,
            )
        )

    def stream(self, field: str) -> list[float]:
        """`residual_norms` or `bp_grad_norms` where they are of layers 0, 1, ...; nothing of a log
        of another layer."""
        if "0" in self.by_layer(field):
            return [*self.by_layer(field).values()]
        return []

    @cached_property
    def margin_pp(self) -> float | None:
        """(d)'s number: 100·(headline_acc − frozen_baseline_acc), rounded to 1e-9 percentage
        points."""
        acc, baseline = self.headline_acc, self.baseline_acc
        if acc is None or baseline is None:
            return None
        return round(100.0 * (acc - baseline), 9)

    @property
    def baseline_acc(self) -> float | None:
        """What (d) compares with: what is assumed, if anything is, or else
        `frozen_baseline_acc`."""
        assumed = self.assumed_baseline_acc
        if assumed is None:
            return self.frozen_baseline_acc
        return assumed

    @cached_property
    def nonfinite(self) -> dict[str, str]:
        """Diagnostic letter → which measured value is NaN or ±inf (the first one found)."""
        scalars = (
            ("a", "growth bound", self.growth_bound),
            ("c", "cross-batch stability", self.cross_batch_stability),
            ("d", "headline accuracy", self.headline_acc),
            ("d", "frozen baseline accuracy", self.baseline_acc),
        )
        # a sum is finite only if every term is
        total = sum(self.residual_norms) + sum(self.bp_grad_norms)
        if math.isfinite(total + sum(scalar for _, _, scalar in scalars if scalar is not None)):
            return {}
        norms = (
            ("a", "residual norm", self.residual_norms),
            ("b", "BP gradient norm", self.bp_grad_norms),
        )
        layers = [
            (x, f"{name} at layer {l}", norm)
            for x, name, values in norms
            for l, norm in enumerate(values)
        ]
        found: dict[str, str] = {}
        for letter, name, value in (*layers, *scalars):
            if value is not None and not math.isfinite(value):
                found.setdefault(letter, f"{name} is {value}")
        return found

    @property
    def numbers(self) -> dict[str, float | None]:
        """Diagnostic letter → the number it judges; None where that was not measured."""
        return {letter: diagnostic.measured(self) for letter, diagnostic in DIAGNOSTICS.items()}

    @cached_property
    def coverage(self) -> str:
        """The diagnostics that are judged, in order, e.g. ``"abc"`` (``""`` = nothing): all of
        `measured`, and (d) where its baseline is assumed."""
        nonfinite, numbers = self.nonfinite, self.numbers
        judges = LETTERS
        return "".join(
            letter for letter in judges if numbers[letter] is not None or letter in nonfinite
        )

    @property
    def measured(self) -> str:
        """The diagnostics that were measured, in order: (d) by an assumed baseline is not."""
        if self.assumed_baseline_acc is None:
            return self.coverage
        return self.coverage.replace("d", "")

    @property
    def kinds(self) -> Mapping[str, str]:
        """Diagnostic letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where its number is not
        exact."""
        if self.assumed_baseline_acc is None:
            return self.evidence
        return {**self.evidence, "d": ASSUMED}

    @cached_property
    def flags(self) -> frozenset[str]:
        """The diagnostics that fire under `thresholds`, e.g. ``{"a", "b"}``."""
        nonfinite, numbers, thresholds = self.nonfinite, self.numbers, self.thresholds
        fired = [d.letter for d in DIAGNOSTICS.values() if d.fires(numbers[d.letter], thresholds)]
        return frozenset(fired).union(set(nonfinite))

    def interval(self, letter: str) -> Interval | None:
        """The 95 % interval of a diagnostic's number; None where it has none.

        (d)'s is that of the paired differences to its own baseline where that was measured on the
        same samples; else that of the accuracy, with the baseline taken as exact.
        """
        baseline, acc = self.baseline_acc, self.intervals.get("acc")
        if letter != "d" or (self.assumed_baseline_acc is None and "margin_pp" in self.intervals):
            return self.intervals.get(DIAGNOSTICS[letter].column)
        if baseline is None or acc is None:
            return None
        return (100 * (acc[0] - baseline), 100 * (acc[1] - baseline))

    @property
    def judged_intervals(self) -> dict[str, Interval]:
        """All intervals by the names of `intervals`, (d)'s as it is judged."""
        found = {
            diagnostic.column: self.interval(letter) for letter, diagnostic in DIAGNOSTICS.items()
        }
        if self.intervals:
            known = {**found, "acc": self.intervals.get("acc")}
        else:
            known = {}
        return {name: ends for name, ends in known.items() if ends is not None}

    @cached_property
    def undecided(self) -> frozenset[str]:
        """The measured diagnostics that neither fire nor pass for sure.

        The threshold lies within the interval of their number, so that other samples might differ;
        or the number does not fire and shows nothing (`unproven`).
        """
        if not self.intervals:
            return self.unproven
        nonfinite, thresholds = self.nonfinite, self.thresholds
        found = []
        for letter in self.coverage:
            ends = self.interval(letter)
            if ends and letter not in nonfinite:
                low, high = (DIAGNOSTICS[letter].fires(end, thresholds) for end in ends)
                found += [letter] if low != high else []
        return self.unproven.union(found)

    @property
    def unproven(self) -> frozenset[str]:
        """The diagnostics whose number does not fire, and does not show that they pass.

        Only a bound is known, and what lies beyond it may fire; or (a) of a stream that is 0, whose
        ratios say nothing.
        """
        found = {letter for letter, kind in self.evidence.items() if kind == BOUND}
        if self.is_dead:
            found.add("a")
        if found:
            return frozenset(found.intersection(self.coverage) - self.flags)
        return frozenset()

    @property
    def is_dead(self) -> bool:
        """Whether the stream is 0 somewhere: a norm below 1e-30, the smallest denominator of a
        growth ratio."""
        return len(self.residual_norms) > 1 and min(self.residual_norms) < NORM_RATIO_EPS

    def why_unproven(self, letter: str) -> str:
        """Why a diagnostic of `unproven` does not pass."""
        if letter == "a" and self.is_dead:
            layer = next(l for l, norm in enumerate(self.residual_norms) if norm < NORM_RATIO_EPS)
            return f"‖h_{layer}‖ is 0, and a stream that is 0 has no growth to judge"
        return "only a lower bound is known, which does not fire; ‖h_l‖ of every layer would decide"

    @property
    def grounds(self) -> str:
        """On what a verdict that nothing fires stands: ``"on a, b"``, ``"on (a) alone"``, ``"on d,
        (b) by proxy"``."""
        passed = set(self.coverage) - self.flags - self.undecided
        return grounds_text(passed, self.kinds)

    def why_inexact(self, letter: str) -> str:
        """Why a diagnostic was not measured, or not exactly; ``""`` where it was."""
        kind = self.kinds.get(letter)
        if letter not in self.coverage:
            return self.unmeasured.get(letter) or _why_missing(self, letter)
        if kind == ASSUMED:
            return "by an assumed baseline"
        return {BOUND: "only a lower bound", PROXY: "only by proxy"}.get(kind or "", "")

    @property
    def known(self) -> str:
        """What was measured, for a line on the verdict: ``"ac measured, b by proxy"``, ``"nothing
        measured"``."""
        kinds = self.kinds
        exact = "".join(letter for letter in self.coverage if letter not in kinds)
        if exact:
            said = [f"{exact} measured"]
        else:
            said = []
        for letter in self.coverage:
            if letter in kinds:
                if kinds[letter] == ASSUMED:
                    basis = f"a baseline of {self.baseline_words()}"
                else:
                    basis = kinds[letter]
                said.append(f"{letter} by {'a ' if kinds[letter] == BOUND else ''}{basis}")
        return ", ".join(said) or "nothing measured"

    @property
    def noise_scale(self) -> float | None:
        """N in samples, from (c) and B (`fa_core.judgement.intervals.noise_scale`); None where (c)
        shows no shared direction."""
        c, size = self.cross_batch_stability, self.batch_size
        if c is not None and size is not None and 0 < c < 1:
            return noise_scale(c, size)
        return None

    @cached_property
    def verdict(self) -> str:
        """The verdict text under `thresholds` (see `verdict_text`)."""
        return verdict_text(self.flags, self.coverage)

    @property
    def short_verdict(self) -> str:
        """The verdict as published lists have it, e.g. ``walk-back: (a), (d)``."""
        fired = ", ".join(f"({letter})" for letter in sorted(self.flags))
        if fired:
            return f"walk-back: {fired}"
        return self.verdict

    @property
    def recorded_differs(self) -> bool:
        """Whether the file's own verdict names other diagnostics than the recomputed one."""
        recorded = recorded_flags(self.recorded_verdict)
        if recorded is None or self.recorded_verdict == self.verdict:
            return recorded is None and self.recorded_verdict is not None
        unmeasured = self.recorded_verdict == NOT_MEASURED
        return recorded != self.flags or unmeasured != (self.coverage == "")

    def recorded_words(self, recorded_by: DiagnosticThresholds) -> str:
        """The recorded verdict, and by which thresholds it was judged where that is why it differs.

        Args:
            recorded_by: the thresholds that the file records, as they were read.

        >>> loose = DiagnosticThresholds(1e-10)
        >>> report = DiagnosticReport(bp_grad_norms=[1e-9], recorded_verdict="trustworthy",
        ...     thresholds=loose)
        >>> report.with_thresholds(DiagnosticThresholds()).recorded_words(report.thresholds)
        'recorded as “trustworthy”, judged there at deepest ‖g_L‖ < 1e-10'
        """
        said = f"recorded as “{self.recorded_verdict}”"
        recorded, then = recorded_flags(self.recorded_verdict), self.with_thresholds(recorded_by)
        if recorded_by is _UNSTATED or recorded is None or recorded != then.flags:
            return said
        changed = [DIAGNOSTICS[letter] for letter in sorted(recorded ^ self.flags)]
        limits = [diagnostic.rule(recorded_by) for diagnostic in changed]
        if limits:
            return f"{said}, judged there at {', '.join(limits)}"
        return said

    def with_thresholds(self, thresholds: DiagnosticThresholds) -> DiagnosticReport:
        """The same measurements judged by these thresholds."""
        if self.thresholds == thresholds:
            return self
        return msgspec.structs.replace(self, thresholds=thresholds)

    def with_frozen_baseline(self, acc: float | None) -> DiagnosticReport:
        """The same measurements with another measured frozen baseline (a fraction)."""
        reasons = {
            letter: why for letter, why in self.unmeasured.items() if letter != "d" or acc is None
        }
        intervals = {name: ends for name, ends in self.intervals.items() if name != "margin_pp"}
        return msgspec.structs.replace(
            self, frozen_baseline_acc=acc, unmeasured=reasons, intervals=intervals
        )

    def with_assumed_baseline(self, acc: float) -> DiagnosticReport:
        """The same measurements, (d) judged by an assumed frozen baseline (a fraction): a what-if.

        What is recorded stays: `frozen_baseline_acc`, and all that `to_dict` gives.
        """
        return msgspec.structs.replace(self, assumed_baseline_acc=acc)

    def as_recorded(self) -> DiagnosticReport:
        """The report without an assumed baseline."""
        return msgspec.structs.replace(self, assumed_baseline_acc=None)

    def check(self, where: str = "") -> DiagnosticReport:
        """Return self, or refuse numbers that contradict each other; a NaN where `unmeasured` names
        (c) is no number.

        Args:
            where: file and JSON path, for the message.

        Raises:
            InvalidReport: unequal numbers of layers, a negative norm, an accuracy outside [0, 1],
                a cosine outside [-1, 1], an interval whose ends are out of order, a negative bound,
                members of ``credit`` or ``provenance`` of another type than `Credit` and
                `Provenance` say.
        """
        if (longest := longest_list(self)) > MOST_LAYERS:
            what = f"{longest:,} values where there is one for each layer"
            raise InvalidReport(what, where=where, hint=f"up to {MOST_LAYERS:,} layers are read")
        h, g = self.residual_norms, self.bp_grad_norms
        if h and g and len(h) != len(g) and not self.layers:
            what = f"layers of unequal number: {len(h)} residual_norms, {len(g)} bp_grad_norms"
            raise InvalidReport(
                what,
                where=where,
                hint="both must list h_0..h_L; leave one out if it was not measured",
            )
        for name, values in zip(NORMS, (h, g), strict=True):
            _check_norms(values, name, where)
        if self.growth_bound is not None and -math.inf < self.growth_bound < 0:
            raise _negative("growth_bound", self.growth_bound, where)
        _check_accuracy(self.headline_acc, "headline_acc", where)
        _check_accuracy(self.frozen_baseline_acc, "frozen_baseline_acc", where)
        for name, (low, high) in self.intervals.items():
            if not low <= high:
                raise InvalidReport(
                    f"intervals.{name} is [{low}, {high}]",
                    where=where,
                    hint="low end first, no NaN",
                )
        if self.credit:
            _check_members(self.credit, Credit, "credit", where)
        if self.provenance:
            _check_members(self.provenance, Provenance, "provenance", where)
        cosine = self.cross_batch_stability
        if cosine is not None and math.isnan(cosine) and "c" in self.unmeasured:
            reasons = {
                name: why
                for name, why in self.unmeasured.items()
                if (name, why) != ("c", NO_REASON)
            }
            return msgspec.structs.replace(self, cross_batch_stability=None, unmeasured=reasons)
        if cosine is not None and math.isfinite(cosine) and abs(cosine) > 1.0 + 1e-6:
            raise InvalidReport(
                f"cross_batch_stability is {cosine}",
                where=where,
                hint="a mean cosine lies in [-1, 1]",
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """A JSON-ready dict: the fixed fields always, the others where they say something.

        ``verdict`` is the recomputed one; a differing recorded verdict is kept as
        ``recorded_verdict``. An assumed baseline is left out, the verdict is without it.
        """
        report = self.as_recorded()
        data: dict[str, Any] = msgspec.to_builtins(report, enc_hook=as_json)
        data |= {"verdict": report.verdict, "thresholds": self.thresholds.numbers()}
        fixed = {name: data.pop(name) for name in self.__struct_encode_fields__[:_FIXED_FIELDS]}
        if self.recorded_verdict not in (None, report.verdict):
            fixed["recorded_verdict"] = self.recorded_verdict
        return fixed | {
            name: value
            for name, value in data.items()
            if value is not None and value != [] and value != {}
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "report") -> DiagnosticReport:
        """A report from its JSON form.

        Args:
            data: a mapping with any of the fields above, numbers of any type; unknown keys are left
                alone.
            where: file and JSON path, for messages.

        Raises:
            InvalidReport: a field of the wrong type, or numbers that contradict each other.
        """
        fields = dict(data)
        if SOURCE_DRIFT in fields:
            fields.setdefault("cross_batch_stability", fields.pop(SOURCE_DRIFT))
        try:
            report = _converted(fields)
        except ValueError as error:
            what, _, place = str(error).partition(" - at `$")
            raise InvalidReport(
                what, where=where + place.rstrip("`"), hint="see `fa-tui schema report`"
            ) from error
        kept = data.get("recorded_verdict")
        if isinstance(kept, str):
            report = msgspec.structs.replace(report, recorded_verdict=kept)
        return report.check(where)

    def __str__(self) -> str:
        """The report as text, the verdict first: one line per diagnostic, the norms of every layer,
        notes.

        >>> print(DiagnosticReport("dfa", "d = 256", [1.0, 2.0], [0.5, 0.25]))
        dfa: trustworthy on a, b
          (a) passes: growth per block 2 (limit 50)
          (b) passes: deepest ‖g_L‖ 0.25 (floor 1e-7)
          (c) not measured: not in the source
          (d) not measured: no accuracy in the source
          ‖h_l‖: 0: 1, 1: 2
          ‖g_l‖: 0: 0.5, 1: 0.25
          d = 256
        """
        norms = (
            ("‖h_l‖", self.by_layer("residual_norms")),
            ("‖g_l‖", self.by_layer("bp_grad_norms")),
        )
        layers = [
            f"{name}: {', '.join(f'{l}: {brief(v)}' for l, v in values.items())}"
            for name, values in norms
            if values
        ]
        causes = {"cause of (b)": floor_in_words(self), "mode": failure_mode(self)}
        cause = [f"{name}: {words}" for name, words in causes.items() if words]
        lines = [
            *self.describe(),
            *cause,
            *layers,
            *filter(None, [self.reduction(), self.own_backward(), self.notes]),
        ]
        return "\n".join(
            [f"{self.method_name or 'run'}: {self.words}", *(f"  {line}" for line in lines)]
        )

    residual_stream_exploded = property(
        _fires("a"), doc="Whether (a) fires; None where it was not measured."
    )
    bp_grad_at_floor = property(
        _fires("b"), doc="Whether (b) fires; None where it was not measured."
    )
    reference_drift_dominated = property(
        _fires("c"), doc="Whether (c) fires; None where it was not measured."
    )
    frozen_baseline_undercut = property(
        _fires("d"), doc="Whether (d) fires; None where it was not measured."
    )

    @property
    def doubt(self) -> str:
        """``"undecided on a, c"``, ``"Γ missing"`` or ``""``: what is said next to a verdict that
        it puts in doubt."""
        if self.undecided:
            said = [doubt_text(self.undecided)]
        else:
            said = []
        return "; ".join(said)

    @property
    def is_control(self) -> bool:
        """Whether it is by its name the report of a control."""
        return is_control(self.method_name)

    def standing(self, control: bool | None = None) -> str:
        """What the run is counted as (`fa_core.judgement.diagnostics.standing`).

        Args:
            control: whether it is a control; None = by its name.
        """
        if control is None:
            control = self.is_control
        return standing(self.flags, self.coverage, self.undecided, control=control)

    @property
    def words(self) -> str:
        """The verdict, on what it stands and what is undecided; of a control that it is one."""
        return self.words_as(self.is_control)

    def words_as(self, control: bool, *, short: bool = False) -> str:
        """`words` of a run of which it is known whether it is a control; ``short``: with
        `short_verdict`."""
        if control and self.coverage:
            return CONTROL
        if short:
            verdict = self.short_verdict
        else:
            verdict = self.verdict
        if not self.flags and self.coverage and not self.grounds and self.undecided:
            verdict = ""
        elif not self.flags and self.grounds:
            verdict = f"{verdict} {self.grounds}"
        return "; ".join(filter(None, [verdict, self.doubt]))

    def cell(self, *, control: bool | None = None, ascii_only: bool = False) -> str:
        """The verdict in five characters, as `cell_text` gives it; ``control`` as for
        `standing`."""
        if control is None:
            control = self.is_control
        return cell_text(
            self.flags, self.coverage, self.undecided, control=control, ascii_only=ascii_only
        )

    def describe(self, letters: str = LETTERS) -> list[str]:
        """One line per diagnostic that is judged: whether it fires, number with interval,
        threshold; or why not."""
        flags, coverage, nonfinite, undecided = (
            self.flags,
            self.coverage,
            self.nonfinite,
            self.undecided,
        )
        lines = []
        for letter in letters:
            diagnostic = DIAGNOSTICS[letter]
            value = diagnostic.measured(self)
            if letter in nonfinite:
                lines.append(f"({letter}) FIRES: non-finite: {nonfinite[letter]}")
            elif letter not in coverage or value is None:
                lines.append(f"({letter}) not measured: {self.why_inexact(letter)}")
            else:
                state = "FIRES" if letter in flags else "passes"
                if letter in undecided:
                    state += ", undecided"
                if letter in self.unproven:
                    state = "undecided"
                said = [
                    diagnostic.text(value) + ("" if diagnostic.log else diagnostic.suffix),
                    self.range_words(letter),
                    self.basis(letter),
                ]
                number = " ".join([said[0], *(f"[{more}]" for more in said[1:] if more)])
                bound = f"{diagnostic.bound} {brief(diagnostic.limit(self.thresholds))}"
                if letter == "d":
                    others = self.other_margins()
                else:
                    others = ""
                if others:
                    more = f"; {others}"
                else:
                    more = self.at_reference(letter)
                if letter in self.unproven and self.is_dead:
                    more = f"; {self.why_unproven(letter)}"
                lines.append(f"({letter}) {state}: {diagnostic.name} {number} ({bound}){more}")
        return lines

    def range_words(self, letter: str) -> str:
        """A diagnostic's interval as text, e.g. ``"+0.120, +0.392"``; ``""`` where it has none."""
        return ", ".join(map(DIAGNOSTICS[letter].text, self.interval(letter) or ()))

    def at_reference(self, letter: str) -> str:
        """What (b) and (c) owe to B: both as they would be at B = 128, and the gradient noise scale
        N that (c) shows.

        ‖g_L‖ carries 1/B; for (c) see `fa_core.judgement.intervals.at_reference_batch` and
        `noise_scale`.
        """
        size, value = self.batch_size, DIAGNOSTICS[letter].measured(self)
        if letter not in "bc" or value is None or size is None or not math.isfinite(value):
            return ""
        if letter == "c" and self.noise_scale is not None:
            said = f"; N = {brief(self.noise_scale, 3)}"
        else:
            said = ""
        if size != REFERENCE_BATCH:
            if letter == "b":
                there = value * size / REFERENCE_BATCH
            else:
                there = at_reference_batch(value, size)
            said += (
                f"; B = {size}, at B = {REFERENCE_BATCH} it is {DIAGNOSTICS[letter].text(there)}"
            )
        return said

    def basis(self, letter: str) -> str:
        """What a diagnostic's number is, as text, where it is not exact: ``"bound"``, ``"baseline
        0.349 assumed"``."""
        kind, rule = self.kinds.get(letter, ""), self.provenance.get(BASELINE_RULE)
        baseline = f"baseline {self.baseline_words()}"
        if letter != "d" or kind:
            if kind == ASSUMED:
                return baseline
            return kind
        if self.provenance.get(BASELINE_FROM) == GIVEN:
            return f"{baseline} given by hand"
        if rule:
            return f"{baseline} of frozen blocks trained by {rule}"
        return ""

    @property
    def margins_by_rule(self) -> dict[str, float]:
        """(d)'s number against frozen blocks that other rules trained: rule → percentage points."""
        others, acc = self.provenance.get(OTHER_BASELINES), self.headline_acc
        if acc is None or not isinstance(others, Mapping):
            return {}
        known = {
            rule.partition("(")[0]: other
            for rule, other in others.items()
            if isinstance(other, float)
        }
        return {rule: round(100.0 * (acc - other), 9) for rule, other in known.items()}

    def other_margins(self) -> str:
        """`margins_by_rule` as text.

        >>> provenance = {"other_frozen_baselines": {"dfa": 0.557}}
        >>> DiagnosticReport(headline_acc=0.62, provenance=provenance).other_margins()
        'by frozen blocks of other rules: dfa +6.30 pp'
        """
        margins = ", ".join(
            f"{rule} {margin:+.2f}" for rule, margin in self.margins_by_rule.items()
        )
        if margins:
            return f"by frozen blocks of other rules: {margins} pp"
        return ""

    def reduction(self) -> str:
        """Over what a language model's norms are taken; "" for other networks."""
        if found := self.provenance.get("reduction"):
            return f"norms {found}"
        return ""

    def own_backward(self) -> str:
        """What of the network's backward pass is its own, and what follows for (b), (c) and Γ; ""
        where nothing is.

        >>> facts = {"custom_backward": ["Feedback"], "gradient_by": "trace"}
        >>> DiagnosticReport(provenance=facts, credit={"gamma": [0.441, 1.0]}).own_backward()
        'own backward pass (Feedback): (b), (c) by the derivative of the forward; Γ of its own
        vector +0.441 +1.000'
        """
        names = self.provenance.get(CUSTOM_BACKWARD)
        if not names:
            return ""
        said = "(b), (c) by its vector, which need not be the gradient"
        if GRADIENT_BY in self.provenance:
            layers = (self.credit or {}).get("gamma", ())
            gammas = " ".join("N/A" if value is None else f"{value:+.3f}" for value in layers)
            said = (
                "(b), (c) by the derivative of the "
                f"forward{f'; Γ of its own vector {gammas}' if gammas else ''}"
            )
        elif not self.bp_grad_norms:
            said = "without its derivative (b) and (c) are not judged"
        return f"own backward pass ({', '.join(names)}): {said}"

    def caveats(self, brief: bool = False) -> list[str]:
        """What a reader of its numbers has to know: whose frozen blocks (d) is against, a B other
        than 128, notes.

        Args:
            brief: without the margins by other rules' frozen blocks where they leave (d) as it is.
        """
        if not self.provenance and not self.kinds and self.batch_size in (None, REFERENCE_BATCH):
            if self.notes and not self.coverage:
                return [self.notes]
            return []
        fires = [
            DIAGNOSTICS["d"].fires(margin, self.thresholds)
            for margin in self.margins_by_rule.values()
        ]
        basis, margins = self.basis("d"), self.other_margins()
        if brief and all(fire == ("d" in self.flags) for fire in fires):
            margins = ""
        if basis and "d" in self.measured and "d" not in self.evidence:
            said = [f"(d) is against a {basis}"]
        else:
            said = []
        said += [f"(d) {margins}"] if margins else []
        if self.batch_size not in (None, REFERENCE_BATCH):
            said += [
                f"({letter}){words.removeprefix(';')}"
                for letter in "bc"
                if (words := self.at_reference(letter))
            ]
        said += filter(None, [self.reduction(), self.own_backward()])
        return [
            *said,
            *(
                [self.notes]
                if self.notes and ("data_hash" in self.provenance or not self.coverage)
                else []
            ),
        ]

    def baseline_words(self) -> str:
        """(d)'s baseline; where it is assumed, that, and the recorded one too.

        >>> DiagnosticReport(frozen_baseline_acc=0.349).baseline_words()
        '0.349'
        >>> DiagnosticReport(frozen_baseline_acc=0.349).with_assumed_baseline(0.1).baseline_words()
        '0.1 assumed, 0.349 recorded'
        """
        assumed, recorded = self.assumed_baseline_acc, self.frozen_baseline_acc
        if assumed is None:
            if recorded is None:
                return ""
            return brief(recorded)
        return f"{brief(assumed)} assumed" + (
            "" if recorded is None else f", {brief(recorded)} recorded"
        )


GIVE_ONE = " (give one with --frozen-baseline)"
"""What to do where (d) has no baseline: it is then judged by one that is assumed."""


def _refuse_to_change(report: object, name: str, value: object = None) -> NoReturn:
    hint = (
        "report.with_thresholds(DiagnosticThresholds(...)) gives a report that is judged by others"
    )
    raise AttributeError(f"{name} cannot be changed, reports and thresholds are immutable; {hint}")


for _immutable in (DiagnosticReport, DiagnosticThresholds):
    # msgspec has methods of its own for frozen classes, whose message says neither why nor what to
    # do
    _immutable.__setattr__ = _refuse_to_change  # type: ignore[method-assign]
    _immutable.__delattr__ = _refuse_to_change  # type: ignore[method-assign]


def _converted(fields: dict[str, Any]) -> DiagnosticReport:
    """Fields as a report; numbers of other types than JSON's are converted where there are any."""
    try:
        return msgspec.convert(fields, DiagnosticReport)
    except ValueError:
        return msgspec.convert(msgspec.to_builtins(fields, enc_hook=as_json), DiagnosticReport)


def _with_plain_numbers(report: DiagnosticReport) -> dict[str, Any]:
    """The fields that hold numbers, as Python floats and ints."""
    plain: dict[str, Any] = {name: as_floats(getattr(report, name), name) for name in NORMS}
    for name in _SCALARS:
        value = getattr(report, name)
        plain[name] = None if value is None else as_float(value, name)
    for name in _COUNTS:
        value = getattr(report, name)
        plain[name] = None if value is None else _as_count(value, name)
    ends = report.intervals.items()
    plain["intervals"] = {name: tuple(as_floats(pair, f"intervals.{name}")) for name, pair in ends}
    return plain


def _as_count(value: Any, name: str) -> int:
    number = as_float(value, name)
    if not number.is_integer():
        raise UsageError(f"{name} is {number}", hint="give a whole number")
    return int(value)


_FIXED_FIELDS = 10
"""Of `to_dict`, the first ones of the class."""


def _why_missing(report: DiagnosticReport, letter: str) -> str:
    """The reason that follows from the report itself when the source gave none."""
    if letter == "a" and len(report.residual_norms) == 1:
        return "one layer only, so no block to grow"
    if letter == "d" and report.headline_acc is None:
        return "no accuracy in the source"
    if letter == "d":
        return why_no_baseline(report.method_name) or f"no frozen baseline{GIVE_ONE}"
    return NO_REASON


NO_REASON = "not in the source"
"""Why something was not measured, where no source says more."""
