"""The measurements of a run, as in its file, and its thresholds. Immutable and not judged."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr, replace

from fa_core.errors import UsageError
from fa_core.files.decode import Json, without
from fa_core.report.numbers import brief
from fa_core.report.provenance import (
    CE,
    LOSS,
    Count,
    DepthAblation,
    Interval,
    Intervals,
    MeanError,
    Norms,
    ReferencePrecision,
)

if TYPE_CHECKING:
    from typing_extensions import Self


def as_float(value: object, name: str = "number") -> float:
    """A number of any type as a Python float: int, NumPy scalar, 0-d array or tensor, Fraction,
    Decimal.

    Python floats compare, print and encode alike everywhere; ``np.float64(2) > 1 is True`` is
    False.

    Args:
        value: the number; NaN and ±inf are allowed.
        name: its name, for the message.

    Raises:
        UsageError: a bool, a text, an array of several numbers, or another type.

    >>> from fractions import Fraction
    >>> as_float(3), as_float(Fraction(1, 4))
    (3.0, 0.25)
    >>> as_float("0.31", "headline_acc")
    Traceback (most recent call last):
    fa_core.errors.UsageError: headline_acc is '0.31'; give a number
    """
    if type(value) is float:
        return value
    try:
        if hasattr(value, "item"):
            number = value.item()
        else:
            number = value
        if not isinstance(number, (bool, str, bytes)):
            return float(number)
    except (TypeError, ValueError, ArithmeticError, RuntimeError):
        pass
    raise UsageError(f"{name} is {value!r:.60}", hint="give a number")


def as_floats(values: Iterable[object], name: str) -> list[float]:
    """A list, tuple, array or tensor of numbers as a list of Python floats.

    Raises:
        UsageError: as `as_float`, or not iterable.
    """
    try:
        listed: list[Any] = list(values)
    except TypeError:
        raise UsageError(f"{name} is {values!r:.60}", hint="give a list of numbers") from None
    for place, value in enumerate(listed):
        if type(value) is not float:
            listed[place] = as_float(value, f"{name}[{place}]")
    return listed


def as_json(value: object) -> object:
    """A JSON value for other types: a number, a list, or text."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (bool, int, float, str, list)):
        return value
    try:
        return as_float(value)
    except UsageError:
        return str(value)


Frozen = TypeVar("Frozen", bound=type[Any])


def refuse_changes(cls: Frozen) -> Frozen:
    """Class decorator: the error of setting or deleting an attribute points to `with_thresholds`.

    Each subclass needs the decorator, since msgspec overrides these methods in every frozen class.
    """
    cls.__setattr__ = _refuse
    cls.__delattr__ = _refuse  # type: ignore[assignment]  # one refusal for both
    return cls


def _refuse(instance: object, name: str, value: object = None) -> NoReturn:
    hint = (
        "report.with_thresholds(DiagnosticThresholds(...)) gives a report that is judged by others"
    )
    raise AttributeError(f"{name} cannot be changed, reports and thresholds are immutable; {hint}")


NEVER_NEGATIVE: Mapping[str, str] = {
    "g_norm_floor": "a gradient norm",
    "h_norm_explosion_ratio": "growth per block",
}
"""Threshold that must not be negative → name of its number, which never is."""


@refuse_changes
class DiagnosticThresholds(msgspec.Struct, frozen=True):
    """The four thresholds. Comparisons are strict: a value equal to its threshold does not fire.

    Numbers of any type are taken; they become floats.

    Attributes:
        g_norm_floor: (b) fires below this ‖g_L‖ (batch-averaged CE, so it carries 1/B).
        h_norm_explosion_ratio: (a) fires above this growth per block (a ratio).
        stability_drift_ceiling: (c) fires above this mean pairwise cosine (in [-1, 1]).
        frozen_acc_margin_pp: (d) fires below this margin over the frozen baseline (percentage
            points).

    Raises:
        ValueError: if a threshold is NaN, or negative where that makes no sense (`NEVER_NEGATIVE`).
        UsageError: if a threshold is no number.

    >>> DiagnosticThresholds(1e-8, 12.0).h_norm_explosion_ratio
    12.0
    """

    g_norm_floor: float = 1e-7
    h_norm_explosion_ratio: float = 50.0
    stability_drift_ceiling: float = 0.30
    frozen_acc_margin_pp: float = 2.0

    def __post_init__(self) -> None:
        # runs for each report of a file: faster than over `numbers`
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if type(value) is float and value > 0:
                continue
            # equal thresholds are written alike: -0.0 equals 0.0
            value = as_float(value, f"threshold {name}") or 0.0
            force_setattr(self, name, value)
            if math.isnan(value):
                raise ValueError(f"threshold {name} is NaN: give a number")
            if value < 0 and name in NEVER_NEGATIVE:
                why = f"{NEVER_NEGATIVE[name]} is never negative"
                raise ValueError(f"threshold {name} is {brief(value)}: {why}")


