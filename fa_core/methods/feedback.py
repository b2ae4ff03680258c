"""Feedback alignment and its direct kinds: error or label through fixed random matrices."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.methods.base import Credit, Method, gaussian_, output_error
from fa_core.models.base import StreamNet

if TYPE_CHECKING:
    from typing_extensions import Self


class RandomFeedback(Method):
    """Fixed Gaussian matrices ``B_0``, ``B_1``, ..., each of variance 1/rows.

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

    def as_saved_elsewhere(self, tensors: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """Matrices by their order, and transposed where only that fits.

        One matrix fewer than there are layers is those of h_1..h_L, which the blocks' losses use:
        B_0 is 0 then, so that a_0 and Γ_0 are undefined.
        """
        needed = self.state_dict()
        names, found = [*needed], dict(tensors)
        missing = len(names) - len(found)
        if missing in (0, 1) and (found.keys() - needed.keys() or [*found] == names[: len(found)]):
            order = sorted(
                found, key=lambda name: (int((re.findall(r"\d+", name) or ["0"])[-1]), name)
            )
            drawn = zip(names[missing:], (found[name] for name in order), strict=True)
            found = {name: torch.zeros_like(needed[name]) for name in names[:missing]} | dict(drawn)
        turned = {name: B.mT for name, B in found.items() if B.ndim == 2 and name in needed}
        return found | {
            name: B
            for name, B in turned.items()
            if B.shape == needed[name].shape != found[name].shape
        }

    def turned(self) -> Self | None:
        """The same rule with every square matrix transposed; None where none is square.

        The shape of a square matrix does not show whether it was saved as ``B`` or, as `nn.Linear`
        holds it, as ``B.T``.
        """
        twin = copy.deepcopy(self)
        square = [B for B in twin.buffers() if B.ndim == 2 and len(B) == B.shape[1] > 1]
        for B in square:
            B.copy_(B.T.clone())
        if square:
            return twin
        return None

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / len(matrix), generator)


class FeedbackAlignment(RandomFeedback):
    """a_L = e_T·W_head, then a_l = a_{l+1}·B_l with fixed Gaussian B_l (d × d) of variance 1/d, l <
    L.

    The error enters by the head's true weights (weight transport at l = L), so Γ_L is near 1
    whatever B_l is, and no evidence of alignment; the terminal LayerNorm is left out on purpose, so
    Γ_L < 1. Where layers differ in size, B_l is (d_{l+1} × d_l) of variance 1/d_{l+1}. On a token
    stream every token gets its sample's vector, also those that the head does not read.

    As first published the error goes back along the skip path too, a_l = a_{l+1} + a_{l+1}·B_l, and
    through random matrices inside a block as well: that is `fa_weights`. Here, as the audit's
    protocol defines it, the skip path is left out and a block has its true derivatives. Updates of
    the embedding and of w2, w1 have a cosine of 0.3–0.6, 0.6–0.7 and about 0 to the published ones
    (docs/protocol.md §5).

    In a convolutional network h_l is the flattened feature map and B_l is dense: every unit of a
    map receives a mixture of all units of the next one, without the locality and weight sharing
    that a transposed convolution with random kernels has: that is `fa_weights`. B_l is large there
    (4·10⁷ entries in `smallcnn`). A network whose head reads the mean over a map is refused.

    Source: docs/protocol.md §5; Lillicrap et al., Nature Communications 7, 2016.
    """

    name = "fa"
    linear_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        sizes = net.credit_sizes
        if sizes[-1] != net.head.in_features:
            what = (
                f"fa brings the error through the head to h_L, and {net.arch}'s head reads "
                "the mean over a map"
            )
            raise UsageError(
                what, hint="train it with fa_weights, whose feedback has the shapes of the weights"
            )
        super().__init__(net, generator, zip(sizes[1:], sizes, strict=False))

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        vectors = [output_error(logits, y) @ net.head.weight.detach()]
        for B in reversed(list(self.buffers())):
            vectors.append(vectors[-1] @ B.to(vectors[-1].dtype))
        return [net.place(l, vector) for l, vector in enumerate(reversed(vectors))]


