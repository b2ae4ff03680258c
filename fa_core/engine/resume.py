"""What an earlier audit left in its file, so that it need not be measured again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from fa_core.engine import provenance
from fa_core.engine.baselines import as_measured
from fa_core.engine.jobs import MeasureOptions
from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.formats import scan
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow


def finished_before(
    out: Path, rows: Sequence[AuditRow], options: MeasureOptions
) -> tuple[dict[int, DiagnosticReport], list[AuditRow]]:
    """Which runs need not be measured again.

    A record counts if it is of the same method and seed, the same bytes in every file that was read, and the same
    settings; of several, the one whose files lay where they lie now.

    Args:
        out: the earlier audit's file; it need not be there.
        rows: the rows to be measured.
        options: the settings they are to be measured with.

    Returns:
        Row index → its report; and the file's other rows.

    Raises:
        UsageError: the file is no audit table.
    """
    if not out.exists() or not out.stat().st_size:
        return {}, []
    recorded = [replace(row, report=as_measured(row.report)) for row in recorded_audits(out)]
    settings = provenance.settings(options)
    wanted = [_identity(row, settings, _hashes(row)) for row in rows]
    in_place: dict[tuple[str, str | None], int] = {}
    by_identity: defaultdict[str, list[int]] = defaultdict(list)
    for place, row in enumerate(recorded):
        facts = row.report.provenance
        identity = _identity(row, _completed(facts.get("settings")), facts.get("hashes"))
        in_place[identity, row.checkpoint] = place
        by_identity[identity].append(place)
    taken = {
        index: in_place[wanted[index], row.checkpoint]
        for index, row in enumerate(rows)
        if (wanted[index], row.checkpoint) in in_place
    }
    used = set(taken.values())
    for index, identity in enumerate(wanted):
        moved = next((place for place in by_identity[identity] if place not in used), None)
        if index not in taken and moved is not None:
            taken[index] = moved
            used.add(moved)
    measured_again = {row.checkpoint for index, row in enumerate(rows) if index not in taken}
    others = [row for place, row in enumerate(recorded) if place not in used and row.checkpoint not in measured_again]
    found = {index: _lying_at(recorded[place].report, rows[index].checkpoint) for index, place in sorted(taken.items())}
    return found, others


def recorded_audits(out: Path) -> list[AuditRow]:
    """The rows of an audit table that is there already.

    Raises:
        UsageError: it is something else, which is not to be overwritten.
    """
    try:
        rows = list(scan([out]).rows)
    except UnreadableInput as error:
        raise UsageError(
            f"is there already and is no audit table ({error.what})", where=out, hint="choose another --out"
        ) from error
    if any(not row.report.coverage for row in rows):
        raise UsageError("is there already and is no audit table", where=out, hint="choose another --out")
    return rows


def _lying_at(report: DiagnosticReport, checkpoint: str | None) -> DiagnosticReport:
    return replace(report, provenance={**report.provenance, "checkpoint": checkpoint})


def _identity(row: AuditRow, settings: Any, hashes: Any) -> str:
    return json.dumps([row.method, row.seed, row.axes, settings, hashes], sort_keys=True)


def _completed(kept: Any) -> Any:
    """Recorded settings with those that the program which wrote them did not know yet, at their defaults."""
    try:
        return provenance.settings(msgspec.convert(kept, MeasureOptions))
    except msgspec.ValidationError:
        return kept


def _hashes(row: AuditRow) -> dict[str, str] | None:
    """The hashes of the row's files now; a file that cannot be read matches no record."""
    try:
        return provenance.input_hashes(Path(row.checkpoint or ""))
    except FaError:
        return {}
