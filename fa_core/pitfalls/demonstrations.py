"""The seven demonstrations: the wrong number, the right one, and why they differ.

1 to 3 are shown on constructed tensors, 4 to 7 on a trained net with its own feedback.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor

from fa_core.data import eval_batches, load_data
from fa_core.engine.jobs import versions
from fa_core.errors import MeasureError, UsageError
from fa_core.facts.run_names import CREDIT, WEIGHTS, read_manifest
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import network_for
from fa_core.measure.credit_metrics import pooled_gamma
from fa_core.measure.norms import gamma, mean_over
from fa_core.measure.null_gamma import NullGamma, null_gamma
from fa_core.methods import Method, restore_method
from fa_core.models import StreamNet


@dataclass(frozen=True)
class Subject:
    """What pitfalls 4 to 7 need.

    Attributes:
        name: of the run, to be shown.
        net: trained, in eval mode.
        method: with the feedback it was trained with.
        x: inputs (B, …).
        y: labels (B,).
    """

    name: str
    net: StreamNet
    method: Method
    x: Tensor
    y: Tensor

    def credit_and_gradients(self) -> tuple[list[Tensor | None], list[Tensor]]:
        """a_l and g_l, per sample (summed CE), l = 0..L, each (B, …).

        Source: docs/protocol.md §2, §5.
        """
        logits, stream = self.net(self.x, return_hidden=True)
        grads = torch.autograd.grad(F.cross_entropy(logits, self.y, reduction="sum"), stream)
        kept = [h.detach() for h in stream]
        return self.method.credit(self.net, kept, logits.detach(), self.y), list(grads)


def of_run(folder: Path, samples: int = 512) -> Subject:
    """A run folder's net with its saved feedback, on its own evaluation samples.

    Raises:
        UnreadableInput, UsageError: the folder is no complete run.
        MeasureError: the run saved no feedback, or its method draws none.
    """
    manifest = read_manifest(folder)
    if not (folder / CREDIT).is_file():
        hint = f"pitfalls 4 to 7 need a {CREDIT}"
        raise MeasureError("no saved feedback in this run: its Γ is N/A", where=folder, hint=hint)
    net = network_for(load_checkpoint(folder / WEIGHTS), manifest)
    assert isinstance(net, StreamNet)
    method = restore_method(
        manifest.method, net, load_checkpoint(folder / CREDIT).tensors, **manifest.method_args
    )
    if not method.draws_feedback:
        raise MeasureError(
            f"{manifest.method} draws no feedback", where=folder, hint="name a DFA or FA run"
        )
    [(x, y)] = eval_batches(
        load_data(manifest.data), k=1, batch_size=samples, seed=manifest.eval_seed
    )
    return Subject(folder.name, net.eval(), method, x, y)


SAMPLE = Path("wide", "dfa_s42")
"""The sample run that 4 to 7 are shown on: DFA, its Γ differs from layer to layer."""


Stream = Sequence[Tensor | None]


@cache
def _texts() -> dict[str, dict[str, str]]:
    return msgspec.toml.decode(
        Path(__file__).with_name("pitfalls.toml").read_bytes(), type=dict[str, dict[str, str]]
    )


class Demonstration(msgspec.Struct, frozen=True):
    """One pitfall, run here and now.

    Attributes:
        name: what `fa-tui pitfalls NAME` is called with.
        wrong: what was computed → the misleading value (None is N/A).
        right: what should have been computed → the value.
        ran_on: the data: constructed tensors, or a run.
        versions: libraries it was run with.
    """

    name: str
    wrong: dict[str, Any]
    right: dict[str, Any]
    ran_on: str
    versions: dict[str, str] = msgspec.field(default_factory=versions)

    @property
    def number(self) -> int:
        """1 to 7, the protocol's order."""
        return PITFALLS.index(self.name) + 1

    @property
    def texts(self) -> dict[str, str]:
        """``title``: the pitfall in one line; ``why``: what happens inside; ``instead``: what to
        write."""
        return _texts()[self.name]

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, unrounded."""
        return {"number": self.number, **msgspec.to_builtins(self), **self.texts}


def norm_axis() -> Demonstration:
    """The first positional argument of `Tensor.norm` is the order p, not the axis.

    x.norm(-1) = (Σ_ij |x_ij|^{-1})^{-1}, one number; the norm along the last axis is ‖x_i‖₂ per
    row.

    Source: docs/protocol.md §12.1: [[3,4],[6,8]] gives 1.142857, not [5, 10].
    """
    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    wrong, right = {"x.norm(-1)": float(x.norm(-1))}, {"x.norm(dim=-1)": x.norm(dim=-1).tolist()}
    return Demonstration("norm-axis", wrong, right, ran_on="x = [[3, 4], [6, 8]]")


TRUE_COSINE = 0.0181
SMALL_NORM = 5e-10


def cosine_eps() -> Demonstration:
    """cos(a, b) with each norm clamped from below at eps = 1e-8 shrinks by ‖b‖/eps when ‖b‖ < eps.

    Source: docs/protocol.md §12.2: with ‖b‖ = 5e-10 a true 0.0181 comes out as 0.0009, 20 times too
    small.
    """
    a = torch.tensor([1.0, 0.0], dtype=torch.float64)
    b = SMALL_NORM * torch.tensor([TRUE_COSINE, (1 - TRUE_COSINE**2) ** 0.5], dtype=torch.float64)
    wrong = {"F.cosine_similarity(a, b)": float(F.cosine_similarity(a, b, dim=0))}
    right = {"a·b / (‖a‖‖b‖) in float64": float(a @ b / (a.norm() * b.norm()))}
    ran_on = f"two vectors, ‖b‖ = {SMALL_NORM:g}, true cosine {TRUE_COSINE}"
    return Demonstration("cosine-eps", wrong, right, ran_on)


def half_flush() -> Demonstration:
    """fp16's smallest subnormal is 2^-24 ≈ 6e-8: 5e-10 becomes 0 and its cosine 0/0 = NaN; bf16
    keeps it.

    Source: docs/protocol.md §12.3.
    """
    g = torch.full((4,), SMALL_NORM, dtype=torch.float64)

    def cosine_with_itself(dtype: torch.dtype) -> float:
        kept = g.to(dtype).double()
        return float(kept @ kept / (kept.norm() * kept.norm()))

    wrong = {
        "5e-10 in fp16": float(g.half()[0]),
        "cos(g, g) in fp16": cosine_with_itself(torch.float16),
    }
    right = {
        "5e-10 in bf16": float(g.bfloat16()[0]),
        "cos(g, g) in bf16": cosine_with_itself(torch.bfloat16),
        "cos(g, g) in float32": cosine_with_itself(torch.float32),
    }
    return Demonstration("half-flush", wrong, right, ran_on="g = 5e-10 in every entry")


DEEP = "mean over samples, hidden layers"


def aggregate(credit: Stream, grads: Sequence[Tensor]) -> dict[str, float]:
    """Four aggregations of one Γ, all of them in use.

    - mean over samples and layers 0..L of the per-sample cosine;
    - the same over the hidden layers 1..L ("deep Γ");
    - per layer the cosine of the batch-mean vectors, mean over layers 1..L;
    - per sample the cosine of the layers 1..L concatenated, mean over samples.

    Raises:
        ValueError: no hidden layer has credit.

    Source: docs/protocol.md §12.5; the published four range from −0.028 to +0.074.
    """
    per_layer = list(map(gamma, credit, grads))
    pooled = pooled_gamma(
        [None if a is None else a.flatten(1) for a in credit], [g.flatten(1) for g in grads]
    )
    if not pooled:
        raise ValueError("no hidden layer has credit to compare with the gradient")
    found = {
        "mean over samples, all layers": mean_over(per_layer, first=0),
        DEEP: mean_over(per_layer),
        "cosine of batch means, hidden layers": pooled["gamma_of_batch_means"],
        "cosine of concatenated hidden layers": pooled["gamma_concatenated"],
    }
    return {name: math.nan if value is None else value for name, value in found.items()}


def aggregations(credit: Stream, grads: Sequence[Tensor], ran_on: str) -> Demonstration:
    """Pitfall 5: four valid aggregations of the same Γ, side by side.

    Raises:
        ValueError: no hidden layer has credit.
    """
    values = aggregate(credit, grads)
    wrong = {
        "“Γ” unnamed, lowest": min(values.values()),
        "“Γ” unnamed, highest": max(values.values()),
    }
    return Demonstration("aggregations", wrong, values, ran_on)


def layer_mean(credit: Stream, grads: Sequence[Tensor], ran_on: str) -> Demonstration:
    """Pitfall 6: one mean over all layers against Γ layer by layer.

    Source: docs/protocol.md §12.6: +0.068 over all layers, +0.429 at l = 0, −0.022 over l ≥ 1.

    Raises:
        ValueError: no hidden layer has credit.
    """
    per_layer = list(map(gamma, credit, grads))
    values = aggregate(credit, grads)
    wrong = {"mean Γ over layers 0..L": values["mean over samples, all layers"]}
    right = {"Γ_l": per_layer, "Γ_0": per_layer[0], "mean Γ over layers 1..L": values[DEEP]}
    return Demonstration("layer-mean", wrong, right, ran_on)


def missing_feedback(credit: Stream, grads: Sequence[Tensor], ran_on: str) -> Demonstration:
    """A script that falls back to the gradient g_l itself when the feedback is missing reports Γ =
    1.

    Source: docs/protocol.md §12.7.
    """
    wrong = {
        "Γ with `credit = saved.get('Bs', grads)`": mean_over(
            list(map(gamma, grads, grads)), first=0
        )
    }
    return Demonstration("missing-feedback", wrong, {"Γ without saved feedback": None}, ran_on)


def null_feedback(null: NullGamma, ran_on: str) -> Demonstration:
    """Deep Γ with the training feedback against freshly drawn feedback, on the same net.

    Source: docs/protocol.md §12.4: +0.068 with it, +0.0043 ± 0.007 over 10 fresh draws.
    """
    wrong = {f"deep Γ, {len(null.deep)} fresh draws (mean)": null.mean, "std": null.std}
    return Demonstration(
        "null-feedback", wrong, {"deep Γ, training feedback": null.observed}, ran_on
    )


FRESH_DRAWS = 10

_ON_TENSORS = {"norm-axis": norm_axis, "cosine-eps": cosine_eps, "half-flush": half_flush}

_ON_STREAMS = {
    "aggregations": aggregations,
    "layer-mean": layer_mean,
    "missing-feedback": missing_feedback,
}

PITFALLS = (*_ON_TENSORS, "null-feedback", *_ON_STREAMS)
"""Names in the protocol's order, 1 to 7."""


