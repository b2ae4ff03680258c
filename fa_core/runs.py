"""A run folder: what it holds and how its manifest reads.

    RUN/manifest.json          what the run is: method, network, data, recipe, seed (never code)
    RUN/model.safetensors      the weights
    RUN/credit.safetensors     what the method's credit needs: feedback matrices or bridge nets
    RUN/trace.jsonl            one JSON object per epoch
    RUN/audit.json             the report (format 2), once measured
    RUN/resume.pt              optimizer and RNG state of an unfinished run

No torch here: the explorer reads manifests.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import msgspec

from fa_core import lenient_json
from fa_core.errors import UnreadableInput

MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
CREDIT = "credit.safetensors"
TRACE = "trace.jsonl"
AUDIT = "audit.json"
RESUME = "resume.pt"
FORMAT = "fa-run/1"

WITHOUT_BASELINE = frozenset({"frozen", "shallow", "random_init"})
"""Controls that get no frozen baseline: two are baselines themselves, an untrained net claims nothing of its depth."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is. Names in it are looked up in the built-in registries, never imported.

    Attributes:
        format: ``"fa-run/1"``.
        method: canonical method name: ``bp``, ``fa``, ``dfa``, ``state_bridge``, ``credit_bridge``, ``ep``,
            or a control: ``frozen``, ``shallow``, ``random_init``, ``random_targets``.
        arch: built-in network name: ``resmlp``, ``vit_mini``, ``studentnet``, ``smallcnn``.
        arch_args: its arguments (``input_dim``, ``d``, ``L``, ``terminal_ln``, ``num_classes``, ...).
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
        frozen_baseline_acc: accuracy of the same net with frozen blocks, if it was trained.
        epochs_done: complete epochs in the trace.
        stopped: why it ended early, if it did.
        versions: library versions it was trained with.
        device: where it was trained.
    """

    format: str = FORMAT
    method: str
    arch: str
    arch_args: dict[str, Any] = {}
    data: str
    data_hash: str | None = None
    eval_seed: int = 0
    eval_batches: int = 10
    eval_batch_size: int = 128
    seed: int
    method_args: dict[str, Any] = {}
    recipe: dict[str, Any] = {}
    axes: dict[str, Any] = {}
    headline_acc: float | None = None
    frozen_baseline_acc: float | None = None
    epochs_done: int = 0
    stopped: str | None = None
    versions: dict[str, str] = {}
    device: str | None = None


def recorded_baseline(manifest: Manifest) -> float | None:
    """The frozen-baseline accuracy to judge the run's (d) by; None for a control that gets none, or no fraction."""
    acc = manifest.frozen_baseline_acc
    if acc is None or manifest.method in WITHOUT_BASELINE or not 0.0 <= acc <= 1.0:
        return None
    return acc


def why_no_baseline(method: str) -> str:
    """Why (d) is not asked of a control; ``""`` for every other method.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method not in WITHOUT_BASELINE:
        return ""
    if method == "random_init":
        return "an untrained net claims nothing of its depth"
    return f"{method} is a baseline itself"


_MANIFEST = msgspec.json.Decoder(Manifest)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder."""
    return (folder / MANIFEST).is_file()


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder.

    Raises:
        UnreadableInput: missing, not JSON, of the wrong shape, or of a newer format.
    """
    try:
        with open(f"{folder}{os.sep}{MANIFEST}", "rb") as file:  # noqa: PTH123 (thousands of times)
            text = file.read()
        with contextlib.suppress(msgspec.DecodeError):
            manifest = _MANIFEST.decode(text)
            if manifest.format == FORMAT:
                return manifest
        data = lenient_json.loads(text)  # NaN, a number beyond floats, another shape: slower, and with the right words
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            raise UnreadableInput(
                f"run format {data['format']!r} is not known here",
                where=folder / MANIFEST,
                hint=f"this version reads {FORMAT}",
            )
        return msgspec.convert(data, Manifest)
    except OSError as error:
        raise UnreadableInput(f"cannot read the manifest ({error.strerror})", where=folder / MANIFEST) from error
    except (ValueError, msgspec.ValidationError) as error:
        raise UnreadableInput(
            f"not a run manifest: {error}", where=folder / MANIFEST, hint="see `fa-tui schema manifest`"
        ) from error
