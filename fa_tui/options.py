"""Where the sample runs are: in the installed package, or beside it in a source checkout.

Several options that are one value to a command.

Options that several commands share, and what they mean.

What every command that judges runs takes: the four thresholds and a frozen baseline.

What every command that measures takes: where, and how many runs at a time.
"""

from __future__ import annotations

import enum
import functools
import inspect
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_type_hints

import msgspec
import typer

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.engine.devices import PATIENCE, Placement
from fa_core.errors import UnreadableInput, UsageError
from fa_core.rows import AuditRow, Problem, canonical_method
from fa_core.runs import WITHOUT_BASELINE

if TYPE_CHECKING:
    from fa_core.formats import Scan


def sample_runs() -> Path:
    """The folder of sample runs.

    Raises:
        UnreadableInput: an installation without them.
    """
    here = Path(__file__).resolve().parent
    for folder in (here / "sample_runs", here.parent / "sample_runs"):
        if folder.is_dir():
            return folder
    raise UnreadableInput("the sample runs are not installed", where=here, hint="name a file or folder to open")


class Bundle(NamedTuple):
    """Options that a command takes as one value.

    Attributes:
        options: annotation and default of each, by the name of its parameter.
        value: makes the one value of theirs.
    """

    options: Mapping[str, tuple[Any, object]]
    value: Callable[[Mapping[str, Any]], object]


def unbundled(command: Callable[..., None], bundles: Mapping[str, Bundle]) -> Callable[..., None]:
    """The command with a bundle's options in the place of the parameter that has its name.

    Typer reads a signature, so the wrapper has one. A bundle that the command does not declare is left out; one that
    it does is keyword-only there.

    Args:
        command: declares its options as Typer wants them, and bundles by their names.
        bundles: by the name of the parameter.
    """
    hints = get_type_hints(command, include_extras=True)
    wanted = inspect.signature(command).parameters
    used = {name: bundle for name, bundle in bundles.items() if name in wanted}
    parameters: list[inspect.Parameter] = []
    for name, parameter in wanted.items():
        if name not in used:
            parameters.append(parameter.replace(annotation=hints[name]))
            continue
        for option, (annotation, default) in used[name].options.items():
            parameters.append(inspect.Parameter(option, parameter.kind, default=default, annotation=annotation))

    @functools.wraps(command)
    def wrapper(**values: Any) -> None:
        for name, bundle in used.items():
            values[name] = bundle.value({option: values.pop(option) for option in bundle.options})
        command(**values)

    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {one.name: one.annotation for one in parameters}
    return wrapper


_TOLD_AT_MOST = 20