def demonstrate(names: Sequence[str] = PITFALLS, run: Path | None = None) -> list[Demonstration]:
    """Run demonstrations.

    Args:
        names: which, by name or number.
        run: a run folder with saved feedback, for 4 to 7.

    Raises:
        UsageError: no pitfall of that name, or no run.
        MeasureError: the run saved no feedback.
    """
    chosen = [_name(name) for name in names]
    if run is not None and set(chosen) - _ON_TENSORS.keys():
        subject = of_run(run)
    else:
        subject = None
    shown = []
    for name in chosen:
        if name in _ON_TENSORS:
            shown.append(_ON_TENSORS[name]())
        elif subject is None:
            raise UsageError(
                f"{name} is shown on a run with saved feedback", hint="name one with --run FOLDER"
            )
        elif name in _ON_STREAMS:
            shown.append(_ON_STREAMS[name](*subject.credit_and_gradients(), subject.name))
        else:
            null = null_gamma(subject.net, subject.method, subject.x, subject.y, FRESH_DRAWS)
            shown.append(null_feedback(null, subject.name))
    return shown


def _name(name: str) -> str:
    if name.isdigit() and 1 <= int(name) <= len(PITFALLS):
        return PITFALLS[int(name) - 1]
    if name in PITFALLS:
        return name
    raise UsageError(
        f"no pitfall {name!r}", hint=f"known: {', '.join(PITFALLS)}, or 1 to {len(PITFALLS)}"
    )
