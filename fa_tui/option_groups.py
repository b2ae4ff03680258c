"""Groups of options: criteria, choice of runs, execution of measurements.

A group is a dataclass whose fields are options. A command has a parameter of that type;
`fa_tui.typer_app` expands it into the options and passes the group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer
from msgspec.structs import replace
from typer.models import OptionInfo

from fa_core.audit.devices import Execution
from fa_core.errors import UsageError
from fa_core.formats import given_columns
from fa_core.formats.trace import with_growth_bound
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.options import FilterOption, parse_frozen_baseline, split_list

if TYPE_CHECKING:
    from fa_core.formats.log_columns import Given
    from fa_core.formats.rows import AuditRow
    from fa_core.formats.trace import Logged, Trace


class Criteria(NamedTuple):
    """Criteria of the verdicts.

    Attributes:
        thresholds: of the diagnostics.
        baseline: assumed frozen-baseline accuracies.
    """

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline = FrozenBaseline()


def _limit(letter: str) -> OptionInfo:
    """The option of a diagnostic's threshold."""
    diagnostic = DIAGNOSTICS[letter]
    side = "below"
    if diagnostic.fires_above:
        side = "above"
    metavar = diagnostic.quantity.unit.upper()
    if diagnostic.quantity.unit == "×":
        metavar = "RATIO"
    words = diagnostic.quantity.words
    text = f"({letter}) fires {side} this {words}. Published: {diagnostic.calibration}."
    option: OptionInfo = typer.Option(metavar=metavar, help=text)
    return option


_DEFAULT = DiagnosticThresholds()


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions:
    """The four thresholds."""

    h_norm_explosion_ratio: Annotated[float, _limit("a")] = _DEFAULT.h_norm_explosion_ratio
    g_norm_floor: Annotated[float, _limit("b")] = _DEFAULT.g_norm_floor
    stability_drift_ceiling: Annotated[float, _limit("c")] = _DEFAULT.stability_drift_ceiling
    frozen_acc_margin_pp: Annotated[float, _limit("d")] = _DEFAULT.frozen_acc_margin_pp

    def thresholds(self) -> DiagnosticThresholds:
        """The given thresholds.

        Raises:
            UsageError: a threshold that is NaN, or negative without sense.
        """
        try:
            return DiagnosticThresholds(
                self.g_norm_floor,
                self.h_norm_explosion_ratio,
                self.stability_drift_ceiling,
                self.frozen_acc_margin_pp,
            )
        except ValueError as error:
            raise UsageError(str(error)) from error


_BASELINE_HELP = (
    "Frozen-blocks accuracy (a fraction) to assume for every run without one, but for frozen, "
    "shallow and random_init; METHOD=ACC: for all runs of that method, in place of a recorded one "
    "too. Marked as "
    "assumed, and in no file as recorded; `audit` alone writes it down, as given, for runs "
    "without one."
)
_BASELINE = typer.Option(metavar="[METHOD=]ACC", help=_BASELINE_HELP, show_default=False)


@dataclass(frozen=True, kw_only=True)
class CriteriaOptions(ThresholdOptions):
    """What runs are judged by."""

    frozen_baseline: Annotated[list[str] | None, _BASELINE] = None

    def criteria(self) -> Criteria:
        """The given options.

        Raises:
            UsageError: as `thresholds` and `parse_frozen_baseline`, or an empty accuracy, e.g. from
                an unset variable.
        """
        for value in self.frozen_baseline or ():
            if "" in map(str.strip, value.split(",")):
                raise UsageError(
                    f"--frozen-baseline {value!r} lacks an accuracy",
                    hint="write 0.349 or METHOD=0.349",
                )
        return Criteria(self.thresholds(), parse_frozen_baseline(self.frozen_baseline))


_H0_HELP = "‖h_0‖ of logs that hold only ‖h_L‖: bounds their growth."
_H0 = typer.Option(metavar="NORM", help=_H0_HELP)
_BLOCKS = typer.Option("--blocks", "--depth", metavar="L", help="Number of blocks of such logs.")
_COLUMNS_HELP = (
    "Columns of logs that other tools wrote: acc=val_acc,h=norms/h_*; * is the layer. Also "
    "frozen_acc, loss, g, growth, h_L, g_L, gamma, epoch and step."
)
_COLUMNS = typer.Option(metavar="LIST", help=_COLUMNS_HELP, show_default=False)


