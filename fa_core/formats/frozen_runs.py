"""Rows judged by a measured frozen run: one among them, or one next to their run folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from pathlib import Path

from msgspec.structs import replace

from fa_core.errors import FaError
from fa_core.files.decode import Json, without
from fa_core.files.opening import is_file, real_path
from fa_core.formats.checkpoint_file import HASHED, marked_changed, run_of
from fa_core.formats.rows import AuditRow, row_named, row_of_manifest
from fa_core.formats.run_folder import recorded_report
from fa_core.report.baseline import UNKNOWN, FrozenRun, FrozenRuns, facts_of, rule_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, Manifest, is_run, read_manifest
from fa_core.report.method_style import FROZEN, WITHOUT_BASELINE
from fa_core.report.names import control_of
from fa_core.report.provenance import TRAINED_ON

_UNSAID = "its record or manifest does not call it frozen"
"""Why a run of which only the key or the file says that it is frozen judges none."""

_UNMEASURED = "its accuracy is not measured"
_UNREADABLE = DiagnosticReport(changed="its manifest cannot be read")


def with_measured_baselines(
    rows: Sequence[AuditRow], frozen: Iterable[AuditRow]
) -> Sequence[AuditRow]:
    """The rows that lack a baseline with that of one of the frozen runs (`FrozenRuns.judge`).

    Args:
        rows: the rows.
        frozen: holds the frozen runs.
    """
    runs = FrozenRuns(_frozen_runs(frozen))
    return [
        replace(row, report=runs.judge(row.report, _rule(row), _facts(row)))
        if _lacks_one(row)
        else row
        for row in rows
    ]


def judges_of(rows: Iterable[AuditRow], frozen: Sequence[AuditRow]) -> list[AuditRow]:
    """Those of the frozen runs that fit any of the rows by the rule that judges it."""
    runs = FrozenRuns(_frozen_runs(frozen))
    best = [runs.best(_rule(row), _facts(row)) for row in rows]
    known = {(one.rule, one.fits) for one in best if one}
    return [row for row in frozen for one in _frozen_runs([row]) if (one.rule, one.fits) in known]


def _frozen_runs(rows: Iterable[AuditRow]) -> Iterator[FrozenRun]:
    for row in rows:
        report, facts = row.report, _facts(row)
        if row.method != FROZEN or not (facts or report.changed):
            continue
        yield FrozenRun(
            row.source if _is_itself(row) else f"{row.source}: {row.key}",
            _rule(row) if facts and row.is_control else UNKNOWN,
            facts,
            report.headline_acc or 0.0,
            report.right,
            report.changed
            or row.touched
            or _UNSAID * (not row.is_control)
            or _UNMEASURED * (report.headline_acc is None),
        )


def with_baselines_at_hand(rows: Sequence[AuditRow]) -> Sequence[AuditRow]:
    """Rows that lack a baseline with that of a frozen run `at_hand`."""
    return with_measured_baselines(rows, at_hand(rows))


def with_baselines(rows: Sequence[AuditRow]) -> Sequence[AuditRow]:
    """Measured rows that lack a baseline with that of a frozen run among them or beside, whichever
    was trained first."""
    return with_measured_baselines(rows, measured_at_hand(rows))


def measured_at_hand(rows: Sequence[AuditRow], unless: str = "") -> list[AuditRow]:
    """Measured rows, which replace what was read of their runs and data, with the other frozen runs
    `at_hand`.

    Args:
        rows: the rows.
        unless: why the others judge none, if they do not.
    """
    known = set(map(measurement_of, rows))
    found = [*rows]
    for row in at_hand(rows):
        if measurement_of(row) not in known:
            found.append(row.marked(row.report.changed or unless))
    return found


def at_hand(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """The frozen runs that may judge those of the rows that lack a baseline: those among them, and
    next to their run folders (`folders_beside`); with what of their files changed since, or was
    touched and is more than `HASHED` (`marked_changed`).

    Each is a measurement of a run: which others it fits is by the manifest of the run, whichever
    record it is of, unless that is of files that changed.
    """
    lacking = [row for row in rows if _lacks_one(row)]
    if not lacking:
        return []
    folders = sorted({each for row in lacking if row.checkpoint for each in folders_beside(row)})
    own = [row for row in rows if row.method == FROZEN and row.report.provenance]
    found = marked_changed([*own, *chain.from_iterable(map(_frozen_in, folders))], HASHED)
    return [*map(_by_its_run, islice(found, len(own))), *found]


def _by_its_run(row: AuditRow) -> AuditRow:
    """A record as the manifest of its run says, where that can be read."""
    if row.checkpoint and not row.report.changed:
        with suppress(ValueError, FaError):
            known = row_of_manifest(read_manifest(place_of(row)), "")
            *_, report = _measurements(known.report, row.report)
            return replace(row, seed=known.seed, report=report)
    return row


def measurement_of(row: AuditRow) -> tuple[Path, str]:
    """A row's run, and the data that it was measured on."""
    return place_of(row), str(row.report.provenance.get("data"))


