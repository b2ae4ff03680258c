"""The explorer's results file: what is kept, what is replaced, and when it is written."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.errors import UsageError
from fa_core.formats import scan
from fa_core.formats.audit_table import Journal
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import AUDIT, MANIFEST
from fa_tui.jobs.measuring import Results, results_file
from tests.fa_core.rows import row_of
from tests.json_files import json_of


def row(checkpoint, growth=2.0, seed=42):
    report = DiagnosticReport(method_name="dfa", seed=seed, residual_norms=[1.0, growth])
    return row_of("dfa_s42", checkpoint, ..., seed=seed, report=report)


@pytest.fixture
def results(tmp_path):
    return Results(tmp_path / "results.json")


def saved(results):
    return [
        (Path(str(row.checkpoint)).parent.name, row.report.residual_norms[1])
        for row in scan([results.out]).rows
    ]


def test_a_checkpoint_measured_again_replaces_what_was_measured_before(results):
    results.save(row("/nets/a/dfa_s42.pt", 2.0))
    results.flush()
    again = Results(results.out)
    again.save(row("/nets/a/dfa_s42.pt", 3.0))
    again.flush()
    assert saved(results) == [("a", 3.0)]


def test_a_measurement_is_saved_in_the_open_folder_that_the_checkpoint_was_found_in(tmp_path):
    folders = [tmp_path / "broken", tmp_path / "nets"]
    for folder in folders:
        folder.mkdir()
    found = results_file(str(folders[1] / "dfa_s42.pt"), folders)
    assert found == folders[1] / "fa-tui-audit.json"


def test_what_others_measured_is_kept_whatever_it_is_called(results):
    results.out.write_text(
        '{"reports": {"dfa_s42": {"residual_norms": [1, 5]}, "dfa_s7": {"residual_norms": [1, 6]}}}'
    )
    results.save(row("/nets/a/dfa_s42.pt", 2.0))
    results.flush()
    assert sorted(row.report.residual_norms[1] for row in scan([results.out]).rows) == [
        2.0,
        5.0,
        6.0,
    ]


def test_explorers_that_save_into_one_file_lose_no_run(results):
    both = results, Results(results.out)
    for seed in (1, 2):
        both[seed % 2].save(row(f"/nets/a/dfa_s{seed}.pt", seed=seed))
    both[0].flush()

    def save(place):
        for seed in range(3, 13):
            both[place].save(row(f"/nets/{place}/dfa_s{seed}.pt", seed=seed))
            if seed % 5 == 0:
                both[place].flush()

    with ThreadPoolExecutor() as threads:
        list(threads.map(save, (0, 1)))
    for each in both:
        each.flush()
    assert len(saved(results)) == 22
    assert [path.name for path in results.out.parent.iterdir()] == [results.out.name]


def test_what_could_not_be_saved_while_an_audit_writes_the_file_is_saved_later(
    results, monkeypatch
):
    journal = Journal(results.out)
    monkeypatch.setattr("fa_core.formats.audit_table.TRIES", 1)
    with pytest.raises(UsageError, match="is being written by another process"):
        results.save(row("/nets/a/dfa_s1.pt", seed=1))
    journal.finish([row("/nets/a/dfa_s2.pt", seed=2)])
    results.flush()
    assert len(saved(results)) == 2


def test_the_report_of_a_run_folder_can_be_read_by_whoever_may_read_its_other_files(
    results, tmp_path
):
    run = tmp_path / "run"
    run.mkdir()
    (run / MANIFEST).write_text("{}")
    named_elsewhere = replace(row(str(run)), source="audit.json")
    assert results.save(named_elsewhere) == results.out
    assert results.save(row(str(run), 3.0)) == run / AUDIT
    assert json_of(run / AUDIT)["residual_norms"] == [1.0, 3.0]
    assert (run / AUDIT).stat().st_mode == (run / MANIFEST).stat().st_mode
