"""Labels of every pixel, against the same network and labels given as tokens."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from fa_core import diagnose
from fa_core.errors import MeasureError, TapError

DRAWS = torch.Generator().manual_seed(1)
LABELS = torch.tensor([0, 1, 2, -100])
BATCHES = [
    (torch.randn(6, 2, 4, 3, generator=DRAWS), LABELS[torch.randint(4, (6, 4, 3), generator=DRAWS)])
    for _ in range(8)
]


class Segmenter(nn.Module):
    def __init__(self, stride=1):
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Conv2d(2, 5, 3, padding=1)
        self.block = nn.Conv2d(5, 5, 3, padding=1, stride=stride)
        self.head = nn.Conv2d(5, 3, 1)
        self.stride = stride

    def forward(self, x):
        h = self.embed(x)
        if self.stride > 1:
            return F.interpolate(self.head(self.block(h)), x.shape[-2:])
        return self.head(h + self.block(h))


def middle(states, y):
    """Medians over the pixels that count."""
    norms = states.detach().double().norm(dim=1)
    return norms.masked_fill(y < 0, torch.nan).flatten(1).nanmedian(1).values


def test_numbers_are_those_by_hand_and_ignored_pixels_do_not_count():
    """Per sample the median over its pixels, then the median over samples (docs/protocol.md §2)."""
    net = Segmenter()
    report = diagnose(net, BATCHES, taps=["block:in", "head:in"], norm_batches=8)
    norms, gradients, right = [], [], []
    for x, y in BATCHES:
        h_0 = net.embed(x).detach().requires_grad_()
        h_1 = h_0 + net.block(h_0)
        logits = net.head(h_1)
        loss = F.cross_entropy(logits, y)
        (g_1,) = torch.autograd.grad(loss, h_1)
        norms.append(middle(h_1, y))
        # every batch at the count of the first
        gradients.append(middle(g_1, y) * (y >= 0).sum() / report.batch_size)
        right.append((logits.argmax(1) == y)[y >= 0])
    assert report.h_L == pytest.approx(float(torch.cat(norms).median()), rel=1e-6)
    assert report.g_L == pytest.approx(float(torch.cat(gradients).median()), rel=1e-5)
    assert report.headline_acc == pytest.approx(float(torch.cat(right).double().mean()))
    assert report.flatten == "per token" and "c" in report.coverage


def test_streams_and_labels_of_another_resolution_are_refused():
    x, y = BATCHES[0]
    for stride, labels, kind, said in (
        (2, y, TapError, r"tap head:in .*states \(B, d, H, W\)"),
        (1, y[:, :2], MeasureError, r"labels have shape \(6, 2, 3\)"),
    ):
        with pytest.raises(kind, match=said):
            diagnose(Segmenter(stride), [(x, labels)], taps=["block:in", "head:in"])