PROTOCOL = DiagnosticThresholds()
"""The protocol's thresholds (docs/protocol.md §3)."""

Axis: TypeAlias = str | int | float | bool | None
"""A run's coordinate along an axis of a sweep."""

WHAT_IF = "(what if)"
"""Key of an assumed baseline for decoders; never written to files."""

NORMS = ("residual_norms", "bp_grad_norms")
"""Fields with a number per layer."""

TRAINING = "training"
"""Key of `ReportFacts.unmeasured`: how far the training of an unmeasured run is, or got."""
NO_REASON = "not in the source"
"""Reason of an unmeasured value without a recorded one."""

UNSTATED = DiagnosticThresholds()
"""Thresholds of a report without recorded ones."""

_SCALARS = {
    **dict.fromkeys(("cross_batch_stability", "headline_acc", "frozen_baseline_acc"), float),
    **dict.fromkeys(("error_norm", "growth_bound", "assumed_baseline_acc"), float),
    **dict.fromkeys(("stability_layer", "seed", "batch_size", "n_batches", "norm_batches"), int),
}
"""Fields with one number → its type."""


def layers_in_order(layers: Iterable[str]) -> list[str]:
    """Layers by number; those without one last.

    >>> layers_in_order(["L", "10", "2", "2"])
    ['2', '10', 'L']
    """
    return sorted(set(layers), key=_order)


def _order(layer: str) -> tuple[bool, int, str]:
    return not layer.isdecimal(), len(layer), layer


