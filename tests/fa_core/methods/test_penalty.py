"""The penalty λ·Σ‖f‖² and whom it reaches."""

from __future__ import annotations

import pytest
import torch

from fa_core.methods import make_method
from fa_core.models import StreamNet
from tests.fa_core.methods.conftest import Batch


@pytest.mark.parametrize("name", ["bp", "dfa", "frozen"])
def test_the_loss_grows_by_lambda_times_the_penalty(
    name: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    method = make_method(name, net)
    plain, info = method.loss(net, x, y)
    penalised, _ = method.loss(net, x, y, 0.25)
    _, stream = net(x, return_hidden=True)
    by_hand = sum(net.branch(l, stream[l]).square().sum(1).mean() for l in range(net.n_blocks))
    assert torch.allclose(info.penalty, torch.as_tensor(by_hand), rtol=1e-5)
    assert torch.allclose(penalised - plain, 0.25 * info.penalty, rtol=1e-4)


@pytest.mark.parametrize(("name", "reaches"), [("bp", True), ("dfa", False)])
def test_it_reaches_the_embedding_under_backprop_only(
    name: str, reaches: bool, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    method = make_method(name, net)
    weight = net.embed.weight
    assert isinstance(weight, torch.Tensor)
    (plain,) = torch.autograd.grad(method.loss(net, x, y)[0], weight)
    (penalised,) = torch.autograd.grad(method.loss(net, x, y, 1.0)[0], weight)
    assert torch.allclose(plain, penalised) is not reaches
