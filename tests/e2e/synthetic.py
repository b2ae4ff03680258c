"""Campaigns that nobody trained: audit tables of any length, and folders of runs that wait to be measured."""

import json
from pathlib import Path

SAMPLE_RUNS = Path(__file__).resolve().parents[2] / "sample_runs"
PUBLISHED = SAMPLE_RUNS / "audit_table_s42_s123_s456.json"


def audit_table(path, runs):
    """Write an audit table of many runs: the published ones, five methods × seeds, each number moved a little."""
    reports = list(json.loads(PUBLISHED.read_bytes())["reports"].items())
    many = {}
    for number in range(runs):
        key, report = reports[number % len(reports)]
        scale = 1.0 + 0.9 * ((number * 7919) % 1000) / 1000
        norms = [value * scale**layer for layer, value in enumerate(report["residual_norms"])]
        seed = number % 30
        method = f"{key.rpartition('_s')[0]}{number // 150}_s{seed}_{number}"
        named = {"method_name": method, "seed": seed, "residual_norms": norms}
        many[f"{method}_s{seed}"] = {**report, **named}
    path.write_text(json.dumps({"reports": many}))
    return path


def unmeasured_runs(folder, runs):
    """Write run folders without a report: one small trained network under many seeds, its weights linked."""
    trained = SAMPLE_RUNS / "main" / "dfa_s42"
    manifest = json.loads((trained / "manifest.json").read_text())
    for seed in range(runs):
        run = folder / f"dfa_s{seed}"
        run.mkdir(parents=True)
        (run / "manifest.json").write_text(json.dumps({**manifest, "seed": seed}))
        for weights in trained.glob("*.safetensors"):
            (run / weights.name).symlink_to(weights)
    return folder