@refuse_changes
class ReportFacts(msgspec.Struct, frozen=True, dict=True):
    """What was measured on one run. Immutable; ``None`` or an empty list means *not measured*.

    Numbers of any type are taken (NumPy scalars, 0-d tensors, …); they become Python numbers.

    Attributes:
        method_name: as the source spells it, e.g. ``"DFA"``.
        notes: free text of the source.
        residual_norms: median over the batch of ‖h_l‖₂, l = 0..L (length L+1).
        bp_grad_norms: median over the batch of ‖g_l‖₂, l = 0..L, g_l = ∂(batch-mean loss)/∂h_l.
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
        error_norm: median over samples of ‖e_T‖₂, e_T = ∂loss/∂outputs of a sample: for CE
            softmax(logits) − onehot(y).
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
            (`fa_core.report.intervals.packed`).
        reference_precision: the gradients against float64 ones, per layer, where that was asked
            for.
        depth_ablation: accuracy without each block, where that was asked for.
        mean_error: the part of (c) that the mean error makes; of labels per sample.
        provenance: checkpoint hash, data, versions, device: enough to measure again.
        axes: what else distinguishes the run: ``lam``, ``d``, ``L``, ``arch``, ...
        partial_stream: what of the residual stream was left out of the measurement; while it says
            something, (a) and (b) can fire and never pass.
        assumed_baseline_acc: a what-if: the frozen-baseline accuracy that (d) is judged by in place
            of the recorded one. No file has it.
        changed: which files are not those that were measured, ``"its weights changed since"``, or
            what else of its record keeps it from counting. No file has it.

    Raises:
        UsageError: a bool or a text where a number belongs.

    Source: docs/protocol.md §3; the first ten names are fixed by the published audit files.
    """

    method_name: str = ""
    notes: str = ""
    residual_norms: Norms = []
    bp_grad_norms: Norms = []
    stability_layer: int | None = None
    cross_batch_stability: float | None = None
    headline_acc: float | None = None
    frozen_baseline_acc: float | None = None
    recorded_verdict: str | None = msgspec.field(default=None, name="verdict")
    thresholds: DiagnosticThresholds = UNSTATED
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
    evidence: dict[str, Literal["bound", "proxy", "assumed"]] = {}
    growth_bound: float | None = None
    credit: Json | None = None
    intervals: Intervals = {}
    right: str | None = None
    reference_precision: ReferencePrecision | None = None
    depth_ablation: DepthAblation | None = None
    mean_error: MeanError | None = None
    provenance: Json = {}
    axes: dict[str, Axis] = {}
    layers: dict[str, str] = {}
    partial_stream: str = ""
    assumed_baseline_acc: float | None = msgspec.field(default=None, name=WHAT_IF)
    changed: str = msgspec.field(default="", name="(changed)")

    def __post_init__(self) -> None:
        for name in NORMS:
            force_setattr(self, name, as_floats(getattr(self, name), name))
        for name, kind in _SCALARS.items():
            value = getattr(self, name)
            if value is not None and type(value) is not kind:
                convert = _whole if kind is int else as_float
                force_setattr(self, name, convert(value, name))
        if self.intervals:
            ends = {name: _ends(name, both) for name, both in self.intervals.items()}
            force_setattr(self, "intervals", ends)

    @property
    def baseline_acc(self) -> float | None:
        """The baseline (d) uses: the assumed one if set, else the recorded one."""
        if self.assumed_baseline_acc is None:
            return self.frozen_baseline_acc
        return self.assumed_baseline_acc

    @property
    def h_L(self) -> float | None:
        """‖h_L‖; None if unmeasured, and where the one norm that is there is of another layer.

        >>> ReportFacts(residual_norms=[1.0, 2.0]).h_L
        2.0
        >>> print(ReportFacts(residual_norms=[2.0], layers={"residual_norms": "2"}).h_L)
        None
        """
        is_last = self.layers.get("residual_norms", "L") == "L"
        return self.residual_norms[-1] if self.residual_norms and is_last else None

    @property
    def loss(self) -> str | None:
        """The loss whose gradients were measured: `CE` unless recorded; None without gradients.

        >>> ReportFacts(bp_grad_norms=[0.1]).loss, ReportFacts().loss
        ('ce', None)
        """
        if self.bp_grad_norms or self.cross_batch_stability is not None:
            return str(self.provenance.get(LOSS, CE))
        return None

    def by_layer(self, field: str) -> dict[str, float]:
        """`residual_norms` or `bp_grad_norms` by layer; ``"?"`` if a source does not name it.

        >>> ReportFacts(residual_norms=[1.0, 2.0]).by_layer("residual_norms")
        {'0': 1.0, '1': 2.0}
        >>> partial = ReportFacts(bp_grad_norms=[2.0], layers={"bp_grad_norms": "2"})
        >>> partial.by_layer("bp_grad_norms")
        {'2': 2.0}
        """
        norms: list[float] = getattr(self, field)
        if field in self.layers or (len(norms) == 1 and not self.tap_names):
            return {self.layers.get(field, "?"): norm for norm in norms[:1]}
        return {str(layer): norm for layer, norm in enumerate(norms)}

    def stream(self, field: str) -> list[float]:
        """`residual_norms` or `bp_grad_norms` of layers 0, 1, …; empty if only another layer was
        logged."""
        norms = self.by_layer(field)
        return list(norms.values()) if "0" in norms else []

    def with_thresholds(self, thresholds: DiagnosticThresholds) -> Self:
        """The measurements judged by these thresholds."""
        if self.thresholds == thresholds:
            return self
        return replace(self, thresholds=thresholds)

    def with_frozen_baseline(self, acc: float) -> Self:
        """The measurements with another measured frozen baseline (a fraction)."""
        reasons = without(self.unmeasured, "d")
        intervals = without(self.intervals, "margin_pp")
        return replace(self, frozen_baseline_acc=acc, unmeasured=reasons, intervals=intervals)

    def with_assumed_baseline(self, acc: float) -> Self:
        """The measurements with (d) judged by an assumed frozen baseline (a fraction).

        `frozen_baseline_acc` and `to_dict` are unchanged.
        """
        return replace(self, assumed_baseline_acc=acc)

    def as_recorded(self) -> Self:
        """The report as its file has it, without an assumed baseline."""
        if self.assumed_baseline_acc is None and not self.changed:
            return self
        return replace(self, assumed_baseline_acc=None, changed="")


def _ends(name: str, interval: Iterable[object]) -> Interval:
    low, high = as_floats(interval, f"intervals.{name}")
    return low, high


def _whole(value: object, name: str) -> int:
    number = as_float(value, name)
    if not number.is_integer():
        raise UsageError(f"{name} is {number}", hint="give a whole number")
    return int(number)
