"""Credit quality of a run that saved what its method's credit needs; where it did not, the reason."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from fa_core.engine.memory import is_out_of_memory, release
from fa_core.errors import FaError
from fa_core.measure.checkpoint import Checkpoint, load_checkpoint
from fa_core.measure.credit_quality import DIRECTIONS
from fa_core.measure.method_credit import method_credit_quality, null_gamma
from fa_core.methods.base import Method
from fa_core.methods.registry import restore_method
from fa_core.models.base import StreamNet
from fa_core.runs import CREDIT, Manifest

GAMMA, FULL = "gamma", "full"

NEEDS_DIRECTIONS = ("rho", "rho_relative", "deep_rho", "directions")
"""What cannot be told without random directions."""


def measure_credit(
    network: nn.Module,
    method: str,
    manifest: Manifest | None,
    checkpoint: Checkpoint,
    batch: tuple[Tensor, Tensor],
    level: str,
) -> dict[str, Any] | None:
    """What goes into a report's ``credit``.

    Args:
        network: the network, its weights loaded.
        method: the run's method; only a built-in one is looked up.
        manifest: the run's manifest, if it has one.
        checkpoint: its weights' file, which may hold feedback beside them.
        batch: (x, y), on the network's device.
        level: ``"none"``, ``"gamma"`` (Γ and nudge) or ``"full"`` (also ρ and the null with fresh feedback).

    Returns:
        The numbers; ``{"missing": {"gamma": reason}}`` where there can be none; None where nobody asked, or
        nothing says what the method was.
    """
    if level not in (GAMMA, FULL) or (manifest is None and not checkpoint.feedback):
        return None
    try:
        rule = _rule(network, method, manifest, checkpoint)
        if level == GAMMA:
            found = method_credit_quality(network, rule, *batch, directions=0).to_dict()
            return {name: value for name, value in found.items() if name not in NEEDS_DIRECTIONS}
        found = method_credit_quality(network, rule, *batch, directions=DIRECTIONS).to_dict()
        if rule.draws_feedback:
            found["null"] = null_gamma(network, rule, *batch).to_dict()
        return found
    except FaError as error:
        return _missing(str(error))
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
    release()
    return _missing("out of memory")


def _rule(network: nn.Module, method: str, manifest: Manifest | None, checkpoint: Checkpoint) -> Method:
    """The method with its saved feedback.

    Raises:
        FaError: there is no such method here, its feedback was not saved, or does not fit.
    """
    if not isinstance(network, StreamNet):
        raise FaError("credit is known for the built-in networks only")
    args = manifest.method_args if manifest else {}
    return restore_method(method, network, _feedback(checkpoint), **args)


def _feedback(checkpoint: Checkpoint) -> Mapping[str, Tensor]:
    saved: Path = checkpoint.path.parent / CREDIT
    return load_checkpoint(saved).tensors if saved.exists() else checkpoint.feedback


def _missing(reason: str) -> dict[str, Any]:
    return {"missing": {"gamma": reason}}
