"""Small networks whose norms and gradients can be written down or computed slowly."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.measure.diagnose import PassOptions, check_accuracies, run_diagnosis
from fa_core.measure.resampling import RESAMPLES, bootstrap
from fa_core.report import DiagnosticReport


class Block(nn.Module):
    """h + scale·f(h), f linear or a pre-LN GELU branch."""

    def __init__(self, width: int, kind: str = "linear", inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace
        if kind == "linear":
            self.f: nn.Module = nn.Linear(width, width, bias=False)
        else:
            self.f = nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.GELU(),
                nn.Linear(2 * width, width),
            )

    def forward(self, h: Tensor) -> Tensor:
        if self.inplace:
            h += self.f(h)
            return h
        return h + self.f(h)


class Residual(nn.Module):
    """embed, blocks, optional terminal LN, head; offers its stream.

    `show` says how a state is handed over: as it is, as a copy, a view, ...
    """

    def __init__(
        self,
        width: int = 6,
        depth: int = 3,
        classes: int = 4,
        kind: str = "linear",
        out_ln: bool = False,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(5, width, bias=False)
        self.blocks = nn.ModuleList(Block(width, kind, inplace) for _ in range(depth))
        self.out_ln = nn.LayerNorm(width) if out_ln else nn.Identity()
        self.head = nn.Linear(width, classes, bias=False)
        self.show = lambda h: h

    def readout(self, h: Tensor) -> Tensor:
        return self.head(self.out_ln(h))

    def forward(
        self, x: Tensor, return_hidden: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        h = self.embed(x)
        hidden = [self.show(h)]
        for block in self.blocks:
            h = block(h)
            hidden.append(self.show(h))
        logits = self.readout(h)
        return (logits, hidden) if return_hidden else logits


class Hookable(nn.Module):
    """The same network without a stream of its own."""

    def __init__(self, inner: Residual) -> None:
        super().__init__()
        self.embed, self.blocks, self.out_ln, self.head = (
            inner.embed,
            inner.blocks,
            inner.out_ln,
            inner.head,
        )

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        for block in self.blocks:
            h = block(h)
        return self.head(self.out_ln(h))


class Tokens(nn.Module):
    """cls token + T tokens, blocks that mix them linearly, and a head on the cls token or on their mean."""

    def __init__(
        self, width: int = 6, depth: int = 2, classes: int = 4, reads: str = "cls"
    ) -> None:
        super().__init__()
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.embed = nn.Embedding(11, width)
        self.mix = nn.ParameterList(torch.randn(4, 4) * 0.3 for _ in range(depth))
        self.head = nn.Linear(width, classes)
        self.reads = reads

    def forward(
        self, x: Tensor, return_hidden: bool = False
    ) -> Tensor | tuple[Tensor, list[Tensor]]:
        h = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x)], dim=1)
        hidden = [h]
        for mix in self.mix:
            h = h + torch.einsum("st,btd->bsd", mix, h)
            hidden.append(h)
        logits = self.head(h[:, 0] if self.reads == "cls" else h.mean(dim=1))
        return (logits, hidden) if return_hidden else logits


def batches(
    k: int = 10, size: int = 16, width: int = 5, classes: int = 4, seed: int = 0
) -> list[tuple[Tensor, Tensor]]:
    """k batches of Gaussian inputs with random labels."""
    generator = torch.Generator().manual_seed(seed)
    return [
        (
            torch.randn(size, width, generator=generator),
            torch.randint(classes, (size,), generator=generator),
        )
        for _ in range(k)
    ]


def diagnose_resampled(
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float | None = None,
    frozen_baseline_acc: float | None = None,
    thresholds: DiagnosticThresholds | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    **options: Any,
) -> DiagnosticReport:
    """A report with the bootstrap from the same passes in ``resampling``."""
    check_accuracies(headline_acc=headline_acc, frozen_baseline_acc=frozen_baseline_acc)
    diagnosis = run_diagnosis(model, eval_batches, PassOptions(**options))
    report = diagnosis.report(
        headline_acc=headline_acc,
        frozen_baseline_acc=frozen_baseline_acc,
        thresholds=thresholds or DiagnosticThresholds(),
    )
    return replace(report, resampling=bootstrap(diagnosis.samples(), report, resamples, seed))
