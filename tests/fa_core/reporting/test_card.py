"""The audit card, the block for a model hub, and flat metrics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fa_core.analysis.claims import check_claims, read_claims
from fa_core.facts.measurements import MeanError, ReferencePrecision
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import load_audits
from fa_core.reporting.blocks import to_markdown
from fa_core.reporting.card import audit_card, model_index
from fa_core.reporting.form import Extras, write_report
from fa_core.reporting.records import metrics
from fa_core.table import AuditTable
from tests.fa_core.analysis.runs import row, table

LIMITS = DiagnosticThresholds()


@pytest.fixture
def published(published_table: Path) -> AuditTable:
    return load_audits([published_table])


def card_of(*rows: Any) -> str:
    return to_markdown(audit_card(table(*rows), LIMITS))


def test_what_is_absent_reads_not_measured() -> None:
    text = card_of(row("dfa", growth=2.0))
    checks = re.findall(r"^\d\. (.*)$", text, re.MULTILINE)
    assert checks == [
        "Is the reference valid: not measured",
        "Scale of the stream: one block, whose growth is (a)",
        "Depth: not measured",
        "Mean error in (c): not measured",
        "Credit: not measured",
        "Claims: none is stated",
    ]
    assert "they cannot be measured again" in text


def test_a_check_says_once_what_holds_of_every_run_and_names_the_others() -> None:
    exact = ReferencePrecision(cosine=[1.0], worst=[1.0], norm_ratio=[1.0], lost=[0], samples=8)
    text = card_of(
        row("dfa", 1, growth=2.0, g_L=1e-9, reference_precision=exact), row("dfa", 2, growth=2.0)
    )
    said = "the reference is exact (cosine 1.000000, none lost): the gradient is small, not noise"
    assert f"1. Is the reference valid: dfa_s1: {said}; dfa_s2: not measured" in text
    assert "2. Scale of the stream: one block" in text


def test_what_stands_beside_the_diagnostics_stands_on_the_card() -> None:
    mean_error = MeanError(cosine=0.2, norm=0.1, label=3, excess=0.1)
    report = row("dfa", cosine=0.4, mean_error=mean_error)
    text = card_of(replace(report, report=replace(report.report, residual_norms=[2.0, 3.0, 12.0])))
    assert "Mean error in (c): +0.200 of it by the mean error" in text
    assert "Scale of the stream: largest in block 1→2" in text


def test_a_card_is_short_and_has_claims_verdicts_hashes_and_the_command(
    sample_runs: Path, tmp_path: Path
) -> None:
    runs = load_audits([sample_runs / "wide"])
    results = check_claims(read_claims(sample_runs / "claims.toml"), list(runs.rows()))
    for ending in ("md", "html"):
        extras = Extras(card=True, claims=results)
        (path,) = write_report(tmp_path / f"card.{ending}", runs, extras=extras)
        text = path.read_text()
        assert "DFA does not beat frozen blocks by 2 points" in text
        assert "sha256:" in text and "fa-tui verify " in text and "more runs: " in text
    shown = (tmp_path / "card.md").read_text().partition("# Four-diagnostic audit")[2]
    assert len(shown.splitlines()) < 110


def test_a_card_begins_with_what_a_model_hub_reads(published: AuditTable, tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    (path,) = write_report(tmp_path / "README.md", published, extras=Extras(card=True))
    (model,) = hub.ModelCard.load(path).data.to_dict()["model-index"]
    names = [result["task"]["name"].rpartition(" of ")[2] for result in model["results"]]
    assert names == ["BP", "DFA", "State Bridge", "Credit Bridge", "EP"]
    bp, dfa = ({m["type"]: m["value"] for m in r["metrics"]} for r in model["results"][:2])
    assert (dfa["accuracy"], dfa["verdict"]) == (pytest.approx(0.30573, abs=1e-5), "walk-back")
    assert "frozen_margin_pp" not in bp, "it has no frozen baseline in this file"


def test_names_from_files_are_strings_of_yaml() -> None:
    text = model_index(table(row('x": [\n!!python/name:os', growth=2.0)), LIMITS)
    (name,) = re.findall(r"^      name: (.*audit of.*)$", text, re.MULTILINE)
    assert 'x": [' in json.loads(name)


def test_metrics_are_flat_numbers_and_what_is_not_finite_is_named(
    sample_runs: Path, published: AuditTable, tmp_path: Path
) -> None:
    results = check_claims(read_claims(sample_runs / "claims.toml"), list(published.rows()))
    extras = Extras(claims=results)
    (path,) = write_report(tmp_path / "metrics.json", published, extras=extras)
    found = json.loads(path.read_text())
    assert all(isinstance(value, (int, float)) for value in found.values())
    assert (found["runs"], found["walk_back"], found["dfa.fires_c"]) == (15, 9, 1)
    assert found["claims.holds"] == 8 and found["claim_1.low"] < found["claim_1.estimate"]
    broken = metrics(table(row("dfa", growth=float("inf"))), LIMITS)
    assert broken["not_finite"] == ["dfa.growth", "dfa.h_L"]
    json.dumps(broken, allow_nan=False)


@pytest.mark.parametrize("ending", ["md", "html", "tex"])
def test_a_report_has_a_section_on_claims(
    ending: str, sample_runs: Path, published: AuditTable, tmp_path: Path
) -> None:
    results = check_claims(read_claims(sample_runs / "claims.toml"), list(published.rows()))
    path, *_ = write_report(tmp_path / f"r.{ending}", published, extras=Extras(claims=results))
    text = path.read_text()
    assert "Claims" in text and "DFA does not beat frozen blocks by 2 points" in text
    path, *_ = write_report(tmp_path / f"r.{ending}", published)
    assert "Claims" not in path.read_text()
