"""Feedback alignment: the error travels back layer by layer through fixed random matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.methods.base import Credit, Method, gaussian_, numbered, output_error
from fa_core.models.base import StreamNet


class FeedbackAlignment(Method):
    """a_L = e_T·W_head, then a_l = a_{l+1}·B_l with fixed Gaussian B_l (d × d) of variance 1/d, l < L.

    The terminal LayerNorm is left out of a_L on purpose, so Γ_L < 1. Where layers differ in size, B_l is
    (d_{l+1} × d_l) of variance 1/d_{l+1}. On a token stream every token gets its sample's vector.

    Source: docs/protocol.md §5; Lillicrap et al., Nature Communications 7, 2016.
    """

    name = "fa"
    draws_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        super().__init__(net, generator)
        sizes = net.credit_sizes
        for name, below, above in zip(numbered("B", net.n_blocks), sizes, sizes[1:], strict=False):
            self.register_buffer(name, torch.empty(above, below))
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / len(matrix), generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        vectors = [output_error(logits, y) @ net.head.weight.detach()]
        for B in reversed(list(self.buffers())):
            vectors.append(vectors[-1] @ B.to(vectors[-1].dtype))
        return [net.place(l, vector) for l, vector in enumerate(reversed(vectors))]
