"""The bars of an audit, and what is said above them."""

import sys

import pytest
from msgspec.structs import replace

from fa_core.audit.jobs import Job, JobState, JobView
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.commands.progress import AuditProgress


def view(seed, **fields):
    job = Job(id=str(seed), checkpoint=f"/nets/dfa_s{seed}.pt", method="dfa", seed=seed)
    return replace(
        JobView(job=job, state=JobState.RUNNING, device="cuda:0", log="/logs/1"), **fields
    )


@pytest.fixture
def progress(monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with AuditProgress() as progress:
        progress.plan(40, 0)
        yield progress


def bars(progress):
    return [(task.description, task.completed, task.total) for task in progress._bars.tasks]


def test_a_run_has_a_bar_until_it_is_over_or_back_in_the_queue(progress):
    for seed in range(3):
        progress(view(seed, done=3, total=20))
    progress(view(0, state=JobState.DONE))
    progress(view(1, state=JobState.QUEUED, device="", log=""))
    assert bars(progress) == [("all", 1, 40), ("dfa seed 2 cuda:0", 3, 20)]
    progress(view(2, state=JobState.FAILED, error="is empty"))
    assert bars(progress) == [("all", 2, 40)]


def test_what_was_said_of_the_cluster_is_not_said_again_of_each_run_that_waits(progress, capsys):
    words = "no node of the cluster has a core"
    progress.notice(words)
    progress(view(1, state=JobState.QUEUED, note=words))
    for seed in (1, 2):
        progress(view(seed, state=JobState.QUEUED, note="lost on a: measured again"))
    told = capsys.readouterr().err
    assert (told.count(words), told.count("lost on a")) == (1, 1)


def test_runs_have_the_names_that_tell_them_apart(capsys):
    with AuditProgress({"/nets/dfa_s1.pt": "dfa (nets/first) seed 1"}) as progress:
        progress.plan(2, 0)
        progress(view(1, state=JobState.DONE))
        progress(view(2, state=JobState.DONE))
    assert capsys.readouterr().err.splitlines()[1:] == [
        "[1/2] dfa (nets/first) seed 1: done",
        "[2/2] dfa seed 2: done",
    ]


def test_the_same_is_the_reason_of_the_line_above(capsys):
    with AuditProgress() as progress:
        progress.plan(6, 0)
        for seed, error in enumerate(["holds a int", "holds a str", "holds a int"]):
            progress(view(seed, state=JobState.FAILED, error=error))
        progress(view(3, state=JobState.DONE))
        for seed in (4, 5):
            progress(view(seed, state=JobState.FAILED, error="holds a int"))
    reasons = [line.partition(": ")[2] for line in capsys.readouterr().err.splitlines()[1:]]
    assert reasons == [
        "holds a int",
        "holds a str",
        "holds a int",
        "done",
        "holds a int",
        "the same",
    ]


def test_a_run_that_no_worker_was_given_has_no_line(capsys):
    with AuditProgress() as progress:
        progress.plan(1, 0)
        progress(view(1, state=JobState.FAILED, device="", error="no worker could start on cpu"))
    assert capsys.readouterr().err.splitlines() == ["1 run to measure"]


def test_a_finished_run_shows_what_was_measured_and_fires_by_the_given_thresholds(capsys):
    report = DiagnosticReport(residual_norms=[1.0, 20.0], bp_grad_norms=[0.1, 0.1])
    with AuditProgress(thresholds=DiagnosticThresholds(h_norm_explosion_ratio=10.0)) as progress:
        progress(view(1, state=JobState.DONE, report=report))
    assert capsys.readouterr().err == "[1/0] dfa seed 1: ab measured so far, firing: a\n"