class DirectFeedbackAlignment(RandomFeedback):
    """a_l = e_T·B_l with fixed Gaussian B_l (C × d_l) of variance 1/C, l = 0..L.

    On a token stream every token gets its sample's vector, also those that the head does not read,
    whose gradient at h_L is 0; on a feature map every unit has its own column of B_l. The error
    enters at the end of every block.

    As first published it enters at every layer, by a matrix of that layer: that is `dfa_layers`.
    Here, as the audit's protocol defines it, the inner weights of a block (w1) get it through the
    block's true weights, so that their update is unrelated to the published one (cosine about 0);
    all other updates are the published ones (docs/protocol.md §5).

    Source: docs/protocol.md §5; Nøkland, NeurIPS 2016.
    """

    name = "dfa"
    linear_feedback = True

    def __init__(self, net: StreamNet, generator: torch.Generator) -> None:
        super().__init__(net, generator, [(net.num_classes, size) for size in net.credit_sizes])

    def signal(self, logits: Tensor, y: Tensor) -> Tensor:
        """What is projected, (B, C)."""
        return output_error(logits, y)

    def credit(self, net: StreamNet, stream: list[Tensor], logits: Tensor, y: Tensor) -> Credit:
        signal = self.signal(logits, y)
        return [net.place(l, signal @ B.to(signal.dtype)) for l, B in enumerate(self.buffers())]


class DirectRandomTargetProjection(DirectFeedbackAlignment):
    """a_l = −onehot(y)·B_l: `DirectFeedbackAlignment` with the label in place of the error, of
    which it has the sign.

    No layer but the head waits for the output. The credit of a class is one constant vector, which
    does not fade as the loss falls: a residual stream, which nothing bounds, runs away along it,
    and the head cannot follow. Measured on the synthetic task (16 inputs, ResMLP d = 24, L = 2,
    AdamW 1e-3, 300 steps): accuracy 0.14, ‖h_L‖ = 9e2, near chance; with the penalty λ = 1 0.46,
    ‖h_L‖ = 4. Its published networks end every layer in a bounded nonlinearity.

    As first published the label enters at every layer; inside a block and at tokens that nobody
    reads this departs from it as `DirectFeedbackAlignment` does.

    Source: docs/protocol.md §5; Frenkel, Lefebvre & Bol, Frontiers in Neuroscience 15, 2021.
    """

    name = "drtp"

    def signal(self, logits: Tensor, y: Tensor) -> Tensor:
        return -F.one_hot(y, logits.shape[1]).to(logits)


class SparseDirectFeedback(DirectFeedbackAlignment):
    """`DirectFeedbackAlignment` whose B_l has `connections` entries per column, of variance
    1/connections; 0 elsewhere.

    With one connection, the published extreme, a unit sees the error of a single class.

    Args:
        connections: classes that a unit sees, 1..C.

    Raises:
        UsageError: another number of them.

    Source: docs/protocol.md §5; Crafton, Parihar, Gebhardt & Raychowdhury, Frontiers in
    Neuroscience 13, 2019.
    """

    name = "sparse_dfa"

    def __init__(self, net: StreamNet, generator: torch.Generator, connections: int = 1) -> None:
        if connections not in range(1, net.num_classes + 1):
            hint = f"give a whole number from 1 to {net.num_classes}"
            raise UsageError(f"sparse_dfa: connections is {connections}", hint=hint)
        self.connections = connections
        super().__init__(net, generator)

    def redraw(self, generator: torch.Generator) -> None:
        for matrix in self.buffers():
            gaussian_(matrix, 1 / self.connections, generator)
            order = torch.rand(matrix.shape, generator=generator).argsort(0).argsort(0)
            matrix *= (order < self.connections).to(matrix)
