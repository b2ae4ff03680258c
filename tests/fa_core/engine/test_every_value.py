"""Every value of a full record, falsified by 1 % or taken away: what `verify` says of it."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.engine.jobs import Job, JobProgress, MeasureOptions
from fa_core.engine.measuring import measure_run
from fa_core.engine.record_comparison import Comparison, compare
from fa_core.errors import InvalidReport
from fa_core.report import DiagnosticReport
from fa_core.row_baselines import with_measured_baselines
from fa_core.rows import AuditRow

from .runs_for_tests import make_run

NOT_COMPARED = {
    "notes": "free text",
    "provenance.checkpoint": "where the files were, whose hashes are compared",
    "provenance.files": "sizes and times of files, whose hashes are compared",
    "provenance.settings.data_typed": "who named the data",
}
"""Outside of what is measured: `verify` names them, and does not compare them."""

TOLD = {
    "thresholds": "chosen, not measured; the verdict is judged by them",
    "unmeasured": "wording",
    "provenance.versions": "a circumstance, and what excuses others",
    "provenance.device": "a circumstance",
    "provenance.device_label": "a circumstance",
    "provenance.instructions": "a circumstance",
    "provenance.processor": "a circumstance",
    "provenance.threads": "a circumstance",
    "provenance.data": "a name; the hash of the data is compared",
    "provenance.hashes.manifest": "the manifest holds what is not measured as well",
    "provenance.frozen_baseline_from": "a name; the accuracy is compared",
}
"""Printed with both values, and does not decide."""

NEAR_0 = {"credit.null": "a mean near 0: 1 % of it is less than rounding moves a cosine"}
"""Within the tolerance of another machine; found on the same one."""

ABSENT = {
    **TOLD,
    "provenance.arch": "follows from the manifest, whose hash is compared",
    "provenance.arch_args": "likewise",
    "provenance.eval_seed": "likewise",
    "provenance.epochs_done": "likewise",
    "provenance.classes": "follows from the weights, whose hash is compared",
    "provenance.fan_in": "likewise",
    "provenance.weights_dtype": "likewise",
    "provenance.settings": "the run is then measured with the usual ones, and what that changes is found",
}
"""Printed as not in the record, and does not decide."""

FILLED = {
    "thresholds": "the usual ones, which these are",
    "reference_precision.dtype": "the usual one",
}
"""Where a file does not say, a reader takes what the file said."""


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> DiagnosticReport:
    """A report with everything that an audit can measure, judged by two frozen runs."""
    run = make_run(tmp_path_factory.mktemp("runs") / "dfa_s42", "dfa", axes={"lam": 0.01})
    options = MeasureOptions(credit="full", precision=True)
    report = measure_run(Job(id="0", checkpoint=str(run), options=options), "cpu", JobProgress())
    rows = [AuditRow(source="audit.json", key="dfa_s42", method="dfa", seed=42, report=report)]
    for args in ({}, {"of": "bp"}):
        facts = {**report.provenance, "method_args": args}
        frozen = replace(report, headline_acc=0.1, provenance=facts)
        rows.append(replace(rows[0], key=f"frozen{args}", method="frozen", report=frozen))
    return with_measured_baselines(rows)[0].report


def places(data: Any, path: str = "") -> Iterator[str]:
    """The names of the values in JSON data."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        name = f"{path}[{key}]" if isinstance(data, list) else f"{path}.{key}".lstrip(".")
        if isinstance(value, (dict, list)):
            yield from places(value, name)
        elif value is not None and value != "":
            yield name


def owner(data: Any, name: str) -> tuple[Any, Any]:
    """The object or list that holds a value, and its key there."""
    words = name.replace("]", "").replace("[", ".").split(".")
    keys = [int(word) if word.isdecimal() else word for word in words]
    for key in keys[:-1]:
        data = data[key]
    return data, keys[-1]


def falsified(value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 or 0.01
    return f"{value[:-1]}{'y' if value[-1] == 'x' else 'x'}"


def compared(data: dict[str, Any], again: DiagnosticReport) -> Comparison | None:
    """None where the reader refuses the record."""
    try:
        return compare(DiagnosticReport.from_dict(data), again)
    except InvalidReport:
        return None


def survivors(full: DiagnosticReport, again: DiagnosticReport, *, delete: bool) -> dict[str, bool]:
    """The values whose loss or change does not decide, and whether it is printed."""
    found: dict[str, bool] = {}
    pristine = full.to_dict()
    for name in places(pristine):
        data = copy.deepcopy(pristine)
        holder, key = owner(data, name)
        if delete:
            del holder[key]
        else:
            holder[key] = falsified(holder[key])
        comparison = compared(data, again)
        if comparison is None or not comparison.agrees:
            continue
        stem = name.partition("[")[0]
        found[stem] = any(f"{stem}" in line for line in comparison.lines())
    return found


def without_reason(names: Iterable[str], *reasons: Mapping[str, str]) -> list[str]:
    known = [reason for each in reasons for reason in each]
    return [name for name in names if not any(f"{name}.".startswith(f"{each}.") for each in known)]


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_every_value_that_is_changed_by_one_percent_is_found(
    full: DiagnosticReport, where: str
) -> None:
    label = full.provenance["device_label"] if where == "here" else where
    again = replace(full, provenance={**full.provenance, "device_label": label})
    found = survivors(full, again, delete=False)
    allowed = {} if where == "here" else NEAR_0
    assert without_reason(found, NOT_COMPARED, TOLD, allowed) == []
    assert without_reason([name for name, printed in found.items() if not printed], allowed) == []


def test_every_value_that_is_taken_away_is_missed(full: DiagnosticReport) -> None:
    found = survivors(full, full, delete=True)
    silent = [name for name, printed in found.items() if not printed]
    assert without_reason(silent, NOT_COMPARED, FILLED) == []
    assert without_reason(found, NOT_COMPARED, FILLED, ABSENT) == []


def test_the_record_as_it_was_written_agrees_bit_for_bit(full: DiagnosticReport) -> None:
    comparison = compare(DiagnosticReport.from_dict(full.to_dict()), full)
    assert (comparison.agrees, comparison.bit_for_bit, comparison.unchecked) == (True, True, 0)
    assert comparison.outside == sorted({*NOT_COMPARED} - {"notes"})


def test_a_falsified_gamma_is_found_whatever_else_the_record_claims(full: DiagnosticReport) -> None:
    claims = {"zeros": [1.0] * 4, "gamma": [0.9] * 4}
    facts = {**full.provenance, "device_label": "another", "fan_in": 10**12}
    record = replace(
        full, credit={**(full.credit or {}), **claims}, dtype="bfloat16", provenance=facts
    )
    found = {each.name for each in compare(record, full).differences if each.decides}
    assert {f"credit.gamma[{l}]" for l in range(4)} <= found
