"""The seven demonstrations: the wrong number, the right one, and why they differ.

1 to 3 run on constructed tensors, 4 to 7 on a trained network with its own feedback.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec
import torch
import torch.nn.functional as F
from torch import Tensor

from fa_core.audit.jobs import versions
from fa_core.files.decode import Json
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.measure.credit import null_gamma, training_credit
from fa_core.measure.credit_metrics import pooled_gamma
from fa_core.measure.norms import Signal, gamma, mean_over
from fa_core.option_values import check_known
from fa_core.report.manifest import CREDIT, WEIGHTS, read_manifest
from fa_core.zoo.data import eval_batches, load_data
from fa_core.zoo.methods import Method, restore_method
from fa_core.zoo.methods.bp import summed_gradients
from fa_core.zoo.models import StreamNet

Values: TypeAlias = Mapping[str, float | Sequence[float | None] | None]
"""What was computed → its value, or one per layer; None is N/A."""


SAMPLE = Path("wide", "dfa_s42")
"""The sample run for 4 to 7: DFA, its Γ differs from layer to layer."""


class Subject(NamedTuple):
    """A trained network with its feedback and samples, for pitfalls 4 to 7.

    Attributes:
        net: the network, in eval mode.
        method: the credit rule, with the training feedback.
        batch: inputs (B, …) and labels (B,).
        credit: a_l, per sample (summed CE), l = 0..L, each (B, …).
        grads: g_l likewise.
    """

    net: StreamNet
    method: Method
    batch: tuple[Tensor, Tensor]
    credit: Signal
    grads: Sequence[Tensor]


@cache
def of_run(folder: Path) -> Subject:
    """The network of `SAMPLE` with its saved feedback, on its own evaluation samples.

    Source: docs/protocol.md §2, §5.
    """
    manifest = read_manifest(folder)
    net, _ = loaded(load_checkpoint(folder / WEIGHTS), manifest)
    assert isinstance(net, StreamNet)
    feedback = load_checkpoint(folder / CREDIT).tensors
    method = restore_method(manifest.method, net, feedback)
    [(x, y)] = eval_batches(load_data(manifest.data), k=1, batch_size=512)
    grads = summed_gradients(net, net.eval().embed_input(x), y)
    with training_credit(net, (x, y)) as credit_of:
        return Subject(net, method, (x, y), credit_of(method), grads)


_TEXTS = msgspec.toml.decode(
    Path(__file__).with_suffix(".toml").read_bytes(), type=dict[str, dict[str, str]]
)


class Demonstration(msgspec.Struct, frozen=True):
    """The numbers of one pitfall, computed by the installed libraries.

    Attributes:
        name: its name in `fa-tui pitfalls NAME`.
        wrong: the misleading values.
        right: the values to compute instead.
        ran_on: the data: constructed tensors, or the sample run.
        versions: versions of the libraries.
    """

    name: str
    wrong: Values
    right: Values
    ran_on: str = SAMPLE.name
    versions: dict[str, str] = msgspec.field(default_factory=versions)

    @property
    def number(self) -> int:
        """1 to 7, the protocol's order."""
        return PITFALLS.index(self.name) + 1

    @property
    def texts(self) -> dict[str, str]:
        """``title``, one line; ``why``, the mechanism; ``instead``, the code to write."""
        return _TEXTS[self.name]

    def to_dict(self) -> Json:
        """Plain dicts, lists and numbers, unrounded."""
        return {"number": self.number, **msgspec.to_builtins(self), **self.texts}


def norm_axis() -> Demonstration:
    """The first positional argument of `Tensor.norm` is the order p, not the axis.

    x.norm(-1) = (Σ_ij |x_ij|^{-1})^{-1}, one number; the norm along the last axis is ‖x_i‖₂ per
    row.

    Source: docs/protocol.md §12.1: [[3,4],[6,8]] gives 1.142857, not [5, 10].
    """
    x = torch.tensor([[3.0, 4.0], [6.0, 8.0]])
    wrong = {"x.norm(-1)": float(x.norm(-1))}
    right = {"x.norm(dim=-1)": x.norm(dim=-1).tolist()}
    return Demonstration("norm-axis", wrong, right, ran_on="x = [[3, 4], [6, 8]]")


TRUE_COSINE = 0.0181
SMALL_NORM = 5e-10


def cosine_eps() -> Demonstration:
    """cos(a, b) with each norm clamped from below at eps = 1e-8 shrinks by ‖b‖/eps when ‖b‖ < eps.

    Source: docs/protocol.md §12.2: with ‖b‖ = 5e-10 a true 0.0181 becomes 0.0009, 20 times too
    small.
    """
    a = torch.tensor([1.0, 0.0], dtype=torch.float64)
    sine = (1 - TRUE_COSINE**2) ** 0.5
    b = SMALL_NORM * torch.tensor([TRUE_COSINE, sine], dtype=torch.float64)
    cosine = a @ b / (a.norm() * b.norm())
    wrong = {"F.cosine_similarity(a, b)": float(F.cosine_similarity(a, b, dim=0))}
    right = {"a·b / (‖a‖‖b‖) in float64": float(cosine)}
    ran_on = f"two vectors, ‖b‖ = {SMALL_NORM:g}, true cosine {TRUE_COSINE}"
    return Demonstration("cosine-eps", wrong, right, ran_on)


