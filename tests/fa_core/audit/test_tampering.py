"""Every leaf of a full audit file changed, deleted, renamed, added to: what `verify` says of it."""

import json

import pytest
from msgspec.structs import replace

from fa_core.analysis.record_comparison import QUANTITIES
from fa_core.audit.jobs import Job, JobProgress, MeasureOptions, job_for
from fa_core.audit.measuring import measure_run
from fa_core.audit.verify import find_checkpoint, frozen_beside, recorded_options, verifications
from fa_core.errors import FaError
from fa_core.files.atomic import write_json
from fa_core.formats import scan
from fa_core.formats.audit_table import printable_drift, write_audit_table
from fa_core.formats.frozen_runs import with_baselines
from fa_core.report.baseline import GIVE_ONE
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT

from .runs_for_tests import make_run

NOT_FOUND = {
    ("added", "report"): "a member that no reader knows",
    ("added", "depth_ablation"): "a member that no reader knows",
    ("added", "mean_error"): "a member that no reader knows",
    ("added", "reference_precision"): "a member that no reader knows",
    **{(way, "unmeasured"): "the reason of (d) alone" for way in ("deleted", "renamed", "posed")},
    ("deleted", "reference_precision.dtype"): "it is read as its default, which it is",
    ("renamed", "reference_precision.dtype"): "the same, and a member that no reader knows",
    ("deleted", "summary"): "published files have none",
    ("renamed", "summary"): "the same, and a member that no reader knows",
    ("renamed", "report"): "a key that names the same run",
}
"""What of a file may be tampered with unseen, besides what `QUANTITIES` leaves out → the reason."""


@pytest.fixture(scope="module")
def audited(tmp_path_factory):
    """A full audit of two runs: its file, and checkpoint → its measurement."""
    folder = tmp_path_factory.mktemp("runs")
    probe = Job(id="", checkpoint=str(make_run(tmp_path_factory.mktemp("any") / "bp", "bp")))
    data = measure_run(probe, "cpu", JobProgress()).provenance["data_hash"]
    make_run(folder / "dfa_s42", "dfa", axes={"lam": 0.01}, data_hash=data)
    make_run(folder / "frozen_s42", "frozen", headline_acc=0.5, data_hash=data)
    options = MeasureOptions(credit="full", precision=True, ablate=True)
    rows = scan([folder]).rows
    again = {
        row.checkpoint: measure_run(job_for(row, row.key, options), "cpu", JobProgress())
        for row in rows
    }
    measured = [replace(row, report=again[row.checkpoint]) for row in rows]
    write_audit_table(folder / "audit.json", with_baselines(measured))
    write_json(folder / "frozen_s42" / AUDIT, printable_drift(measured[1].report))
    return folder / "audit.json", again


def is_found(table, path, again):
    """Whether `fa-tui verify` would exit with anything but 0."""
    path.write_text(json.dumps(table), "utf-16")
    try:
        found = scan([path])
        for row in found.rows:
            recorded_options(row)
        rows = [*found.rows, *frozen_beside(found.rows)]
        pairs = [(row, again[str(find_checkpoint(row))]) for row in rows]
    except FaError:
        return True
    runs = [run.comparison for run in verifications(pairs)]
    if found.problems or not runs:
        return True
    return not all(run.agrees and not run.unchecked for run in runs)


def members(data, name=""):
    """(name without its run, container, key) of all members of JSON data that say something."""
    for key in list(data) if isinstance(data, dict) else range(len(data)):
        inside = f"{name}.{key}".lstrip(".") if isinstance(data, dict) else name
        inside = "report" if name == "reports" else inside.removeprefix("report.")
        if data[key] not in (None, "", [], {}):
            yield inside, data, key
        if isinstance(data[key], (dict, list)):
            yield from members(data[key], inside)


def tampered(holder, key):
    """Tamper with a member of JSON data in every way; what was done. In the end all is as it was."""
    value = holder[key]
    if isinstance(holder, dict):
        whole = dict(holder)
        del holder[key]
        yield "deleted"
        holder[f"{key}_"] = value
        yield "renamed"
        if isinstance(value, (list, dict)):
            del holder[f"{key}_"]
            if isinstance(value, dict):
                holder.update({f"{key}.{part}": inner for part, inner in value.items()})
            else:
                holder.update({f"{key}[{place}]": inner for place, inner in enumerate(value)})
            holder[key] = type(value)()
            yield "posed"
        holder.clear()
        holder.update(whole)
    if isinstance(value, list):
        others = {"added": [*value, 1], "changed": value[1:]}
    elif isinstance(value, dict):
        others = {"added": {**value, "more": 1}}
    else:
        others = {"changed": falsified(value)}
    for way, other in others.items():
        holder[key] = other
        yield way
    holder[key] = value


