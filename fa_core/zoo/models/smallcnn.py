"""SmallCNN: three convolutions and one hidden layer, without residual connections or LayerNorm."""

from __future__ import annotations

from collections.abc import Mapping
from math import isqrt

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.zoo.models.base import Shape, StreamNet, checked_args, common_args, terminal_norm


class ConvBlock(nn.Module):
    """2×2 max-pool of ReLU(BN(3×3 convolution)); (B, c, s, s) → (B, c', s/2, s/2)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(outputs)

    def forward(self, h: Tensor) -> Tensor:
        return F.max_pool2d(F.relu(self.bn(self.conv(h))), 2)


class DenseBlock(nn.Module):
    """ReLU(W·flatten(h) + b); (B, c, s, s) → (B, d)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.fc = nn.Linear(inputs, outputs)

    def forward(self, h: Tensor) -> Tensor:
        return F.relu(self.fc(h.flatten(1)))


class SmallCNN(StreamNet):
    """conv → conv → conv → FC → head: h_0 is the first convolution's output, h_{l+1} = f_l(h_l).

    Args:
        image: side of the square image, a multiple of 8.
        channels: of the image.
        width: channels of the first convolution; the others have 2 and 4 times as many.
        d: width of the hidden FC layer.
        L: blocks after the first convolution: 3, or 0 = the shallow control.
        terminal_ln: whether the head reads LN(h_L); not in the published network.
        num_classes: C.

    Source: docs/protocol.md §6.
    """

    arch = "smallcnn"
    residual = False

    def __init__(
        self,
        image: int = 32,
        channels: int = 3,
        width: int = 32,
        d: int = 256,
        L: int = 3,
        terminal_ln: bool = False,
        num_classes: int = 10,
    ) -> None:
        args = checked_args(SmallCNN, locals())
        if image % 8:
            what = f"smallcnn halves the image three times, image is {image}"
            raise UsageError(what, hint="use a multiple of 8")
        if L not in (0, 3):
            what = f"smallcnn has 3 blocks after its first convolution, L is {L}"
            raise UsageError(what, hint="use L=3, or L=0")
        maps = [(width << l, image >> (l + 1), image >> (l + 1)) for l in range(3)]
        states: list[Shape] = [*maps, (d,)][: L + 1]
        super().__init__(args, (channels, image, image), states)
        self.embed = ConvBlock(channels, width)
        dense = DenseBlock(4 * width * (image // 8) ** 2, d)
        blocks = [ConvBlock(width, 2 * width), ConvBlock(2 * width, 4 * width), dense]
        self.blocks = nn.ModuleList(blocks[:L])
        self.out_ln = terminal_norm(self.credit_sizes[-1], terminal_ln)
        self.head = nn.Linear(self.credit_sizes[-1], num_classes)

    def read(self, h: Tensor) -> Tensor:
        """h_L, flattened."""
        return h.flatten(1)

    @classmethod
    def infer_args(cls, shapes: Mapping[str, Shape]) -> dict[str, int]:
        """Arguments from the convolutions and the first layer after a flattened map."""
        width, channels, _, _ = shapes["embed.conv.weight"]
        common = common_args(shapes)
        if common["L"]:
            dense = shapes["blocks.2.fc.weight"]
            d = dense[0]
            image = 8 * isqrt(dense[1] // (4 * width))
        else:
            d = 256
            image = 2 * isqrt(shapes["head.weight"][1] // width)
        return {"image": image, "channels": channels, "width": width, "d": d, **common}
