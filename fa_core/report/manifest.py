"""The run folder: its files, and the manifest.

    RUN/manifest.json          what the run is: method, network, data, recipe, seed (never code)
    RUN/model.safetensors      the weights
    RUN/credit.safetensors     what the method's credit needs: feedback matrices or bridge nets
    RUN/trace.jsonl            one JSON object per epoch
    RUN/audit.json             the report (format 2), once measured
    RUN/resume.pt              optimizer and RNG state of an unfinished run
    RUN/progress.json          the process that works on the run now, and how far it is

No torch here: the explorer reads manifests.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json, loads, reading
from fa_core.files.opening import is_file, read_file
from fa_core.report.numbers import is_number
from fa_core.report.report_facts import Axis

MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
CREDIT = "credit.safetensors"
TRACE = "trace.jsonl"
AUDIT = "audit.json"
RESUME = "resume.pt"
PROGRESS = "progress.json"
RUN_FILES = frozenset({MANIFEST, WEIGHTS, CREDIT, TRACE, AUDIT, RESUME, PROGRESS})
"""What is part of a run folder; further files in it are files like any other."""

RESULTS = "fa-tui-audit.json"
"""The audits that the explorer wrote beside checkpoints which are in no run folder."""

DISTRIBUTED = ".metadata"
HUB_FILES = frozenset(
    {f"{WEIGHTS}.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json", DISTRIBUTED}
)
"""Files of a model-hub folder or of torch's distributed checkpoints, which make the folder a
run."""

FORMAT = "fa-run/1"

LARGEST_MANIFEST = 1 << 20
"""Maximum bytes; this project's manifests have about a thousand."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is. Names in it are looked up in the built-in registries, never imported.

    Attributes:
        format: ``"fa-run/1"``.
        method: canonical method name, of a rule or a control (`fa_core.training.plan.METHODS`).
        arch: built-in network name (`fa_core.training.plan.ARCHS`).
        arch_args: its arguments (``input_dim``, ``d``, ``L``, ``terminal_ln``, ``num_classes``,
            ...).
        data: the data SPEC, e.g. ``"synthetic:alpha=1.0,input=16"``.
        data_hash: hash of the evaluation samples.
        eval_seed: the seed that picks the evaluation batches.
        eval_batches: K, how many batches an audit measures.
        eval_batch_size: B, samples per batch.
        seed: the run's seed.
        method_args: the method's own options (``variant``, ``lam``, ...).
        recipe: epochs, lr, weight_decay, schedule, batch_size, lam, optimizer.
        axes: what distinguishes the run in a sweep: ``lam``, ``d``, ``L``, ``arch``.
        headline_acc: test accuracy at the end, a fraction.
        epochs_done: complete epochs in the trace.
        stopped: why it ended early, if it did.
        versions: library versions it was trained with.
        device: where it was trained.
    """

    format: str = FORMAT
    method: str
    arch: str
    arch_args: Json = {}
    data: str
    data_hash: str | None = None
    eval_seed: int = 0
    eval_batches: int = 10
    eval_batch_size: int = 128
    seed: int
    method_args: Json = {}
    recipe: Json = {}
    axes: dict[str, Axis] = {}
    headline_acc: float | None = None
    epochs_done: int = 0
    stopped: str | None = None
    versions: dict[str, str] = {}
    device: str | None = None


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder."""
    return is_file(folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder; a penalty that its recipe alone names is an axis, too.

    Raises:
        UnreadableInput: missing, not JSON, of the wrong shape, of a newer format, or with an axis
            that its method, network or recipe contradicts.
    """
    path = folder / MANIFEST
    with reading(path, "not a run manifest", "see docs/formats.md"):
        data = loads(read_file(path, LARGEST_MANIFEST))
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise UnreadableInput(
                f"run format {data['format']!r} is not known here",
                hint=f"this version reads {FORMAT}",
            )
        found = msgspec.convert(data, Manifest)
        own = {"seed": found.seed, "arch": found.arch, "method": found.method}
        known = found.method_args | found.recipe | found.arch_args | own
        if lam := known.get("lam"):
            found.axes.setdefault("lam", lam)
        for axis, value in found.axes.items():
            if known.get(axis) not in (None, value) and str(known[axis]) != str(value):
                raise UnreadableInput(f"its axes name another {axis} than the rest of it")
        if not is_number(found.axes.get("lam", 0)):
            raise UnreadableInput("its λ is no number")
        return found


def stopped_after(facts: Json) -> str:
    """Where a training stopped before its last epoch; ``""`` if it did not.

    Args:
        facts: of the run's manifest, or the provenance of its audit.

    >>> stopped_after({"epochs_done": 3, "recipe": {"epochs": 10}})
    'epoch 3 of 10'
    """
    epochs = facts.get("recipe", {}).get("epochs")
    done = facts.get("epochs_done", epochs)
    if isinstance(epochs, int) and done < epochs:
        return f"epoch {done} of {epochs}"
    return ""