def place_of(row: AuditRow) -> Path:
    """The run folder or file of a row, without links."""
    path = Path(row.checkpoint or "")
    return real_path(run_of(path) or path)


def _is_itself(row: AuditRow) -> bool:
    """Whether a row was read from its run, not from a record elsewhere."""
    return row.checkpoint is not None and real_path(row.source) == place_of(row)


def folders_beside(row: AuditRow) -> set[Path]:
    """The folders in which a run or a bare file lies: as its path is given, and where that leads
    to."""
    path = Path(row.source if _is_itself(row) else row.checkpoint or "").absolute()
    return {real_path((run_of(path) or path).parent), place_of(row).parent}


def _lacks_one(row: AuditRow) -> bool:
    """Whether a run's record says of which network and data it is, and of no baseline."""
    if not row.report.provenance or row.report.frozen_baseline_acc is not None:
        return False
    return not (row.is_control and row.method in WITHOUT_BASELINE)


def _frozen_in(folder: Path) -> Iterator[AuditRow]:
    """The measurements of the runs in a folder that are frozen by their names or manifests, or by
    their audits where these cannot be read. One whose audit or manifest cannot be read judges none;
    of the latter no more is known."""
    runs: dict[tuple[Path, bool], Path] = {}
    with suppress(OSError):
        for run in sorted(folder.iterdir()):
            if is_run(run) or is_file(run / AUDIT):
                # one behind many links is read once, or twice: by a name that calls it frozen
                runs[real_path(run), row_named(run.name, "").method == FROZEN] = run
    for run in runs.values():
        place, manifest = str(run), None
        named = row_named(run.name, place)
        row = replace(named, report=_UNREADABLE)
        with suppress(ValueError, FaError):
            manifest = read_manifest(run)
            row = row_of_manifest(manifest, place)
        called = {named.method, control_of(row.method)[0]}
        if manifest is None or FROZEN in called:
            for report in _audited(row.report, run / AUDIT, manifest):
                if FROZEN in {*called, control_of(report.method_name)[0]}:
                    yield replace(row, method=FROZEN, checkpoint=place, report=report)


def _audited(
    known: DiagnosticReport, audit: Path, manifest: Manifest | None
) -> Iterable[DiagnosticReport]:
    """The measurements of a run in its folder; without a manifest, the audit's name alone."""
    try:
        found = recorded_report(audit, manifest)
    except (ValueError, FaError):
        return [replace(known, changed="its audit cannot be read, or is of another run")]
    if found is None:
        return [known]
    if manifest is None:
        return [replace(known, method_name=found.method_name)]
    return _measurements(known, found)


def _measurements(known: DiagnosticReport, found: DiagnosticReport) -> Iterator[DiagnosticReport]:
    """What a run's manifest says, with the numbers and data of a record. Where these are other data
    than the manifest's, by their hash or else their name, the accuracy in the manifest is a
    measurement, too, and comes first."""
    record, said = found.provenance, known.provenance
    trained, measured = said["data_hash"], record.get("data_hash")
    facts = {**record, **said, TRAINED_ON: trained, "data_hash": trained or measured}
    name = "data_hash" if trained else "data"
    if record.get(name) not in (None, said[name]):
        facts |= {"data": record.get("data"), "data_hash": trained and measured}
        yield known
    yield replace(found, method_name=known.method_name, provenance=facts)


def _rule(row: AuditRow) -> str:
    # as the name of a checkpoint says
    named = {name: value for name, value in row.axes.items() if name == "of"}
    return rule_of(row.method, row.report.provenance.get("method_args", named))


def _facts(row: AuditRow) -> Json:
    """What a run has in common with its baseline (`facts_of`).

    A checkpoint of a network of the user's own records no recipe: its name has to say the rule, the
    seed and what else differs, as in ``frozen_of-mine_s1.pt``. One of another rule is never used.
    """
    provenance = row.report.provenance
    facts = facts_of(provenance, row.seed)
    network = provenance.get("network")
    if facts or row.seed is None or network is None:
        return facts
    return {
        "seed": row.seed,
        "arch": network,
        "data_hash": provenance.get("data_hash"),
        # the network with its arguments
        "model": provenance.get("settings", {}).get("model"),
        **without(row.axes, "of", "lam"),
        "rule": _rule(row),
    }
