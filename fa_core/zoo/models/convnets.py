"""Convolutional networks for small images, with BatchNorm: a plain one, without residual
connections, and residual ones, whose tensors have BioTorch's names."""

from __future__ import annotations

from itertools import pairwise
from math import isqrt
from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from fa_core.errors import UsageError
from fa_core.zoo.models.base import (
    Shape,
    Shapes,
    StreamNet,
    checked_args,
    common_args,
    terminal_norm,
)


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
            raise UsageError(
                f"smallcnn halves the image three times, image is {image}",
                hint="use a multiple of 8",
            )
        if L not in (0, 3):
            raise UsageError(
                f"smallcnn has 3 blocks after its first convolution, L is {L}",
                hint="use L=3, or L=0",
            )
        states: list[Shape] = []
        for l in range(3):
            side = image >> (l + 1)
            states.append((width << l, side, side))
        states.append((d,))
        super().__init__(args, (channels, image, image), states[: L + 1])
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
    def infer_args(cls, shapes: Shapes) -> dict[str, int]:
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


STAGES = 3
"""Stages of a network; from one to the next the map halves and the channels double."""


class BasicBlock(nn.Module):
    """f(h) = ReLU(BN(conv(ReLU(BN(conv(h))))) + S(h)); (B, c, s, s) → (B, c', s', s').

    S has no parameters ("option A"). It is h itself or, if the map shrinks, every other row and
    column of h, padded with zero channels: half of them before the old channels, half after.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.added = outputs - inputs
        stride = 2 if self.added else 1
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)

    def forward(self, h: Tensor) -> Tensor:
        inner = F.relu(self.bn1(self.conv1(h)))
        branch = self.bn2(self.conv2(inner))
        if self.added:
            before = self.added // 2
            every_other = h[:, :, ::2, ::2]
            h = F.pad(every_other, (0, 0, 0, 0, before, self.added - before))
        return F.relu(branch + h)


class SmallResNet(StreamNet):
    """Convolution; three stages of L/3 blocks with w, 2w, 4w channels; mean over the map; head.

    h_0 is the first convolution's output after BatchNorm and ReLU. A block ends in a ReLU, so
    h_{l+1} = f_l(h_l).

    Args:
        image: side of the square image; other sides are accepted as well.
        channels: of the image.
        width: w (default 32).
        L: number of blocks, a multiple of 3 (default 3; 0 = the shallow control).
        terminal_ln: whether the head reads LN of the mean; not in the published network.
        num_classes: C.

    Source: docs/protocol.md §6; He et al., CVPR 2016, §4.2.
    """

    arch = "small_resnet"
    residual = False
    usual = (32, 3)
    """Default w and L."""
    exactly: ClassVar[int | None] = 3
    """The only L that `infer_args` accepts; None = any."""
    conv1: nn.Conv2d
    fc: nn.Linear

    def __init__(
        self,
        image: int = 32,
        channels: int = 3,
        width: int | None = None,
        L: int | None = None,
        terminal_ln: bool = False,
        num_classes: int = 10,
    ) -> None:
        if width is None:
            width = self.usual[0]
        if L is None:
            L = self.usual[1]
        args = checked_args(type(self), locals())
        if L % STAGES:
            raise UsageError(
                f"{self.arch} has {STAGES} stages of equal length, L is {L}",
                hint="use a multiple of 3",
            )
        stages = [l * STAGES // L for l in range(L)]
        states = []
        for stage in (0, *stages):
            side = -(-image // (1 << stage))
            states.append((width << stage, side, side))
        super().__init__(args, (channels, image, image), states)
        self.conv1 = nn.Conv2d(channels, width, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        layers = {stage: nn.Sequential() for stage in stages}
        for stage, (before, after) in zip(stages, pairwise(states), strict=True):
            layers[stage].append(BasicBlock(before[0], after[0]))
        for stage, layer in layers.items():
            self.add_module(f"layer{stage + 1}", layer)
        last = states[-1][0]
        self.out_ln = terminal_norm(last, terminal_ln)
        self.fc = nn.Linear(last, num_classes)

    @property
    def embed(self) -> nn.Module:  # type: ignore[override]
        """The first convolution with its BatchNorm and ReLU."""
        return nn.Sequential(self.conv1, self.bn1, nn.ReLU())

    @property
    def blocks(self) -> nn.ModuleList:  # type: ignore[override]
        """The blocks of all stages."""
        return nn.ModuleList(module for module in self.modules() if isinstance(module, BasicBlock))

    @property
    def head(self) -> nn.Linear:  # type: ignore[override]
        """The head, ``fc``."""
        return self.fc

    def embed_input(self, x: Tensor) -> Tensor:
        """h_0 of images of any size, or as `StreamNet.embed_input`."""
        if x.dim() == 4 and x.shape[1] == self.input_shape[0]:
            embedded: Tensor = self.embed(x)
            return embedded
        return super().embed_input(x)

    def read(self, h: Tensor) -> Tensor:
        """The mean over the map."""
        return h.mean(dim=(2, 3))

    @classmethod
    def infer_args(cls, shapes: Shapes) -> dict[str, int]:
        """Arguments from ``conv1``, ``fc`` and the blocks; no tensor shows the image's side."""
        width, channels, _, _ = shapes["conv1.weight"]
        L = sum(name.startswith("layer") and name.endswith(".conv1.weight") for name in shapes)
        if cls.exactly not in (L, None):
            raise ValueError(f"{L} blocks")
        return {
            "image": 32,
            "channels": channels,
            "width": width,
            **common_args(shapes, "fc"),
            "L": L,
        }


class ResNet56(SmallResNet):
    """`SmallResNet` with 27 blocks and w = 16."""

    arch = "resnet56"
    usual = (16, 27)
    exactly = 27


class ResNet20(SmallResNet):
    """`SmallResNet` with 9 blocks and w = 16; with another L, ResNet-(2L + 2)."""

    arch = "resnet20"
    usual = (16, 9)
    exactly = None