def half_flush() -> Demonstration:
    """fp16's smallest subnormal is 2^-24 ≈ 6e-8: 5e-10 becomes 0 and its cosine 0/0 = NaN.

    bf16 keeps it.

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


def aggregate(credit: Signal, grads: Sequence[Tensor]) -> dict[str, float]:
    """Four aggregations of one Γ, all of them in use.

    - mean over samples and layers 0..L of the per-sample cosine;
    - the same over the hidden layers 1..L ("deep Γ");
    - per layer the cosine of the batch-mean vectors, mean over layers 1..L;
    - per sample the cosine of the layers 1..L concatenated, mean over samples.

    Source: docs/protocol.md §12.5; the published four range from −0.028 to +0.074.
    """
    per_layer = list(map(gamma, credit, grads))
    pooled = pooled_gamma(credit, grads)
    found = {
        "mean over samples, all layers": mean_over(per_layer, first=0),
        "mean over samples, hidden layers": mean_over(per_layer),
        "cosine of batch means, hidden layers": pooled["gamma_of_batch_means"],
        "cosine of concatenated hidden layers": pooled["gamma_concatenated"],
    }
    values = {}
    for name, value in found.items():
        values[name] = math.nan if value is None else value
    return values


def aggregations(on: Subject) -> Demonstration:
    """Pitfall 5: four valid aggregations of the same Γ, side by side."""
    values = aggregate(on.credit, on.grads)
    wrong = {
        "“Γ” unnamed, lowest": min(values.values()),
        "“Γ” unnamed, highest": max(values.values()),
    }
    return Demonstration("aggregations", wrong, values)


def layer_mean(on: Subject) -> Demonstration:
    """Pitfall 6: one mean over all layers against Γ layer by layer.

    Source: docs/protocol.md §12.6: +0.068 over all layers, +0.429 at l = 0, −0.022 over l ≥ 1.
    """
    per_layer = list(map(gamma, on.credit, on.grads))
    deep = mean_over(per_layer)
    wrong = {"mean Γ over layers 0..L": mean_over(per_layer, first=0)}
    right = {"Γ_l": per_layer, "Γ_0": per_layer[0], "mean Γ over layers 1..L": deep}
    return Demonstration("layer-mean", wrong, right)


def missing_feedback(on: Subject) -> Demonstration:
    """Pitfall 7: falling back to the gradient when the feedback is missing gives Γ = 1.

    Source: docs/protocol.md §12.7.
    """
    per_layer = list(map(gamma, on.grads, on.grads))
    wrong = {"Γ with `credit = saved.get('Bs', grads)`": mean_over(per_layer, first=0)}
    return Demonstration("missing-feedback", wrong, {"Γ without saved feedback": None})


def null_feedback(on: Subject) -> Demonstration:
    """Pitfall 4: deep Γ with freshly drawn feedback against the training feedback.

    Source: docs/protocol.md §12.4: +0.068 with it, +0.0043 ± 0.007 over 10 fresh draws.
    """
    null = null_gamma(on.net, on.method, on.batch, FRESH_DRAWS)
    wrong = {f"deep Γ, {len(null.deep)} fresh draws (mean)": null.mean, "std": null.std}
    return Demonstration("null-feedback", wrong, {"deep Γ, training feedback": null.observed})


FRESH_DRAWS = 10

_ON_TENSORS = {"norm-axis": norm_axis, "cosine-eps": cosine_eps, "half-flush": half_flush}

_ON_SAMPLE = {
    "null-feedback": null_feedback,
    "aggregations": aggregations,
    "layer-mean": layer_mean,
    "missing-feedback": missing_feedback,
}

PITFALLS = (*_ON_TENSORS, *_ON_SAMPLE)
"""Names in the protocol's order, 1 to 7."""


def demonstrate(names: Sequence[str], run: Path) -> list[Demonstration]:
    """Run demonstrations.

    Args:
        names: names or numbers of pitfalls.
        run: the folder of `SAMPLE`, for 4 to 7.

    Raises:
        UsageError: no pitfall of that name.
    """
    # all names are checked before the first demonstration runs
    names = list(map(_full_name, names))
    shown = []
    for name in names:
        if name in _ON_TENSORS:
            shown.append(_ON_TENSORS[name]())
        else:
            shown.append(_ON_SAMPLE[name](of_run(run)))
    return shown


def _full_name(name: str) -> str:
    if name.isdigit() and 1 <= int(name) <= len(PITFALLS):
        return PITFALLS[int(name) - 1]
    check_known("pitfall", name, PITFALLS)
    return name
