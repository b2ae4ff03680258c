"""Feedback alignment and direct feedback: the error or the label through fixed random matrices."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.zoo.methods.base import Credit, Method, gaussian_, output_error
from fa_core.zoo.models.base import StreamNet


class RandomFeedback(Method):
    """Fixed Gaussian matrices ``B_0``, ``B_1``, ..., with variance 1/rows.

    Args:
        shapes: (rows, columns) of each.
    """

    draws_feedback = True

    def __init__(
        self, net: StreamNet, generator: torch.Generator, shapes: Iterable[Sequence[int]]
    ) -> None:
        super().__init__(net, generator)
        for l, shape in enumerate(shapes):
            self.register_buffer(f"B_{l}", torch.empty(*shape))
        self.redraw(generator)

    def convert_tensors(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Matrices renamed by their order, and transposed if only that fits.

        With one matrix fewer than layers, they are taken as those of h_1..h_L. B_0 is 0 then, which
        leaves a_0 and Γ_0 undefined.
        """
        needed = self.state_dict()
        names = list(needed)
        found = dict(tensors)
        missing = len(names) - len(found)
        foreign = not found.keys() <= needed.keys()
        in_order = list(found) == names[: len(found)]
        if missing in (0, 1) and (foreign or in_order):
            found = {name: torch.zeros_like(needed[name]) for name in names[:missing]}
            saved = sorted(tensors, key=_by_number)
            for name, key in zip(names[missing:], saved, strict=True):
                found[name] = tensors[key]
        for name, B in found.items():
            if name not in needed or B.ndim != 2:
                continue
            if B.mT.shape == needed[name].shape != B.shape:
                found[name] = B.mT
        return found

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / len(matrix), generator)


def _by_number(name: str) -> tuple[int, str]:
    """Sort key of a tensor name: its last number (0 without one), then the name."""
    numbers = re.findall(r"\d+", name) or ["0"]
    return int(numbers[-1]), name


class FeedbackAlignment(RandomFeedback):
    """a_L = e_T·W_head, a_l = a_{l+1}·B_l for l < L, with fixed Gaussian B_l of variance 1/d_{l+1}.

    B_l is (d_{l+1} × d_l). On a token stream every token gets its sample's vector, even if the head
    does not read it.

    The error enters by the head's true weights (weight transport at l = L). Γ_L is therefore near 1
    for any B_l and no evidence of alignment. It stays below 1, since the terminal LayerNorm is left
    out on purpose.

    As first published, the error also goes back along the skip path,
    a_l = a_{l+1} + a_{l+1}·B_l, and through random matrices inside the blocks.
    The audit's protocol leaves the skip path out and uses the true derivatives of a block. Updates
    of the embedding, w2 and w1 have cosines of 0.3–0.6, 0.6–0.7 and about 0 to the published ones
    (docs/protocol.md §5).

    In a convolutional network h_l is the flattened feature map, and B_l is dense and large (4·10⁷
    entries in `smallcnn`). It mixes all units of the next map, without the locality and weight
    sharing of a transposed convolution.

    Raises:
        UsageError: the head reads the mean over a map.

    Source: docs/protocol.md §5; Lillicrap et al., Nature Communications 7, 2016.
    """

    name = "fa"
    linear_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        sizes = net.credit_sizes
        if sizes[-1] != net.head.in_features:
            raise UsageError(
                f"fa brings the error through the head to h_L, and {net.arch}'s head reads the "
                "mean over a map",
                hint="train it with dfa, or give it a linear head",
            )
        super().__init__(net, generator, zip(sizes[1:], sizes, strict=False))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        vector = output_error(logits, y) @ net.head.weight.detach()
        credit: Credit = [net.place(net.n_blocks, vector)]
        for l in reversed(range(net.n_blocks)):
            vector = vector @ self.get_buffer(f"B_{l}").to(vector.dtype)
            credit.insert(0, net.place(l, vector))
        return credit


class DirectFeedbackAlignment(RandomFeedback):
    """a_l = e_T·B_l with fixed Gaussian B_l (C × d_l) of variance 1/C, l = 0..L.

    On a token stream every token gets its sample's vector, even tokens that the head does not read,
    whose gradient at h_L is 0. On a feature map every unit has its own column of B_l.

    As first published, the error enters at every layer, by a matrix per layer. In the audit's
    protocol it enters at the end of every block. The inner weights of a block (w1) get it through
    the block's true weights, and their update has a cosine of about 0 to the published one; all
    other updates are the published ones (docs/protocol.md §5).

    Source: docs/protocol.md §5; Nøkland, NeurIPS 2016.
    """

    name = "dfa"
    linear_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        super().__init__(net, generator, [(net.num_classes, size) for size in net.credit_sizes])

    def signal(self, logits: Tensor, y: Tensor) -> Tensor:
        """The projected signal, (B, C)."""
        return output_error(logits, y)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        signal = self.signal(logits, y)
        credit: Credit = []
        for l, B in enumerate(self.buffers()):
            credit.append(net.place(l, signal @ B.to(signal.dtype)))
        return credit


class DirectRandomTargetProjection(DirectFeedbackAlignment):
    """a_l = −onehot(y)·B_l: `DirectFeedbackAlignment` with the label, which has the error's sign.

    Only the head waits for the output. The credit of a class is one constant vector, which does not
    fade as the loss falls. An unbounded residual stream runs away along it, and the head cannot
    follow. Measured on the synthetic task (16 inputs, ResMLP d = 24, L = 2, AdamW 1e-3, 300 steps):
    accuracy 0.14, near chance, with ‖h_L‖ = 9e2; with the penalty λ = 1 it is 0.46, with
    ‖h_L‖ = 4. The published networks end every layer in a bounded nonlinearity.

    As first published, the label enters at every layer. The differences inside a block and at
    unread tokens are those of `DirectFeedbackAlignment`.

    Source: docs/protocol.md §5; Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021.
    """

    name = "drtp"

    def signal(self, logits: Tensor, y: Tensor) -> Tensor:
        return -F.one_hot(y, logits.shape[1]).to(logits)


class SparseDirectFeedback(DirectFeedbackAlignment):
    """`DirectFeedbackAlignment` with sparse B_l: `connections` entries per column, the others 0.

    The entries have variance 1/connections. With one connection, the published extreme, a unit sees
    the error of a single class.

    Args:
        connections: classes that a unit sees, 1..C.

    Raises:
        UsageError: `connections` is out of range.

    Source: docs/protocol.md §5; Crafton, Parihar, Gebhardt & Raychowdhury, Frontiers in
    Neuroscience 13, 2019.
    """

    name = "sparse_dfa"

    def __init__(self, net: StreamNet, generator: torch.Generator, connections: int = 1) -> None:
        if connections not in range(1, net.num_classes + 1):
            raise UsageError(
                f"sparse_dfa: connections is {connections}",
                hint=f"give a whole number from 1 to {net.num_classes}",
            )
        self.connections = connections
        super().__init__(net, generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / self.connections, generator)
            ranks = torch.rand(matrix.shape, generator=generator).argsort(0).argsort(0)
            matrix *= (ranks < self.connections).to(matrix)