def falsified(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 or 0.01
    return f"{value}x"


def survivors(path, again, ways):
    """(way, name) of what is not found, without what `QUANTITIES` leaves out."""
    table, out = json.loads(path.read_text()), path.with_name("tampered.json")
    assert not is_found(table, out, again)
    outside = tuple(name for name, rule in QUANTITIES.items() if rule.unless)
    return {
        (way, name)
        for name, holder, key in members(table)
        if not name.startswith(outside)
        for way in tampered(holder, key)
        if way in ways and not is_found(table, out, again)
    }


def test_all_that_is_not_found_after_tampering_is_known_with_its_reason(audited):
    ways = ("added", "changed", "deleted", "renamed", "posed")
    assert survivors(*audited, ways) ^ NOT_FOUND.keys() == set()


def test_elsewhere_a_change_of_one_percent_is_found_or_not_checked(audited):
    path, again = audited
    there = {
        checkpoint: replace(report, provenance={**report.provenance, "device_label": "another"})
        for checkpoint, report in again.items()
    }
    # a mean near 0: 1 % of it is less than rounding changes a cosine
    near_zero = {("changed", f"credit.null.{name}") for name in ("gamma", "deep_gamma_mean")}
    assert survivors(path, there, ["changed"]) <= near_zero


@pytest.mark.parametrize("place", ["", "checkpoint"])
def test_what_belongs_to_another_run_is_found(audited, place):
    path, again = audited
    table = json.loads(path.read_text())
    reports = table["reports"]
    facts = [report["provenance"] for report in reports.values()]
    if place:
        facts[0][place], facts[1][place] = facts[1][place], facts[0][place]
    else:
        reports["dfa_s42"], reports["frozen_s42"] = reports["frozen_s42"], reports["dfa_s42"]
    assert is_found(table, path.with_name("swapped.json"), again)


def with_another_verdict(table, report):
    report.update(recorded_verdict=report["verdict"], verdict="trustworthy")


def with_a_published_name(table, report):
    report["cross_batch_direction_stability"] = 0.99


def with_an_axis_in_its_key(table, report):
    table["reports"] = {f"{key}_d512": each for key, each in table["reports"].items()}


def with_a_variant_in_its_key(table, report):
    del report["credit"]
    table["reports"] = {"dfa_stable_s42": report, "frozen_s42": table["reports"]["frozen_s42"]}
    table["summary"][0]["method"] = "dfa_stable"


def with_another_method_as_its_key(table, report):
    table["reports"] = {"bp": report, "frozen_s42": table["reports"]["frozen_s42"]}


def with_a_line_of_nothing(table, report):
    table["summary"][0] = None


def without_a_baseline_at_hand(table, report):
    del report["frozen_baseline_acc"], report["intervals"]["margin_pp"]
    del report["provenance"]["frozen_baseline_from"]
    report["verdict"] = DiagnosticReport.from_dict(report).verdict
    table["summary"][0].update(verdict=report["verdict"], frozen_acc=None)


def alone(table, report):
    del table["reports"]["frozen_s42"], table["summary"][1]


def with_a_baseline_that_is_beside_it_forged(table, report):
    alone(table, report)
    report["frozen_baseline_acc"] = table["summary"][0]["frozen_acc"] = 0.01


def without_the_baseline_beside_it(table, report):
    without_a_baseline_at_hand(table, report)
    alone(table, report)
    none = "none of resmlp, seed 42, can be read here or beside it"
    report["unmeasured"] = {**report.get("unmeasured", {}), "d": f"no frozen run{GIVE_ONE}: {none}"}


def test_a_record_alone_is_verified_with_the_frozen_run_beside_its_run(audited):
    path, again = audited
    table = json.loads(path.read_text())
    table["reports"]["dfa_s42"]["provenance"]["other_frozen_baselines"] = {"bp": 0.3}
    alone(table, None)
    assert not is_found(table, path.with_name("alone.json"), again)


@pytest.mark.parametrize(
    "forge",
    [
        with_another_verdict,
        with_a_published_name,
        with_an_axis_in_its_key,
        with_a_variant_in_its_key,
        with_another_method_as_its_key,
        with_a_line_of_nothing,
        without_a_baseline_at_hand,
        without_the_baseline_beside_it,
        with_a_baseline_that_is_beside_it_forged,
    ],
)
def test_what_is_said_twice_or_left_out_though_it_is_at_hand_is_found(audited, forge):
    path, again = audited
    table = json.loads(path.read_text())
    forge(table, table["reports"]["dfa_s42"])
    assert is_found(table, path.with_name("forged.json"), again)


@pytest.mark.parametrize("other", [{"method": "frozen"}, {"seed": 7}, {"axes": {"lam": 0.5}}, {}])
def test_a_manifest_that_names_another_run_than_its_report_is_a_problem(tmp_path, other):
    run = make_run(tmp_path / "run", **{"method": "dfa", **other})
    report = DiagnosticReport(method_name="DFA", seed=42, axes={"lam": 0.1}, headline_acc=0.5)
    report.save(run / "audit.json")
    found = scan([tmp_path])
    assert "the manifest names" in found.problems[0].message
    assert not found.rows[0].report.coverage