PathsArgument = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="PATH…", help="Audit files, checkpoints, run folders, or folders of them.", show_default=False
    ),
]
FrozenBaselineOption = Annotated[
    list[str] | None,
    typer.Option(
        "--frozen-baseline",
        metavar="[METHOD=]ACC",
        help="Frozen-blocks accuracy (a fraction) to assume for every run without one, but for the controls (frozen, "
        "shallow, random_init); METHOD=ACC: for all runs of that method, in place of a recorded one too. Marked as "
        "assumed, and in no file as recorded; `audit` alone writes it down, as given, for runs without one.",
        show_default=False,
    ),
]
DataOption = Annotated[
    str | None,
    typer.Option(
        "--data",
        metavar="SPEC",
        help="Data to measure on: synthetic[:…], cifar10:DIR, cifar100:DIR, digits, npz:FILE or module:callable. "
        "Default: the one in the run's manifest.",
        show_default=False,
    ),
]
ModelOption = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODULE:CALLABLE",
        help="Your own network: called without arguments, returns the module that the weights belong to.",
        show_default=False,
    ),
]
TapsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--taps",
        metavar="LIST",
        help="Modules whose outputs are the stream h_0..h_L, e.g. 'embed,blocks.*'.",
        show_default=False,
    ),
]
FilterOption = Annotated[
    str, typer.Option("--filter", help="Only some runs, as / in the explorer: 'method:dfa flag:b growth>100'.")
]
SortOption = Annotated[
    str, typer.Option("--sort", help="By a column of the explorer's long view: growth; -growth, largest first.")
]
H0Option = Annotated[
    float | None,
    typer.Option("--h0", metavar="NORM", help="‖h_0‖ of logs that hold only ‖h_L‖: bounds their growth."),
]
BlocksOption = Annotated[
    int | None, typer.Option("--blocks", "--depth", metavar="L", help="Number of blocks of such logs.")
]


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A frozen-blocks accuracy to assume: (d) is judged by it, and nothing takes it for a measured one.

    Attributes:
        default: for every run that recorded none (a fraction), or None; not for a control that is a baseline itself.
        by_method: canonical method name → accuracy for that method, in place of a recorded one too.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse a method that no run has; of no runs at all nothing is said.

        Args:
            methods: of the runs, in order.

        Raises:
            UsageError: names it, and which methods there are.
        """
        if not self.by_method:
            return
        from fa_core.naming import nearest

        known = dict.fromkeys(methods)
        for name in self.by_method if known else ():
            if name not in known:
                raise UsageError(f"--frozen-baseline {name}=...: no run of method {name!r}", hint=nearest(name, known))

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows judged by the baseline; rows that nobody measured stay as they are."""
        if self.default is None and not self.by_method:
            return list(rows)
        return [self.filled(row) for row in rows]

    def filled(self, row: AuditRow) -> AuditRow:
        """A row judged by the baseline."""
        acc = self._for(row)
        return row if acc is None else msgspec.structs.replace(row, report=row.report.with_assumed_baseline(acc))

    def recorded(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows with the baseline as their own where they have none: for who measures them now, and knows it.

        One that a run has is never lost: in its place another can only be assumed.
        """
        return [self._recorded(row) for row in rows]

    def _recorded(self, row: AuditRow) -> AuditRow:
        acc, report = self._for(row), row.report
        if acc is None:
            return row
        has_one = report.frozen_baseline_acc is not None
        report = report.with_assumed_baseline(acc) if has_one else report.with_frozen_baseline(acc)
        return msgspec.structs.replace(row, report=report)

    def _for(self, row: AuditRow) -> float | None:
        if self.default is None and not self.by_method:
            return None
        report = row.report
        acc = self.by_method.get(row.method)
        if acc is None and report.frozen_baseline_acc is None and row.method not in WITHOUT_BASELINE:
            acc = self.default
        return acc if report.coverage else None


def given_frozen_baseline(values: Sequence[str] | None) -> FrozenBaseline:
    """`parse_frozen_baseline` of what stands on a command line, where an empty text is an unset variable.

    Raises:
        UsageError: as `parse_frozen_baseline`, or a text is empty.
    """
    for value in values or ():
        if not all(item.strip() for item in value.split(",")):
            raise UsageError(f"--frozen-baseline {value!r} lacks an accuracy", hint="write 0.349 or METHOD=0.349")
    return parse_frozen_baseline(values)


def parse_frozen_baseline(values: Sequence[str] | None) -> FrozenBaseline:
    """``["0.349", "ep=0.31"]`` → a `FrozenBaseline`.

    Raises:
        UsageError: not a number, or not a fraction in [0, 1].
    """
    default: float | None = None
    by_method: dict[str, float] = {}
    for item in split_list(values):
        name, equals, text = item.rpartition("=")
        if equals and not name.strip():
            raise UsageError(f"--frozen-baseline {item!r} names no method", hint="write 0.349 or METHOD=0.349")
        try:
            acc = float(text)
        except ValueError:
            raise UsageError(
                f"--frozen-baseline {item!r} is not an accuracy", hint="write 0.349 or METHOD=0.349"
            ) from None
        if math.isnan(acc) or not 0.0 <= acc <= 1.0:
            hint = "accuracies are fractions: divide by 100" if acc > 1 else "write a fraction such as 0.349"
            raise UsageError(f"--frozen-baseline {item!r} lies outside [0, 1]", hint=hint)
        if name:
            by_method[canonical_method(name)] = acc
        else:
            default = acc
    return FrozenBaseline(default, by_method)


def bounded(rows: Sequence[AuditRow], h0: float | None, blocks: int | None) -> list[AuditRow]:
    """The rows, with a growth bound where only ‖h_L‖ was logged.

    Raises:
        UsageError: one of the two options without the other, or values that cannot be meant.
    """
    if h0 is None and blocks is None:
        return list(rows)
    if h0 is None or blocks is None:
        raise UsageError("a growth bound needs both --h0 and --blocks", hint="e.g. --h0 8.7 --blocks 4")
    from fa_core.analysis.margins import with_growth_bound

    try:
        return [msgspec.structs.replace(row, report=with_growth_bound(row.report, h0, blocks)) for row in rows]
    except ValueError as error:
        raise UsageError(str(error), where="--h0, --blocks") from error


def split_list(values: str | Sequence[str] | None) -> list[str]:
    """A list option given with commas, repeated, or both.

    >>> split_list(["42,123", "456"])
    ['42', '123', '456']
    """
    if values is None:
        return []
    parts = [values] if isinstance(values, str) else values
    return [item.strip() for part in parts for item in part.split(",") if item.strip()]


def open_paths(paths: Sequence[Path] | None) -> Scan:
    """What the paths hold (the sample runs for none); what was not read is told on stderr."""
    from fa_core.formats import scan

    found = scan(list(paths) if paths else [sample_runs()])
    tell_problems(found.problems, _TOLD_AT_MOST)
    return found


def tell_problems(problems: Iterable[Problem], at_most: int | None = None) -> None:
    """One line on stderr for each path, or part of a file, that was not read; one for all of which the same is wrong.

    Args:
        problems: each with its message.
        at_most: so many lines, and then how many more there are: a folder may hold thousands of other files.
    """
    told = Counter(problem.message for problem in problems)
    for message, times in list(told.items())[:at_most]:
        print(f"fa-tui: {message}{f' ({times} runs)' if times > 1 else ''}", file=sys.stderr)
    left = 0 if at_most is None else sum(list(told.values())[at_most:])
    if left:
        more = "1 more problem" if left == 1 else f"{left} more problems"
        print(f"fa-tui: and {more}; the explorer lists them all (P)", file=sys.stderr)


def named_path_failed(paths: Sequence[Path] | None, problems: Iterable[Problem]) -> bool:
    """Whether one of the paths the person typed (not a stray file in a folder) could not be opened."""
    named = {str(path) for path in paths or ()}
    return any(problem.path in named for problem in problems)


DEFAULTS = DiagnosticThresholds()

OPTIONS: dict[str, Any] = {
    "g_norm_floor": Annotated[
        float, typer.Option("--g-norm-floor", help="(b) fires below this ‖g_L‖.", metavar="NORM")
    ],
    "h_norm_explosion_ratio": Annotated[
        float, typer.Option("--h-norm-explosion-ratio", help="(a) fires above this growth per block.", metavar="RATIO")
    ],
    "stability_drift_ceiling": Annotated[
        float, typer.Option("--stability-drift-ceiling", help="(c) fires above this mean cosine.", metavar="COSINE")
    ],
    "frozen_acc_margin_pp": Annotated[
        float,
        typer.Option("--frozen-acc-margin-pp", help="(d) fires below this margin, percentage points.", metavar="PP"),
    ],
}
"""The threshold options by the name of the threshold."""


def judging(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the threshold options, and ``--frozen-baseline`` where it wants one.

    The command declares ``thresholds: DiagnosticThresholds`` and perhaps ``baseline: FrozenBaseline``.

    Raises:
        UsageError: (the command) a threshold that is NaN, a baseline that is no fraction.
    """
    thresholds = {name: (annotation, getattr(DEFAULTS, name)) for name, annotation in OPTIONS.items()}
    baseline = {"frozen_baseline": (FrozenBaselineOption, None)}
    return unbundled(
        command,
        {
            "thresholds": Bundle(thresholds, thresholds_in),
            "baseline": Bundle(baseline, lambda values: given_frozen_baseline(values["frozen_baseline"])),
        },
    )


def thresholds_in(values: Mapping[str, Any]) -> DiagnosticThresholds:
    """The thresholds among a command's values.

    Raises:
        UsageError: one of them is NaN.
    """
    try:
        return DiagnosticThresholds(**{name: values[name] for name in OPTIONS})
    except ValueError as error:
        raise UsageError(str(error)) from error


class Engine(str, enum.Enum):
    """Where measuring happens."""

    local = "local"
    ray = "ray"


OPTIONS_of_placing: dict[str, Any] = {
    "device": Annotated[
        str, typer.Option("--device", help="auto, cpu, cuda:all, cuda:1, or several with commas: one worker each.")
    ],
    "jobs": Annotated[
        int | None, typer.Option("--jobs", metavar="N", help="Workers at a time.", show_default="one per device")
    ],
    "group": Annotated[
        int | None,
        typer.Option(
            "--group",
            metavar="N",
            min=1,
            help="Networks of one architecture measured at once by a worker; 1: one by one. The numbers are the same.",
            show_default="as memory allows on a GPU, 1 on a CPU",
        ),
    ],
    "engine": Annotated[
        Engine, typer.Option("--engine", help="Where: worker processes of this machine, or a Ray cluster (needs ray).")
    ],
    "address": Annotated[
        str | None,
        typer.Option(
            "--address",
            metavar="HOST:PORT",
            help="The Ray cluster's head, or auto: the one that runs here (RAY_ADDRESS).",
            show_default="auto; if there is none, Ray on this machine",
        ),
    ],
    "patience": Annotated[
        float | None,
        typer.Option(
            "--patience",
            metavar="SECONDS",
            min=1,
            help="On a cluster: a run is tried on another node too after this long without a word.",
            show_default=f"{PATIENCE:.0f}",
        ),
    ],
}
"""The options by the attributes of a `Placement`."""


def placing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command that declares ``placement: Placement`` the options that make one, in its place."""
    defaults = {**{name: getattr(Placement(), name) for name in OPTIONS_of_placing}, "engine": Engine.local}
    options = {name: (annotation, defaults[name]) for name, annotation in OPTIONS_of_placing.items()}
    return unbundled(command, {"placement": Bundle(options, placement_in)})


def placement_in(values: Mapping[str, Any]) -> Placement:
    """The placement among a command's values."""
    given = {name: values[name] for name in OPTIONS_of_placing}
    return Placement(**{**given, "engine": Engine(given["engine"]).value})
