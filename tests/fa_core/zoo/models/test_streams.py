"""Every network exposes the stream it really computes with."""

import pytest
import torch

from fa_core.errors import MeasureError, UsageError
from fa_core.zoo.models import ARCHS, build
from tests.fa_core.zoo.methods.credits import NETWORKS, batch, network


def small(arch, **changes):
    return network(arch, **changes).eval()


def test_every_network_has_a_small_case_here():
    assert set(NETWORKS) == set(ARCHS)


@pytest.mark.parametrize("arch", NETWORKS)
@pytest.mark.parametrize("terminal_ln", [True, False])
def test_the_tail_from_any_layer_gives_the_logits_of_the_whole_network(arch, terminal_ln):
    net = small(arch, terminal_ln=terminal_ln)
    x, _ = batch(net)
    logits, stream = net(x, return_hidden=True)
    assert len(stream) == net.n_blocks + 1
    assert torch.equal(net(x), logits)
    for l, h in enumerate(stream):
        assert torch.allclose(net.tail(l, h), logits, atol=1e-6)
        assert tuple(h.shape[1:]) == net.state_shapes[l]


def test_the_head_of_a_transformer_reads_only_the_cls_token():
    net = small("vit_mini")
    _, stream = net(batch(net)[0], return_hidden=True)
    other = stream[-1].clone()
    other[:, 1:] += 1
    assert torch.equal(net.readout(other), net.readout(stream[-1]))


def test_attention_equals_pytorchs_own():
    net = small("vit_mini")
    ours = net.blocks[0].attention
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.qkv_weight.reshape(48, 16))
        theirs.in_proj_bias.copy_(ours.qkv_bias.reshape(48))
        theirs.out_proj.load_state_dict(ours.proj.state_dict())
        h = torch.randn(3, 5, 16)
        assert torch.allclose(ours(h), theirs(h, h, h)[0], atol=1e-6)


def test_data_that_do_not_fit_say_both_shapes():
    with pytest.raises(MeasureError, match=r"\(12,\).*\(5, 7\)"):
        small("resmlp")(torch.randn(5, 7))


@pytest.mark.parametrize(
    ("arch", "args"),
    [
        ("resmlp", {"d": 0}),
        ("resmlp", {"L": -1}),
        ("vit_mini", {"image": 8, "patch": 3}),
        ("vit_mini", {"d": 10, "heads": 4}),
        ("smallcnn", {"image": 12}),
        ("smallcnn", {"L": 2}),
        ("resnet20", {"L": 4}),
    ],
)
def test_sizes_that_cannot_be_meant_are_refused_with_their_value(arch, args):
    with pytest.raises(UsageError, match=str(next(iter(args.values())))):
        build(arch, **args)


def test_a_seed_gives_the_same_weights_and_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    first, again, other = (network("resmlp", seed=seed) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_a_random_resmlp_of_published_size_has_the_published_norms():
    """Norms ~8.7 and gradients ~8e-3 at batch 128 (docs/protocol.md §11)."""
    net = build("resmlp", seed=0)
    x, y = batch(net, 128)
    logits, stream = net(x, return_hidden=True)
    gradients = torch.autograd.grad(torch.nn.functional.cross_entropy(logits, y), stream)
    for h, g in zip(stream, gradients, strict=True):
        assert 7 < h.norm(dim=1).median() < 12
        assert 5e-3 < g.norm(dim=1).median() < 1.2e-2
