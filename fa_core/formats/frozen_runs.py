"""Rows judged by a measured frozen run: one among them, or one next to their run folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from fa_core.errors import FaError
from fa_core.files.decode import Json, loads, without
from fa_core.files.opening import exists, read_file, real_path
from fa_core.formats.checkpoint_file import HASHED, marked_changed
from fa_core.formats.rows import AuditRow, row_named, row_of_manifest
from fa_core.report.baseline import FrozenRun, FrozenRuns, facts_of, rule_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, MANIFEST, is_run, read_manifest
from fa_core.report.method_style import FROZEN, WITHOUT_BASELINE

_UNSAID = "its record does not call it frozen"
"""Why a run of which only the key or the file says that it is frozen judges none."""


def with_measured_baselines(
    rows: Sequence[AuditRow], beside: Iterable[AuditRow] = ()
) -> Sequence[AuditRow]:
    """The rows that lack a baseline with that of a frozen run among them (`FrozenRuns.judge`).

    Args:
        rows: the rows.
        beside: further frozen runs.
    """
    frozen = FrozenRuns(
        FrozenRun(
            row.checkpoint or row.source,
            _rule(row),
            _facts(row) or ({"seed": row.seed} if row.report.changed else {}),
            row.report.headline_acc,
            row.report.right,
            row.report.changed or row.touched or _UNSAID * (not row.is_control),
        )
        for row in chain(rows, beside)
        if row.method == FROZEN and row.report.headline_acc is not None
    )
    return [
        replace(row, report=frozen.judge(row.report, _rule(row), _facts(row)))
        if _lacks_one(row)
        else row
        for row in rows
    ]


def with_baselines(rows: Sequence[AuditRow]) -> Sequence[AuditRow]:
    """The rows that lack a baseline with that of a frozen run among them, or next to their run
    folder. What is read and what is measured is judged alike, whichever run was trained first.

    A frozen run judges none if its files changed since its audit, or were touched since and are
    more than `HASHED` (`marked_changed`).
    """
    lacking = [row.checkpoint for row in rows if _lacks_one(row)]
    if not lacking:
        return rows
    places = filter(is_run, map(Path, filter(None, lacking)))
    folders = dict.fromkeys(real_path(place).parent for place in places)
    own = [row for row in rows if row.method == FROZEN]
    marked = marked_changed([*own, *chain.from_iterable(map(_frozen_in, folders))], HASHED)
    rows = [next(marked) if row.method == FROZEN else row for row in rows]
    known = {row.checkpoint for row in own if row.is_control}
    beside = [replace(row, checkpoint=None) for row in marked if row.checkpoint not in known]
    return with_measured_baselines(rows, beside)


def _lacks_one(row: AuditRow) -> bool:
    """Whether a run's record says of which network and data it is, and of no baseline."""
    if not row.report.provenance or row.report.frozen_baseline_acc is not None:
        return False
    return not (row.is_control and row.method in WITHOUT_BASELINE)


def _frozen_in(folder: Path) -> Iterator[AuditRow]:
    """The finished frozen runs in a folder, as their manifests say, and their audits if they have
    one; their sources are their names. One whose audit or manifest cannot be read judges none; of
    the latter only its name and its audit are known."""
    for path in sorted(folder.glob(f"*/{MANIFEST}")):
        name, audit = path.parent.name, path.with_name(AUDIT)
        try:
            row = row_of_manifest(read_manifest(path.parent), name)
        except (ValueError, FaError):
            report = DiagnosticReport(headline_acc=0.0, changed="its manifest cannot be read")
            row = replace(row_named(name, name), report=report)
        if row.method == FROZEN:
            if exists(audit):
                row = replace(row, report=_audited(row.report, audit))
            yield replace(row, checkpoint=str(path.parent))


def _audited(known: DiagnosticReport, audit: Path) -> DiagnosticReport:
    """The audit of a run, with what its manifest says."""
    try:
        found = DiagnosticReport.from_dict(loads(read_file(audit)))
    except (ValueError, FaError):
        return replace(known, changed="its audit cannot be read")
    facts = {**found.provenance, **known.provenance}
    return replace(found, method_name=known.method_name, provenance=facts, changed=known.changed)


def _rule(row: AuditRow) -> str:
    args = row.report.provenance.get("method_args")
    if not isinstance(args, Mapping):
        # as the name of a checkpoint says
        args = {name: value for name, value in row.axes.items() if name == "of"}
    return rule_of(row.method, args)


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
    settings = provenance.get("settings")
    facts = {"seed": row.seed, "arch": network, "data_hash": provenance.get("data_hash")}
    if isinstance(settings, Mapping):
        # the network with its arguments
        facts["model"] = settings.get("model")
    return {**facts, **without(row.axes, "of", "lam"), "rule": _rule(row)}
