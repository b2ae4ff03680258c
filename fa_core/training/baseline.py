"""(d)'s baseline: the frozen-blocks run that lies beside a run and was trained alike."""

from __future__ import annotations

from pathlib import Path

import msgspec

from fa_core.errors import FaError
from fa_core.runs import WITHOUT_BASELINE, Manifest, is_run, read_manifest
from fa_core.training.plan import BASELINE


def sibling_baseline(folder: Path, manifest: Manifest) -> float | None:
    """Accuracy of the finished frozen-blocks run beside `folder` with the same network, data, seed and recipe.

    λ may differ: with frozen blocks the penalty trains nothing. Controls in `WITHOUT_BASELINE` have none.

    Args:
        folder: the run's folder; its siblings are searched.
        manifest: what the run is.

    Returns:
        A fraction, or None if there is no such run.
    """
    if manifest.method in WITHOUT_BASELINE:
        return None
    wanted = _alike(manifest)
    for other in sorted(folder.parent.iterdir()) if folder.parent.is_dir() else []:
        if other == folder or not is_run(other):
            continue
        try:
            candidate = read_manifest(other)
        except FaError:
            continue
        if candidate.method == BASELINE and _is_finished(candidate) and _alike(candidate) == wanted:
            return candidate.headline_acc
    return None


def _alike(manifest: Manifest) -> tuple[object, ...]:
    recipe = {name: value for name, value in manifest.recipe.items() if name != "lam"}
    return (manifest.arch, manifest.arch_args, manifest.data, manifest.seed, recipe)


def _is_finished(manifest: Manifest) -> bool:
    return manifest.epochs_done == manifest.recipe.get("epochs")


def with_baseline(folder: Path, manifest: Manifest) -> Manifest:
    """The manifest with the baseline filled in, where one lies beside the run."""
    return msgspec.structs.replace(manifest, frozen_baseline_acc=sibling_baseline(folder, manifest))
