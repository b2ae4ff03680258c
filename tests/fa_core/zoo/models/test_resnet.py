"""The CIFAR ResNets, written again with loops over their layers."""

import pytest
import torch
from torch import nn

from fa_core.errors import UsageError
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build


class Written(nn.Module):
    """ResNet-(6n + 2) from He et al. §4.2, under BioTorch's names, parameter-free shortcuts."""

    def __init__(self, n):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16)
        width = 16
        for stage in (1, 2, 3):
            layer = nn.Sequential()
            for index in range(n):
                out = 16 * 2 ** (stage - 1)
                block = nn.Module()
                block.conv1 = nn.Conv2d(width, out, 3, 1 if width == out else 2, 1, bias=False)
                block.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
                block.bn1, block.bn2 = nn.BatchNorm2d(out), nn.BatchNorm2d(out)
                layer.add_module(str(index), block)
                width = out
            self.add_module(f"layer{stage}", layer)
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        h = self.bn1(self.conv1(x)).clamp(min=0)
        for stage in (1, 2, 3):
            for block in getattr(self, f"layer{stage}"):
                new = block.bn2(block.conv2(block.bn1(block.conv1(h)).clamp(min=0)))
                if new.shape != h.shape:
                    shortcut = torch.zeros_like(new)
                    old = h.shape[1]
                    shortcut[:, old // 2 : old // 2 + old] = h[:, :, ::2, ::2]
                    h = shortcut
                h = (new + h).clamp(min=0)
        return self.fc(h.flatten(2).mean(2))


@pytest.mark.parametrize(
    ("arch", "n", "parameters"), [("resnet20", 3, 269_722), ("resnet56", 9, 853_018)]
)
def test_a_checkpoint_in_biotorchs_layout_is_the_resnet_it_was(arch, n, parameters, tmp_path):
    torch.manual_seed(0)
    theirs = Written(n).eval()
    assert sum(p.numel() for p in theirs.parameters()) == parameters
    for module in theirs.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.2, 0.2)
            nn.init.uniform_(module.running_var, 0.5, 2)
    torch.save({"model": theirs.state_dict()}, tmp_path / "dfa_s42.pt")
    ours = loaded(load_checkpoint(tmp_path / "dfa_s42.pt"))[0].eval()
    x = torch.randn(2, 3, 32, 32)
    assert ours.arch == arch
    assert torch.allclose(ours(x), theirs(x), atol=1e-5)
    larger = torch.randn(2, 3, 40, 40)
    assert torch.allclose(ours(larger), theirs(larger), atol=1e-5)


def test_fa_is_refused_where_the_head_pools():
    with pytest.raises(
        UsageError, match=r"small_resnet's head reads the mean over a map; train it with dfa"
    ):
        make_method("fa", build("small_resnet", image=8, width=4))