@dataclass(frozen=True)
class Log:
    """What logs do not say: ‖h_0‖ and the number of blocks; which column is which number."""

    h0: Annotated[float | None, _H0] = None
    blocks: Annotated[int | None, _BLOCKS] = None
    columns: Annotated[list[str] | None, _COLUMNS] = None

    def __bool__(self) -> bool:
        return self.h0 is not None or self.blocks is not None

    @property
    def given(self) -> Given:
        """The named columns, as `fa_core.formats.scan` takes them.

        Raises:
            UsageError: a malformed item, or an unknown number.
        """
        if not self.columns:
            return {}
        return given_columns(split_list(self.columns))

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows, with a bound on growth if only ‖h_L‖ was logged.

        Raises:
            UsageError: only one of the two, or invalid values.
        """
        if self:
            return [replace(row, report=self._bounded(row.report)) for row in rows]
        return list(rows)

    def apply_to_traces(self, traces: Iterable[Trace]) -> list[Trace]:
        """The traces with the bound of `apply` in each epoch.

        Raises:
            UsageError: as `apply`.
        """
        if not self:
            return list(traces)
        return [replace(trace, epochs=[*map(self._bounded, trace.epochs)]) for trace in traces]

    def _bounded(self, logged: Logged) -> Logged:
        if self.h0 is None or self.blocks is None:
            raise UsageError(
                "a growth bound needs both --h0 and --blocks", hint="e.g. --h0 8.7 --blocks 4"
            )
        try:
            return with_growth_bound(logged, self.h0, self.blocks)
        except ValueError as error:
            raise UsageError(str(error), where="--h0, --blocks") from error

    @property
    def arguments(self) -> list[str]:
        """The command-line arguments for these facts."""
        found = []
        if self.h0 is not None:
            found += ["--h0", repr(self.h0), "--blocks", str(self.blocks)]
        if self.columns:
            found += ["--columns", ",".join(self.columns)]
        return found


class Chosen(NamedTuple):
    """The runs that a command works on, and what judges them.

    Attributes:
        criteria: thresholds and baseline.
        methods: only runs of these.
        seeds: only runs of these.
        filter: the typed filter.
        log: what logs do not say.
    """

    criteria: Criteria
    methods: Sequence[str] | None = None
    seeds: Sequence[str] | None = None
    filter: str = ""
    log: Log = Log()


_METHODS = typer.Option(metavar="LIST", help="Only runs of these methods.", show_default=False)
_SEEDS = typer.Option(metavar="LIST", help="Only runs of these seeds.", show_default=False)


@dataclass(frozen=True, kw_only=True)
class _ChoiceOptions:
    methods: Annotated[list[str] | None, _METHODS] = None
    seeds: Annotated[list[str] | None, _SEEDS] = None
    filter: FilterOption = ""


@dataclass(frozen=True, kw_only=True)
class ChosenOptions(CriteriaOptions, Log, _ChoiceOptions):
    """The runs that a command works on, and what judges them."""

    def chosen(self) -> Chosen:
        """The given options.

        Raises:
            UsageError: as `criteria`.
        """
        return Chosen(self.criteria(), self.methods, self.seeds, self.filter, self)


_DEVICE = typer.Option(help="auto, cpu, cuda:all, cuda:1, or several with commas: one worker each.")
_JOBS = typer.Option(
    metavar="N", help="Workers at a time.", show_default="one per GPU; on a CPU one for 8 runs"
)
_ENGINE = typer.Option(
    help="Where: worker processes of this machine, or a Ray cluster (needs ray)."
)
_ADDRESS = typer.Option(
    metavar="HOST:PORT",
    help="The Ray cluster's head, or auto: the one that runs on this machine.",
    show_default="RAY_ADDRESS, or auto",
)


@dataclass(frozen=True, kw_only=True)
class ExecutionOptions:
    """Execution of measurements."""

    device: Annotated[str, _DEVICE] = "auto"
    jobs: Annotated[int | None, _JOBS] = None
    engine: Annotated[Literal["local", "ray"], _ENGINE] = "local"
    address: Annotated[str | None, _ADDRESS] = None

    def execution(self) -> Execution:
        """What was given."""
        return Execution(**asdict(self))
