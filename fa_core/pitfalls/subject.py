"""A trained net with its own feedback, to show pitfalls 4 to 7 on: a run folder, or one trained here in a second."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.data import eval_batches, load_data
from fa_core.errors import MeasureError
from fa_core.measure.checkpoint import load_checkpoint, network_for
from fa_core.methods import METHODS, Method, make_method, restore_method
from fa_core.models import StreamNet, build
from fa_core.runs import CREDIT, MANIFEST, WEIGHTS, canonical_method, read_manifest


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

    def credit_and_gradients(self, method: Method | None = None) -> tuple[list[Tensor | None], list[Tensor]]:
        """a_l of a method (default: the run's own) and g_l, per sample (summed CE), l = 0..L, each (B, …).

        Source: docs/protocol.md §2, §5.
        """
        logits, stream = self.net(self.x, return_hidden=True)
        grads = torch.autograd.grad(F.cross_entropy(logits, self.y, reduction="sum"), stream)
        kept = [h.detach() for h in stream]
        return (method or self.method).credit(self.net, kept, logits.detach(), self.y), list(grads)


def trained_here(steps: int = 300, seed: int = 0) -> Subject:
    """A small DFA net (ResMLP, d = 32, L = 3) trained for some steps on labels of a random linear teacher."""
    generator = torch.Generator().manual_seed(seed)
    teacher = torch.randn(16, 10, generator=generator)
    net = build("resmlp", input_dim=16, d=32, L=3, seed=seed).train()
    method = make_method("dfa", net, seed=seed)
    optimizer = torch.optim.AdamW(method.trained_parameters(net), lr=3e-3)
    for _ in range(steps):
        x = torch.randn(128, 16, generator=generator)
        loss, info = method.loss(net, x, (x @ teacher).argmax(1))
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
        method.extra_step(net, info)
    x = torch.randn(512, 16, generator=generator)
    return Subject(
        f"a DFA ResMLP (d=32, L=3) trained here for {steps} steps", net.eval(), method, x, (x @ teacher).argmax(1)
    )


def of_run(folder: Path, samples: int = 512) -> Subject:
    """A run folder's net with its saved feedback, on its own evaluation samples.

    Raises:
        UnreadableInput, UsageError: the folder is no complete run.
        MeasureError: the run saved no feedback, or its method draws none.
    """
    manifest = read_manifest(folder)
    if not (folder / CREDIT).is_file():
        raise MeasureError(
            "no saved feedback in this run: its Γ is N/A", where=folder, hint=f"pitfalls 4 to 7 need a {CREDIT}"
        )
    net = network_for(load_checkpoint(folder / WEIGHTS), manifest)
    assert isinstance(net, StreamNet)
    method = restore_method(manifest.method, net, load_checkpoint(folder / CREDIT).tensors, **manifest.method_args)
    if not method.draws_feedback:
        raise MeasureError(f"{manifest.method} draws no feedback", where=folder, hint="name a DFA or FA run")
    [(x, y)] = eval_batches(load_data(manifest.data), k=1, batch_size=samples, seed=manifest.eval_seed)
    return Subject(folder.name, net.eval(), method, x, y)


def find_run(paths: list[Path]) -> Path | None:
    """The first run folder under some paths whose method is built in, draws feedback and saved it."""
    for path in paths:
        for manifest in sorted(path.rglob(MANIFEST)):
            folder = manifest.parent
            if (folder / CREDIT).is_file() and _draws_feedback(read_manifest(folder).method):
                return folder
    return None


def _draws_feedback(method: str) -> bool:
    rule = METHODS.get(canonical_method(method))
    return rule is not None and rule.draws_feedback
