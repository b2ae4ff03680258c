"""Every value of a full record, falsified by 1 % or taken away: what `verify` says of it."""

import copy

import pytest
from msgspec.structs import replace

from fa_core.analysis.record_comparison import QUANTITIES, compare
from fa_core.audit.jobs import Job, JobProgress, MeasureOptions
from fa_core.audit.measuring import measure_run
from fa_core.errors import InvalidReport
from fa_core.report.diagnostic_report import DiagnosticReport

from .runs_for_tests import make_run


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A report with every quantity, judged by a frozen run."""
    run = make_run(tmp_path_factory.mktemp("runs") / "dfa_s42", "dfa", axes={"lam": 0.01})
    options = MeasureOptions(credit="full")
    report = measure_run(Job(id="0", checkpoint=str(run), options=options), "cpu", JobProgress())
    return report.with_frozen_baseline(0.1)


def places(data, path=()):
    """The paths of the values in JSON data."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in pairs:
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        elif value is not None and value != "":
            yield (*path, key)


def falsified(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return value * 1.01 or 0.01
    return f"{value[:-1]}{'y' if value[-1] == 'x' else 'x'}"


def unnoticed(full, again, *, delete):
    """The compared values whose loss or change agrees, without their layers."""
    found = set()
    pristine = full.to_dict()
    outside = tuple(compare(full, again).not_compared)
    for path in places(pristine):
        data = copy.deepcopy(pristine)
        holder = data
        for key in path[:-1]:
            holder = holder[key]
        if delete:
            del holder[path[-1]]
        else:
            holder[path[-1]] = falsified(holder[path[-1]])
        name = ".".join(str(key) for key in path if isinstance(key, str))
        if f"{name}.".startswith(tuple(f"{each}." for each in outside)):
            continue
        try:
            comparison = compare(DiagnosticReport.from_dict(data), again)
        except InvalidReport:
            continue
        if comparison.agrees:
            found.add(name)
    return found


@pytest.mark.parametrize("where", ["here", "elsewhere"])
def test_every_compared_value_that_is_changed_by_one_percent_is_found(full, where):
    label = full.provenance["device_label"] if where == "here" else where
    again = replace(full, provenance={**full.provenance, "device_label": label})
    found = unnoticed(full, again, delete=False)
    # a mean near 0: 1 % of it is less than rounding changes a cosine
    near_zero = {name for name in found if name.startswith("credit.null") and where != "here"}
    assert found - near_zero == set()


def test_every_compared_value_that_is_taken_away_is_missed(full):
    assert unnoticed(full, full, delete=True) == set()


def test_the_record_as_it_was_written_agrees_bit_for_bit(full):
    comparison = compare(DiagnosticReport.from_dict(full.to_dict()), full)
    assert (comparison.agrees, comparison.bit_for_bit, comparison.unchecked) == (True, True, 0)
    assert not {*comparison.not_compared} & {*QUANTITIES}


def test_a_falsified_gamma_is_found_whatever_else_the_record_claims(full):
    claims = {"zeros": [1.0] * 4, "gamma": [0.9] * 4}
    facts = {**full.provenance, "device_label": "another", "fan_in": 10**12}
    record = replace(
        full, credit={**(full.credit or {}), **claims}, dtype="bfloat16", provenance=facts
    )
    found = {each.name for each in compare(record, full).differences if each.decides}
    assert {f"credit.gamma[{l}]" for l in range(4)} <= found
