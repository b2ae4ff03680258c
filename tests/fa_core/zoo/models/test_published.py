"""The published ResMLP, written again from its description, and networks saved under earlier or other names."""

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fa_core.audit.jobs import Job
from fa_core.audit.loading import load
from fa_core.measure.checkpoint import load_checkpoint
from fa_core.measure.checkpoint_network import loaded
from fa_core.report.manifest import Manifest
from fa_core.training.run_files import RunWriter
from fa_core.zoo.models import build


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.ln, self.w1, self.w2 = nn.LayerNorm(d), nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, h):
        z = self.w1(self.ln(h))
        return h + self.w2(0.5 * z * (1 + torch.erf(z / 2**0.5)))


class Published(nn.Module):
    def __init__(self, inputs, d, L, classes):
        super().__init__()
        self.embed, self.out_ln, self.out_head = (
            nn.Linear(inputs, d),
            nn.LayerNorm(d),
            nn.Linear(d, classes),
        )
        self.blocks = nn.ModuleList(Block(d) for _ in range(L))

    def forward(self, x):
        h = self.embed(x.flatten(1))
        for block in self.blocks:
            h = block(h)
        return self.out_head(self.out_ln(h))


def test_the_second_layer_of_a_published_block_starts_small():
    state = build("resmlp", d=256, L=2, seed=3).state_dict()
    for l in range(2):
        assert float(state[f"blocks.{l}.w2.weight"].std()) == pytest.approx(0.01, rel=0.02)
        assert abs(float(state[f"blocks.{l}.w2.weight"].mean())) < 2e-4
        assert not state[f"blocks.{l}.w2.bias"].any()
        assert float(state[f"blocks.{l}.w1.weight"].abs().max()) == pytest.approx(1 / 16, rel=1e-3)


def test_a_checkpoint_of_the_source_project_is_recognised_with_its_feedback(tmp_path):
    theirs, feedback = Published(12, 16, 2, 4), [torch.randn(4, 16) for _ in range(3)]
    torch.save({"model": theirs.state_dict(), "Bs": feedback}, tmp_path / "dfa_s42.pt")
    checkpoint = load_checkpoint(tmp_path / "dfa_s42.pt")
    found = loaded(checkpoint)[0]
    x = torch.randn(5, 12)
    assert torch.allclose(found(x), theirs(x), atol=1e-6)
    assert torch.equal(checkpoint.feedback["B_2"], feedback[2])


@pytest.mark.parametrize("L", [0, 2])
def test_a_run_of_the_earlier_resmlp_is_read_as_what_it_is(tmp_path, L):
    """Its manifest says ``resmlp``; its blocks are d → hidden → d, named fc1 and fc2, and its head is ``head``."""
    net = build("resmlp_wide", input_dim=6, d=8, L=L, hidden=12, num_classes=10, seed=0).eval()
    args = {"input_dim": 6, "d": 8, "L": L, "hidden": 12, "terminal_ln": True, "num_classes": 10}
    manifest = Manifest(
        method="dfa", arch="resmlp", arch_args=args, data="synthetic:input=6", seed=1
    )
    RunWriter(tmp_path).manifest(manifest)
    save_file(net.state_dict(), tmp_path / "model.safetensors")
    found = load(Job(id="a", checkpoint=str(tmp_path)), "cpu").network
    x = torch.randn(5, 6)
    assert torch.equal(found.eval()(x), net(x))
