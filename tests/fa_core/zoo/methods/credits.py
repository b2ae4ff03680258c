"""Small networks and batches, and what is asked of a rule on them."""

import torch
from torch.testing import assert_close

from fa_core.zoo.models import build

NETWORKS = {
    "resmlp": {"input_dim": 12, "d": 16, "L": 3},
    "vit_mini": {"image": 8, "patch": 4, "d": 16, "L": 2},
    "smallcnn": {"image": 8, "width": 4, "d": 12},
    "resnet20": {"image": 8, "width": 4, "L": 3},
    "resnet56": {"image": 8, "width": 3, "L": 3},
    "small_resnet": {"image": 8, "width": 4},
    "resmlp_wide": {"input_dim": 12, "d": 16, "L": 3},
    "studentnet": {"input_dim": 12, "d": 16, "L": 3},
}


def network(arch, **changes):
    return build(arch, **{"seed": 0, **NETWORKS[arch], **changes})


def batch(net, size=6):
    """(x, y) that fit a network."""
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(size, *net.input_shape, generator=generator).to(net.head.weight.dtype)
    y = torch.randint(net.num_classes, (size,), generator=generator)
    return x, y


def credit_of(rule, net, x, y):
    logits, stream = net(x, return_hidden=True)
    return rule.credit(net, stream, logits, y)


def slopes_of(rule, net, x, y, lam=0.0):
    """The gradient of every parameter."""
    return torch.autograd.grad(rule.loss(net, x, y, lam)[0], list(net.parameters()))


def same(found, expected, rtol=1e-6, atol=1e-12):
    """Every tensor is the expected one; no layer may lack its own."""
    assert_close(list(found), list(expected), rtol=rtol, atol=atol)


def weights_now(module):
    return {key: value.clone() for key, value in module.state_dict().items()}


def train(rule, net, steps, size=6, optimizer=None, lam=0.0):
    """Steps on one batch."""
    optimizer = optimizer or torch.optim.AdamW(rule.trained_parameters(net), lr=3e-3)
    x, y = batch(net, size)
    for _ in range(steps):
        loss, info = rule.loss(net, x, y, lam)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        rule.extra_step(net, info)
