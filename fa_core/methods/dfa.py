"""Direct feedback alignment: the output error, sent to every layer through a fixed random matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.methods.base import Credit, Method, gaussian_, numbered, output_error
from fa_core.models.base import StreamNet


class DirectFeedbackAlignment(Method):
    """a_l = e_T·B_l with fixed Gaussian B_l (C × d_l) of variance 1/C, l = 0..L.

    On a token stream every token gets its sample's vector.

    Source: docs/protocol.md §5; Nøkland, NeurIPS 2016.
    """

    name = "dfa"
    draws_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        super().__init__(net, generator)
        for name, size in zip(numbered("B", net.n_blocks + 1), net.credit_sizes, strict=True):
            self.register_buffer(name, torch.empty(net.num_classes, size))
        self.redraw(generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / len(matrix), generator)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        error = output_error(logits, y)
        return [net.place(l, error @ B.to(error.dtype)) for l, B in enumerate(self.buffers())]
