"""`fa-tui audit --jobs N` of 15 checkpoints over four scripts of one pass each, one after the other.

    python -m tests.bench.bench_audit [--jobs 1,4 --rounds 2 --device cuda]

Run folders of the published size (ResMLP d=256 L=4, 3,072 inputs, 10,000 test samples). Each script is a process that
loads every checkpoint and takes one diagnostic's pass of it; both sides start Python and import torch. Seconds by the
wall; ratios are medians of paired rounds.
"""

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

from fa_core.report.manifest import MANIFEST, WEIGHTS, Manifest
from fa_core.zoo.models import build
from tests.bench.figures import amount, ratio_within, report

RUNS = 15
SAMPLES, TEST_BATCH, K, B = 10_000, 1000, 10, 128
DATA = f"synthetic:input=3072,train=256,test={SAMPLES}"


def stream_pass(net, batches, test):
    """(a): norms of the stream."""
    with torch.no_grad():
        for h in net(batches[0][0], return_hidden=True)[1]:
            h.norm(dim=1).median().item()


def gradient_pass(net, batches, test):
    """(b): norms of its gradients."""
    for g in _all_gradients(net, *batches[0]):
        g.norm(dim=1).median().item()


def drift_pass(net, batches, test):
    """(c): cosines of the batches' mean gradients."""
    middle = net.n_blocks // 2
    means = [_all_gradients(net, x, y)[middle].mean(dim=0) for x, y in batches]
    for one, other in itertools.combinations(means, 2):
        F.cosine_similarity(one, other, dim=0).item()


def accuracy_pass(net, batches, test):
    """(d): the test accuracy."""
    with torch.no_grad():
        sum((net(x).argmax(dim=1) == y).sum().item() for x, y in test)


PASSES = (stream_pass, gradient_pass, drift_pass, accuracy_pass)


def _all_gradients(net, x, y):
    """`loss.backward()` with the stream's gradients kept: the weights get theirs, too."""
    logits, hidden = net(x, return_hidden=True)
    for h in hidden:
        h.retain_grad()
    F.cross_entropy(logits, y).backward()
    net.zero_grad()
    return [h.grad for h in hidden if h.grad is not None]


def make_runs(folder):
    """Untrained networks, as training would leave them."""
    for seed in range(RUNS):
        net = build("resmlp", seed=seed)
        run = folder / f"bp_s{seed}"
        run.mkdir()
        manifest = Manifest(
            method="bp", arch="resmlp", arch_args=net.arch_args, data=DATA, seed=seed
        )
        (run / MANIFEST).write_text(json.dumps(msgspec.to_builtins(manifest)))
        save_file(net.state_dict(), run / WEIGHTS)


def one_script(number, folder, device):
    """One of the four passes, of every checkpoint."""
    x, y = torch.randn(SAMPLES, 3072, device=device), torch.randint(10, (SAMPLES,), device=device)
    test = list(zip(x.split(TEST_BATCH), y.split(TEST_BATCH), strict=True))
    batches = list(zip(x.split(B), y.split(B), strict=False))[:K]
    for run in sorted(folder.iterdir()):
        net = build("resmlp", seed=0)
        net.load_state_dict(load_file(run / WEIGHTS))
        PASSES[number](net.to(device), batches, test)


def seconds(*words):
    """Wall time of a Python process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", default="1,4")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--script", type=int)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    if given.script is not None:
        one_script(given.script, given.folder, given.device)
        return
    figures = []
    with tempfile.TemporaryDirectory() as place:
        runs = Path(place) / "runs"
        runs.mkdir()
        make_runs(runs)
        script = ("-m", "tests.bench.bench_audit", "--device", given.device, "--folder", str(runs))
        audit = (
            "-m",
            "fa_tui",
            "audit",
            str(runs),
            "--device",
            given.device,
            "--credit",
            "none",
            "--data",
            DATA,
        )
        for jobs in given.jobs.split(","):
            pairs = []
            for number in range(given.rounds):
                out = str(Path(place) / f"audit-{jobs}-{number}.json")
                ours = seconds(*audit, "--jobs", jobs, "--out", out)
                four = sum(seconds(*script, "--script", str(one)) for one in range(4))
                pairs.append((ours, four))
            ratio = statistics.median(ours / four for ours, four in pairs)
            ours, four = (statistics.median(column) for column in zip(*pairs, strict=True))
            what, against = f"audit --jobs {jobs}", f"four scripts {amount(four, 's')}"
            figures.append(ratio_within(what, ratio, 0.5, amount(ours, "s"), against))
    report(f"{RUNS} checkpoints of the published size, on {given.device}", figures)


if __name__ == "__main__":
    main()
